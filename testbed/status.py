"""What a command's exit status says."""

from collections.abc import Iterable

HOLDS, VIOLATED, UNKNOWN = 0, 1, 2


def status_of(answers: Iterable[str]) -> int:
    """The status for several verdicts and claims: violated if any is, or is no; holds if all do, or are yes."""
    seen = {str(answer) for answer in answers}
    return VIOLATED if seen & {"violated", "no"} else HOLDS if seen and seen <= {"holds", "yes"} else UNKNOWN
