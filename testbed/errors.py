"""The error that ends a command without a result."""


class CannotRun(Exception):
    """Something is missing or wrong. The message tells the user what, where, and what to do. The exit status is 2."""
