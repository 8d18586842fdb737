"""The error about runs and their files that users see."""


class ResultsError(Exception):
    """A file or run cannot be read, analysed or packed; the message says why and what to do."""
