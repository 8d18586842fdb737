"""Real networks by name: the Internet Topology Zoo and the other collections of the `topohub` package.

Every node becomes a switch with a LAN of hosts, and every line an expensive link. Nodes keep their places (longitude and latitude), but
not their names, which are free text and often not unique: the n-th node is called sn.
"""

import difflib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Unpack

import msgspec

from topologies.builders import assemble, expensive_link
from topologies.layout import Place
from topologies.network import Network, NetworkError
from topologies.properties import Expensive

# Light in glass fibre travels about two thirds as fast as in a vacuum.
FIBRE_KM_PER_MS = 200.0


class _Node(msgspec.Struct):
    id: str | int
    pos: Place


class _Line(msgspec.Struct):
    source: str | int
    target: str | int
    dist: float = 0.0


class _Map(msgspec.Struct):
    nodes: list[_Node]
    edges: list[_Line]


def zoo_network(name: str, hosts_per_switch: int = 1, delay_from_length: bool = False, **expensive: Unpack[Expensive]) -> Network:
    """Build the network that topohub calls `name`, for example `topozoo/Arpanet19728`.

    With `delay_from_length` each link's delay is its length divided by the speed of light in fibre, 200 km per millisecond.
    """
    if hosts_per_switch < 1:
        raise NetworkError(f"hosts_per_switch must be at least 1, not {hosts_per_switch}")
    if delay_from_length and "delay_ms" in expensive:
        raise NetworkError("give either delay_ms or delay_from_length, not both")
    chart = _read(name)
    index = {node.id: number for number, node in enumerate(chart.nodes)}
    trunks = []
    for line in chart.edges:
        if delay_from_length:
            expensive["delay_ms"] = line.dist / FIBRE_KM_PER_MS
        trunks.append(expensive_link(index[line.source], index[line.target], **expensive))
    homes = (switch for switch in range(len(chart.nodes)) for _ in range(hosts_per_switch))
    return assemble(name, [node.pos for node in chart.nodes], homes, trunks, radius=None)


def zoo_names() -> list[str]:
    """All names that `zoo_network` knows."""
    return sorted(_names(_data(), ""))


def _data() -> Traversable:
    # Only the data of topohub is used: its reader leaves the file open, and takes names such as `../x` that lead out of its folder.
    return resources.files("topohub") / "data"


def _names(folder: Traversable, prefix: str) -> list[str]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            found.append(prefix + entry.name.removesuffix(".json"))
    return found


def _read(name: str) -> _Map:
    names = zoo_names()
    if name not in names:
        raise NetworkError(f"topohub has no network {name!r}; {_suggestion(name, names)}")
    return msgspec.json.decode((_data() / f"{name}.json").read_bytes(), type=_Map)


def _suggestion(name: str, names: list[str]) -> str:
    folded = {known.casefold(): known for known in names}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=5)]
    if close:
        return f"did you mean {', '.join(close)}?"
    return f"its {len(names)} names are like topozoo/Arpanet19728, in the groups {', '.join(sorted({n.split('/')[0] for n in names}))}"
