"""No duplication: no host delivers a message twice, also not before and after a restart.

A host that restarts without its storage cannot know what it delivered before: that is another life, and counts apart.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, holds_unless_damaged, name, nothing_to_judge, violated
from analysis.judging.history import Delivery, History
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Remember every delivery."""
    first: dict[tuple[str, int, str, int], Delivery] = {}
    for delivery in history.deliveries:
        life = connectivity.life(delivery.host, delivery.at_ns)
        earlier = first.setdefault((delivery.host, life, delivery.origin, delivery.sequence), delivery)
        if earlier is not delivery:
            return violated(_sentence(earlier, delivery, Clock(history), connectivity), earlier, delivery)
    return nothing_to_judge(history) or holds_unless_damaged(history)


def _sentence(one: Delivery, two: Delivery, time: Clock, connectivity: Connectivity) -> str:
    restarted = any(one.at_ns < at_ns <= two.at_ns for at_ns in connectivity.restarts.get(one.host, ()))
    between = ", with a restart in between" if restarted else ""
    return f"{one.host} delivered {name(one.message)} twice, at {time(one.at_ns)} and {time(two.at_ns)}{between}"
