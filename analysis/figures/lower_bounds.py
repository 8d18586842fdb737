"""The least that any protocol has to pay for messages, by their destinations.

The clusters of a message are those of its destinations, without the cluster of its origin. Each of them must be entered over an expensive
link, and the farthest one is some expensive links away. So the crossings are at least the number of clusters, and at least that distance.
A packet from host to host reaches one cluster, so there are as many packets as clusters; a packet to a group may reach all of them.
Messages that share packets can cost less.
"""

from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from analysis.judging.history import History, MessageId
from topologies.network import Network
from topologies.paths import path


class LowerBounds(NamedTuple):
    """The fewest packets per message that cross an expensive link, and the fewest crossings; whole numbers if they are."""

    packets: float
    crossings: float


def lower_bounds(
    network: Network, history: History, *, multicasts: bool, messages: Collection[MessageId] | None = None
) -> LowerBounds:
    """The mean of the bounds of some messages, by default of all. Without messages, the bounds of a message for everybody."""
    kinds = Counter(
        (message[0], to) for message, to in history.destinations.items() if messages is None or message in messages
    ) or Counter({(network.hosts[0], network.hosts): 1})
    clusters = {kind: _clusters(network, *kind) for kind in kinds}
    farthest = {kind: _farthest(network, *kind) for kind in kinds}
    packets = sum(times * min(clusters[kind], 1 if multicasts else clusters[kind]) for kind, times in kinds.items())
    crossings = sum(times * max(clusters[kind], farthest[kind]) for kind, times in kinds.items())
    return LowerBounds(_mean(packets, kinds.total()), _mean(crossings, kinds.total()))


def _mean(total: int, count: int) -> float:
    mean = Fraction(total, count)
    return mean.numerator if mean.denominator == 1 else float(mean)


def _clusters(network: Network, origin: str, destinations: tuple[str, ...]) -> int:
    """How many clusters have destinations, besides that of the origin."""
    cluster_of = _cluster_of(network)
    return len({cluster_of[host] for host in destinations} - {cluster_of[origin]})


def _farthest(network: Network, origin: str, destinations: tuple[str, ...]) -> int:
    """The number of expensive links on the way to the farthest destination."""
    return max((_distance(network, origin, host) for host in destinations if host != origin), default=0)


@cache
def _cluster_of(network: Network) -> dict[str, int]:
    return {host: number for number, cluster in enumerate(network.clusters) for host in cluster}


@cache
def _distance(network: Network, one: str, other: str) -> int:
    return sum(link.expensive for link in path(network, one, other))
