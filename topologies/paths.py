"""Paths over switches: the fewest expensive links first, the fewest hops second, ties to the switch listed first.

The controller's routes and every statement about paths come from here, so they cannot disagree.
"""

import heapq
from collections.abc import Callable
from functools import cache

from topologies.network import Link, Network


def next_hops(network: Network, towards: str, usable: Callable[[Link], bool] = lambda _: True) -> dict[str, str]:
    """For every switch that can reach the switch `towards` over usable links, the neighbouring switch to send to.

    Distances are settled outwards from the destination, so following next hops always shortens the distance: no loops.
    """
    order = network.datapaths
    best: dict[str, tuple[int, int]] = {towards: (0, 0)}
    hops: dict[str, str] = {}
    settled: set[str] = set()
    heap = [(0, 0, order[towards], towards)]
    while heap:
        expensive, length, _, switch = heapq.heappop(heap)
        if switch in settled:
            continue
        settled.add(switch)
        for neighbour, link in network.neighbours[switch].items():
            if neighbour not in order or neighbour in settled or not usable(link):
                continue
            distance = (expensive + link.expensive, length + 1)
            known = best.get(neighbour)
            if known is None or (distance, order[switch]) < (known, order[hops[neighbour]]):
                best[neighbour] = distance
                hops[neighbour] = switch
                heapq.heappush(heap, (*distance, order[neighbour], neighbour))
    return hops


@cache
def _all_up(network: Network, towards: str) -> dict[str, str]:
    return next_hops(network, towards)


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
