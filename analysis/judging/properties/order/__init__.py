"""The order in which hosts deliver or commit messages."""
