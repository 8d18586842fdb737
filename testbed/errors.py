"""The two ways in which a command ends without a result."""


class CannotRun(Exception):
    """Something is missing or wrong, and the message is a sentence for the user: what, where, and what to do. Exit status 2."""
