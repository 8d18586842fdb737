"""What to set so that a verdict that is unknown becomes certain."""

import math
from collections.abc import Iterable, Mapping

from analysis.judging.check_run import connectivity_of
from analysis.judging.findings import Finding, Verdict
from runfiles.reading import RunInput

# What checkers say where more time after the last broadcast or fault would have decided.
_TOO_SHORT = ("too soon", "the run ended before")
# The time after which most deliveries have been made, also where packets are lost.
_SOON_S = 15


def hints(runs: Iterable[tuple[RunInput, Mapping[str, Finding]]]) -> list[str]:
    """A sentence for each protocol with promises that are unknown because a run was too short: how long it should go on.

    What is on its way is mostly there soon. What is missing when the patience of the protocol is over breaks a promise.
    """
    needed: dict[str, int] = {}
    for run, findings in runs:
        reasons = [finding.reason for finding in findings.values() if finding.verdict is Verdict.UNKNOWN]
        if any(word in reason for reason in reasons for word in _TOO_SHORT):
            patience_s = math.ceil(connectivity_of(run).patience_ns(run.run.promise) / 1e9)
            needed[run.run.protocol] = max(patience_s, needed.get(run.run.protocol, 0))
    return [
        f"{protocol}: the run was too short for a verdict: let it go on for longer after the last broadcast or fault, with "
        f"--set settle={min(_SOON_S, most_s)}s{f'; settle={most_s}s is always enough' if most_s > _SOON_S else ''}"
        for protocol, most_s in needed.items()
    ]
