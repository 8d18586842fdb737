"""Validity: a message is delivered by every correct host that it is for and could have reached, its origin included.

Second paper, best-effort validity, with "eventually" made finite: the protocol itself states who passes messages on (`promise.carrier`) and
how long a way must stay open (`promise.patience_ms`). The promise also binds an origin that crashes after its way was open for that long.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, cannot_judge
from analysis.judging.history import History
from analysis.judging.properties.delivery.missing_deliveries import Debt, deliverers, settle
from hostagent.contract.promises import Promise


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """For every message that a destination lacks, find the hosts that it could have reached.

    A case is a message at a correct host that it is for.
    """
    if stop := cannot_judge(history):
        return stop
    delivered, patience_ns = deliverers(history), connectivity.patience_ns(promise)
    debts = (
        Debt(broadcast, connectivity.could_reach(broadcast, promise.carrier, patience_ns))
        for broadcast in history.broadcasts
        if len(delivered.get(broadcast.message, ())) < len(broadcast.destinations(history.hosts))
    )
    paid = sum(len(connectivity.correct & delivered.get(message, {}).keys()) for message in history.broadcast_at)
    return settle(history, connectivity, delivered, debts, paid)
