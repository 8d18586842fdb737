"""Multiple-source order: two hosts that deliver two messages to one group deliver them in the same order, whoever sent them.

Third paper, section 1.1 (b); `failures` says which hosts and deliveries count for each strength.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Finding
from analysis.judging.history import History
from analysis.judging.properties.order.disagreement import comparable, contradiction, tell
from analysis.judging.properties.order.failures import Counterexample, Failures, judge_order
from analysis.judging.properties.order.logs import VERB, by_group, groups, logs
from hostagent.contract.promises import Order, Promise


def check(order: Order, history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare the logs of all hosts, one group at a time. A case is two hosts that delivered the same two messages of a group."""
    parts = by_group(logs(order, history, promise, connectivity), groups(history)).values()

    def look(failures: Failures) -> tuple[int, Counterexample | None]:
        cases = sum(comparable(of_group, failures) for of_group in parts)
        found = next(filter(None, (contradiction(of_group, failures) for of_group in parts)), None)
        return cases, found and tell(order, history, found)

    none = f"no two hosts {VERB[order.of]} the same two messages of a group"
    return judge_order(order, history, promise, connectivity, look, none)
