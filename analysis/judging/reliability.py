"""Relative reliability (first paper, section 1): of the opportunities that the network offered, the share that a protocol used.

An opportunity is a pair of a message and a destination, other than its origin, to which some protocol could have brought the message: over
ways from host to host, each open for the protocol's patience. A delivery over a way that was open for less was evidently possible, so it
counts as an opportunity too.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History
from analysis.judging.properties.delivery.missing_deliveries import deliverers
from hostagent.contract.promises import Carrier, Promise


def relative_reliability(history: History, promise: Promise, connectivity: Connectivity) -> float | None:
    """Delivered pairs of a message and a destination, as a share of the possible pairs; None if there are none."""
    delivered, patience_ns = deliverers(history), connectivity.patience_ns(promise)
    first = {broadcast.message: broadcast for broadcast in reversed(history.broadcasts)}
    used = possible = 0
    for message, broadcast in first.items():
        others = {*(broadcast.destinations(history.hosts))} - {broadcast.origin}
        has = others & delivered.get(message, {}).keys()
        used += len(has)
        possible += len(has)
        if len(has) < len(others):
            could = connectivity.could_reach(broadcast, Carrier.ANYONE, patience_ns).by_ns.keys()
            possible += len(others & could - has)
    return used / possible if possible else None
