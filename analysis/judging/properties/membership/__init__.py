"""Checkers of promises about the members of groups: their views, and what all members have received."""
