"""The book's own fences: one module each, registered in mkdocs.yml as custom fences of SuperFences."""
