#!./castbed run
"""LAN clusters joined by expensive links in a line, ring, star, tree, mesh or grid: the cost and delay of a broadcast.

The lower bound is k - 1 expensive packets per message for k clusters. `castbed demo` runs this scenario.
"""

from typing import Unpack

from scenarios import Scenario, Workload
from topologies import clusters
from topologies.properties import Expensive


def scenario(k: int = 4, size: int = 3, shape: str = "ring", switches: int = 1, **expensive: Unpack[Expensive]) -> Scenario:
    """Broadcast from the first host of the first cluster for 30 s: with 12 hosts, `cluster-tree` promises a tree after 28.5 s.

    k: clusters
    size: hosts of each cluster
    shape: how clusters are joined: line, ring, star, tree, mesh or grid
    switches: switches of each cluster, in a line
    """
    return Scenario(network=clusters(k, size, shape, switches, **expensive), workload=Workload(messages=600))
