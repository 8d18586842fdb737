#!./castbed run
"""Any network: of=topozoo/Arpanet19728, of=figure-3-2, of=my-network.json.

./castbed run topology --set of=figure-3-1
"""

from scenarios import Scenario, Time, pulled
from topologies import find


def scenario(of: str = "figure-3-2", pull: str = "", pull_at: Time = 400.0) -> Scenario:
    """Broadcast from the first host of any network that can be named."""
    return Scenario(network=find(of), faults=pulled(pull, at_ms=pull_at))
