"""No duplication: no host delivers a message twice, not even once before and once after a restart, unless it took the first one back.

A host that restarts without its storage cannot know what it delivered before. That is another life, which counts separately.
"""

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, name, violated
from analysis.judging.history import Delivery, History
from analysis.judging.marks import second
from hostagent.contract.promises import Promise


def check(history: History, _promise: Promise, connectivity: Connectivity) -> Finding:
    """Look for a second delivery of the same message. Each delivery is a case."""
    cases = len(history.deliveries)
    if twice := second(history.deliveries, history.taken_back, connectivity):
        return violated(cases, _sentence(*twice, Clock(history), connectivity), *twice)
    return kept(history, cases, "no message was delivered")


def _sentence(one: Delivery, two: Delivery, time: Clock, connectivity: Connectivity) -> str:
    restarted = any(one.at_ns < at_ns <= two.at_ns for at_ns in connectivity.restarts.get(one.host, ()))
    between = ", with a restart in between" if restarted else ""
    return f"{one.host} delivered {name(one.message)} twice, at {time(one.at_ns)} and {time(two.at_ns)}{between}"
