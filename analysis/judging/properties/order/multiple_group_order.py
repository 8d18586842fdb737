"""Multiple-group (total) order: two hosts that deliver two messages deliver them in the same order, whoever sent them to whichever groups.

Third paper, section 1.1 (c), as R1 of section 6.3: for all deliveries at all hosts, also hosts that crash later.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, kept
from analysis.judging.history import History
from analysis.judging.properties.order.delivery_logs import comparable, contradiction, logs, tell
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the logs of all hosts. A case is two hosts that delivered the same two messages."""
    all_logs = logs(history, connectivity)
    cases = comparable(all_logs)
    if found := contradiction(all_logs):
        return tell(history, found, cases)
    return kept(history, cases, "no two hosts delivered the same two messages")
