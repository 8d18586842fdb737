"""Multiple-source order: two hosts that deliver two messages of the same group deliver them in the same order, whoever sent them.

Third paper, section 1.1 (b), as R1 of section 6.3: for all deliveries at all hosts, also hosts that crash later.
"""

from collections import defaultdict

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, kept
from analysis.judging.history import History
from analysis.judging.properties.order.delivery_logs import Log, comparable, contradiction, groups, logs, tell
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the logs of all hosts, one group at a time. A case is two hosts that delivered the same two messages of a group."""
    group_of = groups(history)
    by_group: dict[int, list[Log]] = defaultdict(list)
    for log in logs(history, connectivity):
        parts: dict[int, Log] = defaultdict(list)
        for delivery in log:
            parts[group_of[delivery.message]].append(delivery)
        for group, part in parts.items():
            by_group[group].append(part)
    cases = sum(map(comparable, by_group.values()))
    for _, of_group in sorted(by_group.items()):
        if found := contradiction(of_group):
            return tell(history, found, cases)
    return kept(history, cases, "no two hosts delivered the same two messages of a group")
