"""Agreement: a message that one correct host delivers is delivered by every correct host that could have got it from there.

Second paper, reliable broadcast. Whoever delivered a message can pass it on, from host to host, over ways that stay open for the protocol's
patience each.
"""

from collections.abc import Iterable, Iterator

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, nothing_to_judge, unknown
from analysis.judging.history import History
from analysis.judging.missing_deliveries import Debt, Deliverers, deliverers, settle
from hostagent.contract.promises import Carrier, Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """For every message that some have and some have not, find out who could have got it from those who have it."""
    if history.damage:
        return unknown(history.damage[0])
    delivered = deliverers(history)
    owed = debts(delivered.values(), history, promise, connectivity)
    return nothing_to_judge(history) or settle(history, connectivity, delivered, owed)


def debts(delivered: Iterable[Deliverers], history: History, promise: Promise, connectivity: Connectivity) -> Iterator[Debt]:
    """What correct hosts that delivered a message owe the others."""
    patience_ns = connectivity.patience_ns(promise)
    for has in delivered:
        since = {host: delivery.at_ns for host, delivery in has.items() if host in connectivity.correct}
        if since and len(has) < len(history.hosts):
            yield Debt(has[next(iter(since))], connectivity.reach(since, Carrier.ANYONE, patience_ns))
