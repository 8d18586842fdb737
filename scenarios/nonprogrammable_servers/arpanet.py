#!./castbed run
"""The ARPANET of August 1972 with a LAN at each of its 29 nodes: the cost of a message against k - 1 = 28 (claim 1).

Lines between nodes are expensive. With basic, every host outside the source's LAN costs two packets: message and acknowledgement.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, Runs, least_cost
from scenarios import Scenario, Workload
from topologies import zoo_network
from topologies.properties import Expensive

STANDS_S = 8.0


def scenario(hosts: int = 2, **expensive: Unpack[Expensive]) -> Scenario:
    """A stream from the first host of the first node.

    hosts: hosts at each node
    """
    return Scenario(
        network=zoo_network("topozoo/Arpanet19728", hosts, **expensive),
        protocols=("cluster-tree", "basic"),
        workload=Workload(messages=400, interval=40.0, settle=3000.0),
    )


def claims(runs: Runs) -> Iterator[Claim]:
    """The cost is the least possible, and every message is delivered."""
    run = runs["cluster-tree"]
    yield least_cost(run, STANDS_S)
    share = run.summary.delivered_share or 0
    yield Claim("1", "cluster-tree: every host delivers every message", share == 1, f"{100 * share:.1f} % delivered")
