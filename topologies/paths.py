"""Paths and multicast trees over switches: with the fewest expensive links, then the fewest hops, then the switch listed first.

The routes of the controller and every statement about paths come from this module, so they cannot disagree.

A tree that reaches some of the switches at the least cost is a Steiner tree, which nobody finds quickly. `group_tree` uses the method of
Takahashi and Matsuyama: begin at one member's switch, and join the nearest member's switch that is missing by the best path to the tree.
Where every cluster of the network has a member, that is Prim's algorithm, and the tree has the fewest expensive links possible: k - 1.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import combinations

from topologies.network import Link, Network

Edges = dict[str, dict[str, None]]
"""For every switch of a tree, its neighbours in the tree."""


def next_hops(network: Network, towards: str, usable: Callable[[Link], bool] = lambda _: True) -> dict[str, str]:
    """For every switch that can reach the switch `towards` over usable links, the neighbouring switch to send to."""
    return _grow(network, {towards: {}}, (), usable)


def group_tree(
    network: Network, members: Iterable[str], usable: Callable[[Link], bool] = lambda _: True
) -> Mapping[str, tuple[str, ...]]:
    """For every switch that can reach a member of a group over usable links, the neighbours to which it sends the group's packets.

    One tree serves all sources. A switch never sends a packet back to where it came from, so a packet that enters the tree anywhere
    reaches every member once: a switch of the tree sends to all its neighbours in the tree, and any other switch to the next one on the
    way to the tree. If the network is in pieces, each piece that has members has a tree of its own.
    """
    wanted = frozenset(members)
    hosts = [host for host in network.hosts if host in wanted and usable(network.link(host, network.access_switch(host)))]
    terminals = dict.fromkeys(network.access_switch(host) for host in hosts)
    edges: Edges = {}
    hops: dict[str, str] = {}
    for switch in terminals:
        if switch not in edges:
            piece: Edges = {switch: {}}
            hops |= _grow(network, piece, terminals, usable)
            edges |= piece
    for host in hosts:
        edges[network.access_switch(host)][host] = None
    return {switch: (hop,) for switch, hop in hops.items()} | {switch: tuple(following) for switch, following in edges.items()}


def _grow(network: Network, tree: Edges, terminals: Iterable[str], usable: Callable[[Link], bool]) -> dict[str, str]:
    """Join to a tree every terminal that can reach it; for every switch outside the tree that can reach it, the next hop towards it.

    Distances are settled outwards from the tree, so following next hops always shortens the distance: no loops. A path that joins the
    tree is at distance zero from then on, and the distances behind it are settled anew.
    """
    order, missing = network.datapaths, {*terminals}.difference(tree)
    best = dict.fromkeys(tree, (0, 0))
    hops: dict[str, str] = {}
    heap = [(0, 0, order[switch], switch) for switch in tree]
    while heap:
        expensive, length, _, switch = heapq.heappop(heap)
        if (expensive, length) != best[switch]:
            continue
        if switch in missing:
            joined = _join(tree, switch, hops)
            missing.difference_update(joined)
            best |= dict.fromkeys(joined, (0, 0))
            for new in joined:
                heapq.heappush(heap, (0, 0, order[new], new))
            continue
        for neighbour, link in network.neighbours[switch].items():
            if neighbour not in order or neighbour in tree or not usable(link):
                continue
            distance, known = (expensive + link.expensive, length + 1), best.get(neighbour)
            if known is None or (distance, order[switch]) < (known, order[hops[neighbour]]):
                best[neighbour] = distance
                hops[neighbour] = switch
                heapq.heappush(heap, (*distance, order[neighbour], neighbour))
    return {switch: hop for switch, hop in hops.items() if switch not in tree}


def _join(tree: Edges, switch: str, hops: Mapping[str, str]) -> list[str]:
    """Add the path from a switch to the tree; the switches that are new in the tree."""
    joined = []
    while switch not in tree:
        joined.append(switch)
        tree[switch] = {}
        switch = hops[switch]
    for new in joined:
        tree[new][hops[new]] = None
        tree[hops[new]][new] = None
    return joined


def distance(network: Network, one: str, other: str) -> float:
    """The distance of two hosts: the number of expensive links between their switches, plus a thousandth for each link.

    The links of the hosts themselves do not count. So a path over hosts that lie on the way is as long as the direct path.
    """
    expensive, links = _lengths(network, network.access_switch(other))[network.access_switch(one)]
    return expensive + links / 1000


@cache
def _lengths(network: Network, towards: str) -> dict[str, tuple[int, int]]:
    """For every switch, the expensive links and all links of its path to the switch `towards`."""
    hops = _all_up(network, towards)
    found = {towards: (0, 0)}
    for start in hops:
        way = [start]
        while way[-1] not in found:
            way.append(hops[way[-1]])
        for switch, following in zip(way[-2::-1], way[:0:-1], strict=True):
            expensive, links = found[following]
            found[switch] = expensive + network.link(switch, following).expensive, links + 1
    return found


@cache
def _all_up(network: Network, towards: str) -> dict[str, str]:
    return next_hops(network, towards)


def round_trip_ms(network: Network) -> float:
    """The longest round trip of two hosts when every link is up, by the delays of the links alone."""
    if not any(link.delay_ms for link in network.links):
        return 0.0
    ways = (path(network, one, other) for one, other in combinations(network.hosts, 2))
    return 2 * max(sum(link.delay_ms for link in way) for way in ways)


def path(network: Network, source: str, destination: str) -> tuple[Link, ...]:
    """The links that a packet crosses from one host to another when every link is up."""
    last = network.access_switch(destination)
    hops = _all_up(network, last)
    node = network.access_switch(source)
    links = [network.link(source, node)]
    while node != last:
        links.append(network.link(node, hops[node]))
        node = hops[node]
    return (*links, network.link(last, destination))
