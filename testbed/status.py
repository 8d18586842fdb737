"""What a command's exit status says."""

from collections.abc import Iterable

HOLDS, VIOLATED, UNKNOWN = 0, 1, 2


def status_of(verdicts: Iterable[str]) -> int:
    """The status for several verdicts: violated if any is, holds if all do."""
    seen = {str(verdict) for verdict in verdicts}
    return VIOLATED if "violated" in seen else HOLDS if seen == {"holds"} else UNKNOWN
