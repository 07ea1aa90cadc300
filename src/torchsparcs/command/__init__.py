"""The command line, ``sparcs``: it parses, calls and prints."""
