"""Figures as data: docs/data/<topic>.yml, read with line numbers, checked, and looked up by name."""
