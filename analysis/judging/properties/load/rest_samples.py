"""What hosts do when there is nothing left to do: the samples that quiescence and bounded memory look at.

There is something left to do while messages are broadcast, while faults go on, and as long as a host is down or cut off, since others may
try to reach it. After that a protocol has its patience to come to rest. A protocol that is at rest earlier keeps its promise; one that is
not at rest by then breaks it.
"""

from typing import NamedTuple

from analysis.judging import findings
from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding
from analysis.judging.history import History, Sample
from hostagent.contract.promises import Promise


class Rest(NamedTuple):
    """By when the hosts must be at rest, and each host's samples since the last broadcast or fault."""

    due_ns: int
    samples: dict[str, list[Sample]]


def cannot_judge(history: History, connectivity: Connectivity) -> Finding | None:
    """Why it cannot be judged how the hosts come to rest; None if it can."""
    if connectivity.is_whole:
        return findings.cannot_judge(history)
    return findings.cannot_judge(history) or findings.not_tested(
        "at the end a host was down or cut off, so there was something left to do"
    )


def rest(history: History, promise: Promise, connectivity: Connectivity) -> Rest:
    """By when the hosts must be at rest, and the samples of each host since there was nothing left to do."""
    last_broadcast_ns = history.broadcasts[-1].at_ns if history.broadcasts else 0
    since_ns = max(last_broadcast_ns, connectivity.last_fault_ns or 0)
    samples: dict[str, list[Sample]] = {host: [] for host in history.hosts}
    for sample in history.samples:
        if sample.at_ns > since_ns:
            samples[sample.host].append(sample)
    return Rest(since_ns + connectivity.patience_ns(promise), samples)
