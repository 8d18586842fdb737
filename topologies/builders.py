"""Builders of networks: grids, clusters in several shapes, a LAN, and the two figures of the first paper.

Hosts are called h1, h2, ... and switches s1, s2, ... Links between clusters are expensive and take their properties from keyword
arguments; everything else is cheap and unlimited.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from topologies.layout import Place, around, circle
from topologies.network import MOST_HOSTS, Cost, Link, Network, NetworkError
from topologies.properties import Expensive

Pair = tuple[int, int]

# Low enough that a few datagrams a second are visible in the delay, and high enough for all control messages of a small experiment.
EXPENSIVE_MBIT = 10.0


def grid(rows: int, cols: int, hosts_per_switch: int = 1, **expensive: Unpack[Expensive]) -> Network:
    """A grid of LANs: one switch with its hosts at every crossing, expensive links between neighbouring switches."""
    _check_counts(rows * cols * hosts_per_switch, rows=rows, cols=cols, hosts_per_switch=hosts_per_switch)
    return assemble(
        f"grid-{rows}x{cols}x{hosts_per_switch}",
        places=_grid_places(rows * cols, cols, 1.0),
        homes=(switch for switch in range(rows * cols) for _ in range(hosts_per_switch)),
        trunks=[expensive_link(a, b, **expensive) for a, b in _grid_pairs(rows * cols, cols)],
        radius=0.3,
    )


def clusters(k: int, size: int, shape: str, switches_per_cluster: int = 1, **expensive: Unpack[Expensive]) -> Network:
    """Make `k` LANs of `size` hosts, joined by expensive links into a line, ring, star, binary tree, full mesh or near-square grid.

    A LAN is a line of switches with cheap links. Its hosts and the expensive links that reach it are distributed over its switches in turn.
    """
    per = switches_per_cluster
    _check_counts(k * max(size, per), k=k, size=size, switches_per_cluster=per)
    if shape not in SHAPES:
        raise NetworkError(f"there is no shape {shape!r}: choose one of {', '.join(SHAPES)}")
    lines = [Link(_switch(first + i), _switch(first + i + 1)) for first in range(0, k * per, per) for i in range(per - 1)]
    dealt = [itertools.cycle(range(first, first + per)) for first in range(0, k * per, per)]
    trunks = [expensive_link(next(dealt[a]), next(dealt[b]), **expensive) for a, b in SHAPES[shape].pairs(k)]
    # Neighbours on the inner circle are 1.4 apart. The start angle keeps vertical and horizontal links off other switches.
    inner = circle(per, 0.7 / math.sin(math.pi / per) if per > 1 else 0.0, start=0.75)
    return assemble(
        f"clusters-{shape}-{k}x{size}" + (f"-{per}-switches" if per > 1 else ""),
        places=[(x + dx, y + dy) for x, y in SHAPES[shape].places(k, 2.5 if per == 1 else per + 2.5) for dx, dy in inner],
        homes=(cluster * per + i % per for cluster in range(k) for i in range(size)),
        trunks=[*lines, *trunks],
        radius=0.65,
    )


def lan(hosts: int, **properties: Unpack[Expensive]) -> Network:
    """Make one LAN: a switch with its hosts and no expensive link. The properties are those of the links between hosts and switch."""
    _check_counts(hosts, hosts=hosts)
    plain = assemble(f"lan-{hosts}", [(0.0, 0.0)], homes=[0] * hosts, trunks=(), radius=0.65)
    return replace(plain, links=tuple(replace(link, **properties) for link in plain.links))


def figure_3_1(**expensive: Unpack[Expensive]) -> Network:
    """Build figure 3.1 of the first paper: why no protocol that runs on hosts alone can have optimal cost.

    From the text: hosts h1 (the source), h2 and h3 at servers s1, s2 and s3, each of which is linked to server s4, which has no host.
    Our choice: the links between servers are expensive, so every host is a cluster of its own.
    """
    places = [(-1.0, 0.0), (0.7, 0.7), (0.7, -0.7), (0.0, 0.0)]
    trunks = [expensive_link(server, 3, **expensive) for server in range(3)]
    return assemble("figure-3-1", places, homes=range(3), trunks=trunks, radius=0.4)


def figure_3_2(repaired: bool = False, **expensive: Unpack[Expensive]) -> Network:
    """Build a network for figure 3.2 of the first paper, the example of a cluster tree.

    From the text: hosts in clusters, the clusters in a tree rooted at the source's, and two of them, C and L, that a high-bandwidth
    path joins into one cluster when it is repaired. With `repaired` that path, the cheap link s3-s5, is part of the network.
    Our choice, as the drawing is lost: six clusters of one switch each. The root A (s1: h1, the source, to h3) has the children
    B (s2: h4, h5) and C (s3: h6 to h8), B has D (s4: h9, h10) and L (s5: h11, h12), and C has E (s6: h13, h14); an expensive link
    for every edge of that tree. C and L have different parents, so that once joined they are a cluster with two leaders.
    """
    places = [(0.0, 0.0), (-1.5, -1.5), (1.5, -1.5), (-2.5, -3.0), (-0.3, -3.0), (2.1, -3.0)]
    trunks = [expensive_link(a, b, **expensive) for a, b in ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5))]
    path = [Link(_switch(2), _switch(4))] if repaired else []
    homes = (switch for switch, hosts in enumerate((3, 2, 3, 2, 2, 2)) for _ in range(hosts))
    return assemble("figure-3-2-repaired" if repaired else "figure-3-2", places, homes, [*trunks, *path], radius=0.55)


def expensive_link(a: int, b: int, **properties: Unpack[Expensive]) -> Link:
    """Make an expensive link between two switches given by index."""
    if "bandwidth_mbit" not in properties:
        properties["bandwidth_mbit"] = EXPENSIVE_MBIT
    return Link(_switch(a), _switch(b), Cost.EXPENSIVE, **properties)


def assemble(name: str, places: Sequence[Place], homes: Iterable[int], trunks: Sequence[Link], radius: float | None) -> Network:
    """Make a network from the places of switches, the index of the switch of each host, and the links between switches.

    Hosts are placed at `radius` from their switch. Without a radius only switches have places, and `layout.positions` places the hosts.
    """
    switches = {_switch(index): place for index, place in enumerate(places)}
    access = [Link(f"h{number}", _switch(home)) for number, home in enumerate(homes, start=1)]
    links = (*access, *trunks)
    positions = switches if radius is None else around(switches, links, radius)
    # Rounded for readers of files, and since the last digits of sines differ between machines.
    tidy = {node: (round(x, 3), round(y, 3)) for node, (x, y) in positions.items()}
    return Network(name, tuple(link.a for link in access), tuple(switches), links, tidy)


def _switch(index: int) -> str:
    return f"s{index + 1}"


def _check_counts(total: int, /, **counts: int) -> None:
    """Refuse impossible sizes before anything is built, so that a typing error does not fill the memory."""
    for name, count in counts.items():
        if count < 1:
            raise NetworkError(f"{name} must be at least 1, not {count}")
    if total > MOST_HOSTS:
        sizes = ", ".join(f"{name}={count}" for name, count in counts.items())
        raise NetworkError(f"{sizes} is too large: a network has at most {MOST_HOSTS} hosts")


def _line_pairs(count: int) -> Iterator[Pair]:
    return itertools.pairwise(range(count))


def _ring_pairs(count: int) -> Iterator[Pair]:
    """Join each cluster to the next one, and the last to the first; a ring of two is a line."""
    return itertools.chain(_line_pairs(count), [(count - 1, 0)] if count > 2 else [])


def _star_pairs(count: int) -> Iterator[Pair]:
    return ((0, leaf) for leaf in range(1, count))


def _tree_pairs(count: int) -> Iterator[Pair]:
    return (((child - 1) // 2, child) for child in range(1, count))


def _mesh_pairs(count: int) -> Iterator[Pair]:
    return itertools.combinations(range(count), 2)


def _grid_pairs(count: int, cols: int) -> Iterator[Pair]:
    for index in range(count):
        if (index + 1) % cols and index + 1 < count:
            yield index, index + 1
        if index + cols < count:
            yield index, index + cols


def _line_places(count: int, gap: float) -> list[Place]:
    return [(index * gap, 0.0) for index in range(count)]


def _ring_places(count: int, gap: float) -> list[Place]:
    """Neighbours are `gap` apart, measured along the circle."""
    return circle(count, gap * count / math.tau)


def _star_places(count: int, gap: float) -> list[Place]:
    leaves = count - 1
    return [(0.0, 0.0), *circle(leaves, gap * max(1.0, leaves / math.tau))]


def _tree_places(count: int, gap: float) -> list[Place]:
    width = gap * 2 ** (count.bit_length() - 1)
    levels = [(index + 1).bit_length() - 1 for index in range(count)]
    return [((index + 1.5 - 2**level) * width / 2**level, -level * gap) for index, level in enumerate(levels)]


def _grid_places(count: int, cols: int, gap: float) -> list[Place]:
    return [(index % cols * gap, -(index // cols) * gap) for index in range(count)]


def _near_square(count: int) -> int:
    """The number of columns that makes a grid of `count` nearly square."""
    return math.isqrt(count - 1) + 1


@dataclass(frozen=True)
class Shape:
    """A way to join clusters: the pairs to join, and the places of their centres, about `gap` apart."""

    pairs: Callable[[int], Iterator[Pair]]
    places: Callable[[int, float], list[Place]]


SHAPES = {
    "line": Shape(_line_pairs, _line_places),
    "ring": Shape(_ring_pairs, _ring_places),
    "star": Shape(_star_pairs, _star_places),
    "tree": Shape(_tree_pairs, _tree_places),
    "mesh": Shape(_mesh_pairs, _ring_places),
    "grid": Shape(
        lambda count: _grid_pairs(count, _near_square(count)), lambda count, gap: _grid_places(count, _near_square(count), gap)
    ),
}
