"""Networks as plain data, and functions that build, find, read and write them.

Importing this package is fast, since agents, the controller and the command line import it on every start. Functions that need networkx
import it themselves, the data of topohub is read when one of its networks is used, and matplotlib is imported by `topologies.drawing`
alone, which is not imported here.
"""

from topologies.builders import SHAPES, clusters, figure_3_1, figure_3_2, grid, lan
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
    "lan",
    "load",
    "next_hops",
    "path",
    "zoo_names",
    "zoo_network",
]
