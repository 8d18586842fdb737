"""The exit status of commands."""

from collections.abc import Iterable

HOLDS, VIOLATED, UNKNOWN = 0, 1, 2


def status_of(answers: Iterable[str]) -> int:
    """The status for verdicts and claims: violated if one is violated or no; holds if all hold or are yes; else unknown."""
    seen = {str(answer) for answer in answers}
    return VIOLATED if seen & {"violated", "no"} else HOLDS if seen and seen <= {"holds", "yes"} else UNKNOWN
