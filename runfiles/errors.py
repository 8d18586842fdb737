"""What the analysis raises for its users."""


class ResultsError(Exception):
    """The analysis cannot be done; the message says why and what to do."""
