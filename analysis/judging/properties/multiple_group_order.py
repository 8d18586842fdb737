"""Multiple-group (total) order: two hosts that deliver two messages deliver them in the same order, whoever sent them to whichever groups.

Third paper, section 1.1 (c), as R1 of section 6.3 for all deliveries at all hosts, those included that crash later.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding, holds_unless_damaged, nothing_to_judge
from analysis.judging.history import History
from analysis.judging.orders import contradiction, logs, tell
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the logs of all hosts."""
    if found := contradiction(logs(history, connectivity)):
        return tell(history, found)
    return nothing_to_judge(history) or holds_unless_damaged(history)
