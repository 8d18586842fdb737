"""Where to draw the nodes of a network: hosts go around their switch, into the widest gaps that the links between switches leave."""

import math
from collections.abc import Iterable, Mapping, Sequence

from topologies.network import Link, Network

Place = tuple[float, float]

# With more switches than this, a force-directed layout takes too long: its time and memory are quadratic.
MOST_FORCED = 2000


def positions(network: Network) -> dict[str, Place]:
    """A place for every node: the places that the network has, if it has all of them, else computed ones, always the same.

    If only the switches have places, as on a map, switches that are too close are moved apart to make room for the hosts.
    """
    if len(network.positions) == len(network.hosts) + len(network.switches):
        return dict(network.positions)
    switches = {switch: network.positions[switch] for switch in network.switches if switch in network.positions}
    if len(switches) < len(network.switches):
        switches = _force_directed(network)
    room = math.sqrt(math.prod(extent(switches.values())) / len(switches))
    return around(_spread(switches, 0.6 * room), network.links, 0.24 * room)


def around(switches: Mapping[str, Place], links: Iterable[Link], radius: float) -> dict[str, Place]:
    """The places of the switches, and places for their hosts on a circle around each switch."""
    hosts: dict[str, list[str]] = {switch: [] for switch in switches}
    bearings: dict[str, list[float]] = {switch: [] for switch in switches}
    for link in links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            if here in switches and there in switches:
                (x1, y1), (x2, y2) = switches[here], switches[there]
                bearings[here].append(math.atan2(y2 - y1, x2 - x1))
            elif here in switches:
                hosts[here].append(there)
    places = dict(switches)
    for switch, (x, y) in switches.items():
        for host, angle in zip(hosts[switch], _free_angles(bearings[switch], len(hosts[switch])), strict=True):
            places[host] = (x + radius * math.cos(angle), y + radius * math.sin(angle))
    return places


def circle(count: int, radius: float, start: float = math.pi / 2) -> list[Place]:
    """Places on a circle around the origin, clockwise from the angle `start`."""
    turns = [start - math.tau * number / count for number in range(count)]
    return [(radius * math.cos(turn), radius * math.sin(turn)) for turn in turns]


def _free_angles(taken: Sequence[float], count: int) -> list[float]:
    """Angles for `count` hosts: each host goes into the gap between taken angles that leaves the most room per host."""
    if not taken:
        return [math.pi / 2 - math.tau * number / count for number in range(count)]
    edges = sorted(taken)
    gaps = [(after - before, before) for before, after in zip(edges, [*edges[1:], edges[0] + math.tau], strict=True)]
    shares = [0] * len(gaps)
    for _ in range(count):
        # Rounded, so that gaps that differ in the last bit only are filled in the same order on every machine.
        roomiest = max(range(len(gaps)), key=lambda gap: (round(gaps[gap][0] / (shares[gap] + 1), 9), -gap))
        shares[roomiest] += 1
    return [
        start + width * (number + 1) / (share + 1)
        for (width, start), share in zip(gaps, shares, strict=True)
        for number in range(share)
    ]


def extent(places: Iterable[Place]) -> Place:
    """The width and the height of a drawing, each at least 0.3 of the other, so that the picture is no line."""
    xs, ys = zip(*places, strict=True)
    width, height = max(xs) - min(xs), max(ys) - min(ys)
    longest = max(width, height) or 1.0
    return max(width, 0.3 * longest), max(height, 0.3 * longest)


def _spread(switches: Mapping[str, Place], apart: float) -> dict[str, Place]:
    """Push switches that are closer than `apart` away from each other, in small steps; the others stay."""
    import numpy as np  # noqa: PLC0415 - only pictures need it

    if len(switches) > MOST_FORCED:
        return dict(switches)
    # Switches in the same place have no direction to move apart: offsets on a tiny circle give each its own.
    points = np.array(list(switches.values())) + np.array(circle(len(switches), apart / 1000))
    for _ in range(100):
        between = points[:, None] - points[None, :]
        distances = np.hypot(between[..., 0], between[..., 1])
        np.fill_diagonal(distances, apart)
        push = np.clip(apart - distances, 0, None) / distances
        points += 0.3 * (between * push[..., None]).sum(axis=1)
    return {switch: (float(x), float(y)) for switch, (x, y) in zip(switches, points, strict=True)}


def _force_directed(network: Network) -> dict[str, Place]:
    import networkx as nx  # noqa: PLC0415 - takes long to import

    graph = nx.Graph()
    graph.add_nodes_from(network.switches)
    graph.add_edges_from((link.a, link.b) for link in network.links if not {link.a, link.b} & network.numbers.keys())
    if len(graph) > MOST_FORCED:
        return dict(zip(network.switches, circle(len(graph), 1.0), strict=True))
    # The method is named because the default for large graphs needs SciPy.
    places = nx.spring_layout(graph, seed=1, method="force", iterations=200)
    return {switch: (float(x), float(y)) for switch, (x, y) in places.items()}
