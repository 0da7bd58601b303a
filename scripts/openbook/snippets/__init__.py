"""Snippets: what an author expects of a fence, and whether it holds."""
