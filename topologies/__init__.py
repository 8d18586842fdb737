"""Networks as plain data, and the ways to get one.

Importing this package is fast: networkx is imported by the functions that need it, topohub's data is read only when one of its
networks is asked for, and matplotlib comes in with `topologies.drawing`, which is not imported here. Agents, controllers and the
command line import networks on every start and draw none.
"""

from topologies.builders import SHAPES, clusters, figure_3_1, figure_3_2, grid
from topologies.catalogue import choices, find
from topologies.files import dump, load
from topologies.network import Cost, Link, Network, NetworkError
from topologies.paths import next_hops, path
from topologies.zoo import zoo_names, zoo_network

__all__ = [
    "SHAPES",
    "Cost",
    "Link",
    "Network",
    "NetworkError",
    "choices",
    "clusters",
    "dump",
    "figure_3_1",
    "figure_3_2",
    "find",
    "grid",
    "load",
    "next_hops",
    "path",
    "zoo_names",
    "zoo_network",
]
