"""Multiple-group (total) order: two hosts that deliver two messages deliver them in the same order, whoever sent them to whichever groups.

Third paper, section 1.1 (c); `failures` says which hosts and deliveries count for each strength.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding
from analysis.judging.history import History
from analysis.judging.properties.order.disagreement import comparable, contradiction, tell
from analysis.judging.properties.order.failures import Counterexample, Failures, judge_order
from analysis.judging.properties.order.logs import VERB, logs
from hostagent.contract.promises import Order, Promise


def check(order: Order, history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the logs of all hosts. A case is two hosts that delivered the same two messages."""
    all_logs = logs(order, history, promise, connectivity)

    def look(failures: Failures) -> tuple[int, Counterexample | None]:
        found = contradiction(all_logs, failures)
        return comparable(all_logs, failures), found and tell(order, history, found)

    none = f"no two hosts {VERB[order.of]} the same two messages"
    return judge_order(order, history, promise, connectivity, look, none)
