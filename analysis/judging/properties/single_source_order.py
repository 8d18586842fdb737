"""Single-source order (FIFO): messages that one host broadcasts to one group are delivered in the order in which it broadcast them.

Third paper, section 1.1 (a). It is about what is delivered: a message that never comes is a matter of validity, not of order.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, holds_unless_damaged, name, nothing_to_judge, violated
from analysis.judging.history import Delivery, History
from analysis.judging.orders import Log, groups, logs
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """A host's log is in order if no sequence number is below the highest one before it, for each origin and group."""
    group_of = groups(history)
    found = [pair for log in logs(history, connectivity) if (pair := _inversion(log, group_of))]
    if not found:
        return nothing_to_judge(history) or holds_unless_damaged(history)
    early, late = min(found, key=lambda pair: pair[1].at_ns)
    time = Clock(history)
    sentence = (
        f"{late.host} delivered {name(early.message)} at {time(early.at_ns)} and only then, at {time(late.at_ns)}, "
        f"message {late.sequence}, which {late.origin} broadcast before it"
    )
    return violated(sentence, early, late)


def _inversion(log: Log, group_of: dict[tuple[str, int], int]) -> tuple[Delivery, Delivery] | None:
    highest: dict[tuple[str, int], Delivery] = {}
    for delivery in log:
        key = delivery.origin, group_of[delivery.message]
        before = highest.get(key)
        if before is not None and delivery.sequence < before.sequence:
            return before, delivery
        highest[key] = delivery
    return None
