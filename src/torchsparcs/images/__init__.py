"""Image data sets by name or file."""
