#!./castbed run
"""Any network: of=topozoo/Arpanet19728, of=figure-3-2, of=my-network.json.

./castbed run topology --set of=figure-3-1
"""

from scenarios import Scenario, Time, pulled
from topologies import find


def scenario(of: str = "figure-3-2", pull: str = "", pull_at: Time = 400.0) -> Scenario:
    """Broadcast from the first host of any network that can be named.

    of: the network: a name, such as topozoo/Arpanet19728, or a file
    pull: the link to take down, such as s1-s2; none if empty
    pull_at: when it goes down
    """
    return Scenario(network=find(of), faults=pulled(pull, at_ms=pull_at))
