"""Names are real: variables, options and calls that a page writes exist in what upstream publishes."""
