"""Single-source order (FIFO): messages that one host broadcasts to one group are delivered in the order in which it broadcast them.

Third paper, section 1.1 (a). The property is about what is delivered: a missing message is a matter of validity, not of order.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import Delivery, History
from analysis.judging.properties.order.delivery_logs import Log, groups, logs
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """A host's log is in order if no sequence number is below the highest one before it, for each origin and group.

    A case is a delivery at a host that has delivered another message of the same origin to the same group before.
    """
    group_of, all_logs = groups(history), logs(history, connectivity)
    found = [pair for log in all_logs if (pair := _inversion(log, group_of))]
    cases = sum(len(log) - len({(delivery.origin, group_of[delivery.message]) for delivery in log}) for log in all_logs)
    if not found:
        return kept(history, cases, "no host delivered two messages of one origin")
    early, late = min(found, key=lambda pair: pair[1].at_ns)
    time = Clock(history)
    sentence = (
        f"{late.host} delivered {name(early.message)} at {time(early.at_ns)} and only then, at {time(late.at_ns)}, "
        f"message {late.sequence}, which {late.origin} broadcast before it"
    )
    return violated(cases, sentence, early, late)


def _inversion(log: Log, group_of: dict[tuple[str, int], int]) -> tuple[Delivery, Delivery] | None:
    highest: dict[tuple[str, int], Delivery] = {}
    for delivery in log:
        key = delivery.origin, group_of[delivery.message]
        before = highest.get(key)
        if before is not None and delivery.sequence < before.sequence:
            return before, delivery
        highest[key] = delivery
    return None
