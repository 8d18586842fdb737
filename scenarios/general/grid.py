#!./castbed run
"""A grid of LANs with expensive links between neighbours; pull=s1-s2 takes a link down while messages are sent.

Grids have loops and several shortest paths: the controller must route around a lost link, and no packet may loop.

    ./castbed run grid --set rows=4 --set cols=4 --set hosts=3 --set pull=s6-s7
"""

from typing import Unpack

from scenarios import Scenario, Time, pulled
from topologies import grid
from topologies.properties import Expensive


def scenario(
    rows: int = 3, cols: int = 3, hosts: int = 2, pull: str = "", pull_at: Time = 400.0, **expensive: Unpack[Expensive]
) -> Scenario:
    """Broadcast from the first corner of a grid.

    rows: rows of switches
    cols: columns of switches
    hosts: hosts at each switch
    pull: the link to take down, such as s1-s2; none if empty
    pull_at: when it goes down
    """
    return Scenario(network=grid(rows, cols, hosts, **expensive), faults=pulled(pull, at_ms=pull_at))
