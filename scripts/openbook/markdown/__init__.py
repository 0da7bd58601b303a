"""Markdown extensions of the book: what the renderer does beyond its libraries."""
