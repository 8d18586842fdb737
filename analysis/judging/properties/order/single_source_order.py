"""Single-source order (FIFO): messages that one host broadcasts to one group are delivered in the order in which it broadcast them.

Third paper, section 1.1 (a). The property is about what is delivered: a missing message is a matter of validity, not of order. `failures`
says which hosts and deliveries count for each strength.
"""

from collections.abc import Hashable

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, name
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.properties.order.failures import Counterexample, Failures, judge_order
from analysis.judging.properties.order.logs import VERB, Log, groups, logs, shown
from hostagent.contract.promises import Order, Promise


def check(order: Order, history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """A host's log is in order if no sequence number is below the highest one before it, for each origin and group.

    A case is a delivery at a host that has delivered another message of the same origin to the same group before.
    """
    group_of, all_logs = groups(history), logs(order, history, promise, connectivity)

    def look(failures: Failures) -> tuple[int, Counterexample | None]:
        looked = [_in_log(log, group_of, failures) for log in all_logs]
        found = min((pair for _, pair in looked if pair), key=lambda pair: pair[1].at_ns, default=None)
        return sum(cases for cases, _ in looked), found and _tell(order, history, *found)

    none = f"no host {VERB[order.of]} two messages of one origin"
    return judge_order(order, history, promise, connectivity, look, none)


def _in_log(log: Log, group_of: dict[MessageId, Hashable], failures: Failures) -> tuple[int, tuple[Delivery, Delivery] | None]:
    """How many cases a log has, and the first that is out of order, after the delivery that came too early."""
    highest: dict[tuple[str, Hashable], Delivery] = {}
    cases, found = 0, None
    for one in log:
        key = one.origin, group_of[one.message]
        before = highest.get(key)
        if before is not None and not failures.is_lost_to_all(one):
            cases += 1
            if one.sequence < before.sequence:
                found = found or (before, one)
        if before is None or one.sequence > before.sequence:
            highest[key] = one
    return cases, found


def _tell(order: Order, history: History, early: Delivery, late: Delivery) -> Counterexample:
    time = Clock(history)
    sentence = (
        f"{late.host} {VERB[order.of]} {name(early.message)} at {time(early.at_ns)} and only then, at {time(late.at_ns)}, "
        f"message {late.sequence}, which {late.origin} broadcast before it"
    )
    return sentence, shown(order, early, late)
