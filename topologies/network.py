"""A network as plain, immutable data: hosts, switches and the links between them.

Everything that runs, routes, draws or analyses a network starts from this value and derives the rest. Port numbers, addresses and
datapath identifiers follow from the order in which nodes and links are listed, so two programs that have the same network agree on them.
Every `Network` is valid: the constructor refuses an invalid one with a `NetworkError`.

Two rules keep the cost bit right: a host has exactly one link, to a switch, and that link is cheap. Switches mark a packet when they send
it *out* of an expensive port, so a packet from a host on an expensive access link would not be marked. Put a switch in between instead.
"""

import enum
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address

from topologies import units

# Open vSwitch numbers its OpenFlow ports from 1 to 65279.
MOST_PORTS = 65279
# A sender is two bytes on the wire, and 0 means "nobody".
MOST_HOSTS = 65535
# The default queue of a link with limited bandwidth, in packets: 120 ms of full packets at 10 Mbit/s.
DEFAULT_QUEUE = 100
# Linux allows 15 characters in an interface name. A host's interface is called NAME-eth0, a switch's NAME-ethPORT.
LONGEST_INTERFACE = 15
LONGEST_NAME = LONGEST_INTERFACE - len("-eth0")

# A group is two bytes of its IPv4 address; 0 is everybody, and 65535 marks messages with destinations of their own.
MOST_GROUPS = 65534

_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}")
_FIRST_ADDRESS = int(IPv4Address("10.0.0.0"))
# Addresses for use inside one site (RFC 2365).
_FIRST_GROUP_ADDRESS = int(IPv4Address("239.1.0.0"))


class NetworkError(ValueError):
    """The network is not valid; the message says why and what to change."""


class Cost(enum.StrEnum):
    """The two classes of links in the first paper, section 2."""

    CHEAP = "cheap"
    EXPENSIVE = "expensive"


@dataclass(frozen=True, slots=True)
class Link:
    """A two-way link; every property holds for each direction separately."""

    a: str
    b: str
    cost: Cost = Cost.CHEAP
    bandwidth_mbit: float | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    burst: float = 1.0
    """The mean number of packets lost in a row; 1 is independent loss."""
    duplicate: float = 0.0
    reorder: float = 0.0
    """The share of packets that are not delayed, and so overtake delayed packets."""
    queue_packets: int | None = None

    @property
    def name(self) -> str:
        """The name of the link for users and in files."""
        return f"{self.a}-{self.b}"

    @property
    def expensive(self) -> bool:
        """Whether the link is expensive: the paper counts the packets that cross such links."""
        return self.cost == Cost.EXPENSIVE

    def other(self, node: str) -> str:
        """The node at the far end, seen from `node`."""
        return self.b if node == self.a else self.a


@dataclass(frozen=True)
class Network:
    """Hosts, switches and links. The order of each tuple matters: ports, addresses and datapaths are numbered by it."""

    name: str
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    positions: Mapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise NetworkError(f"network {self.name!r}: {problem}")

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Network"], tuple[object, ...]]:
        """Leave cached values out of a pickle, since hashes of text differ between processes."""
        return Network, (self.name, self.hosts, self.switches, self.links, self.positions)

    @cached_property
    def _hash(self) -> int:
        """The hash, computed once: networks are keys of caches that are used for every path."""
        return hash((self.name, self.hosts, self.switches, self.links))

    @cached_property
    def neighbours(self) -> Mapping[str, Mapping[str, Link]]:
        """For every node, its neighbours and the link to each, in link order."""
        table: dict[str, dict[str, Link]] = {node: {} for node in (*self.hosts, *self.switches)}
        for link in self.links:
            table[link.a][link.b] = link
            table[link.b][link.a] = link
        return table

    @cached_property
    def ports(self) -> Mapping[str, Mapping[str, int]]:
        """For every switch, the OpenFlow port number towards each neighbour: 1, 2, ... in link order."""
        return {
            switch: {neighbour: port for port, neighbour in enumerate(self.neighbours[switch], start=1)}
            for switch in self.switches
        }

    @cached_property
    def datapaths(self) -> Mapping[str, int]:
        """The OpenFlow datapath identifier of every switch: 1, 2, ..."""
        return {switch: number for number, switch in enumerate(self.switches, start=1)}

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of every host on the wire: 1, 2, ... This is also the static order of the first paper."""
        return {host: number for number, host in enumerate(self.hosts, start=1)}

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """The IPv4 address of every host, in 10.0.0.0/8."""
        return {host: str(IPv4Address(_FIRST_ADDRESS + number)) for host, number in self.numbers.items()}

    @cached_property
    def macs(self) -> Mapping[str, str]:
        """The Ethernet address of every host: locally administered, with its IPv4 address in the last four bytes."""
        return {
            host: "02:00:" + ":".join(f"{byte:02x}" for byte in IPv4Address(address).packed)
            for host, address in self.addresses.items()
        }

    @cached_property
    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """Groups of hosts that reach each other over cheap links alone, as in section 3 of the first paper."""
        group_of = components(self, lambda link: not link.expensive)
        groups: dict[int, list[str]] = {}
        for host in self.hosts:
            groups.setdefault(group_of[host], []).append(host)
        return tuple(tuple(group) for group in groups.values())

    @property
    def lower_bound(self) -> int:
        """The fewest expensive packets that can carry one message to every cluster: k - 1."""
        return len(self.clusters) - 1

    def access_switch(self, host: str) -> str:
        """The switch to which `host` is attached."""
        return next(iter(self.neighbours[host]))

    def link(self, a: str, b: str) -> Link:
        """The link between two nodes."""
        try:
            return self.neighbours[a][b]
        except KeyError:
            raise NetworkError(f"network {self.name!r} has no link between {a!r} and {b!r}") from None

    def is_host(self, node: str) -> bool:
        """Whether `node` is a host of this network."""
        return node in self.numbers


def group_address(number: int) -> str:
    """The IPv4 multicast address of a group."""
    return str(IPv4Address(_FIRST_GROUP_ADDRESS + number))


def group_name(number: int) -> str:
    """What stands for a group in tables of packets, where a host would have its name."""
    return f"group {number}"


def _problems(network: Network) -> Iterator[str]:
    """The problems of a network, the most basic first."""
    nodes = (*network.hosts, *network.switches)
    yield from _node_problems(network, nodes)
    known = set(nodes)
    yield from _position_problems(network, known)
    seen: set[frozenset[str]] = set()
    for link in network.links:
        yield from _end_problems(link, known)
        yield from _property_problems(link)
        ends = frozenset((link.a, link.b))
        if ends in seen:
            yield f"there are two links between {link.a!r} and {link.b!r}: merge them into one"
        seen.add(ends)
    yield from _shape_problems(network)


def _node_problems(network: Network, nodes: tuple[str, ...]) -> Iterator[str]:
    if not network.name or not network.name.isprintable():
        yield "the name must be one line of printable characters"
    for node in nodes:
        if not _NAME.fullmatch(node):
            yield f"node name {node!r} must be 1 to {LONGEST_NAME} letters, digits or _, and start with a letter"
    yield from (f"node {node!r} is listed twice" for node, times in Counter(nodes).items() if times > 1)
    if len(network.hosts) < 2:
        yield "a broadcast needs at least two hosts"
    if len(network.hosts) > MOST_HOSTS:
        yield f"{len(network.hosts)} hosts are too many: the wire format numbers at most {MOST_HOSTS}"


def _position_problems(network: Network, known: set[str]) -> Iterator[str]:
    for node, place in network.positions.items():
        if node not in known:
            yield f"there is a position for {node!r}, which is not a node of the network"
        if not all(map(math.isfinite, place)):
            yield f"the position of {node!r} must be two numbers, not {place}"


def _end_problems(link: Link, known: set[str]) -> Iterator[str]:
    for end in (link.a, link.b):
        if end not in known:
            yield f"link {link.name} ends at {end!r}, which is not a node of the network"
    if link.a == link.b:
        yield f"link {link.name} joins {link.a!r} to itself"


def _property_problems(link: Link) -> Iterator[str]:
    if link.cost not in tuple(Cost):
        yield f"link {link.name}: cost must be {' or '.join(Cost)}, not {link.cost!r}"
    if link.bandwidth_mbit is not None and not units.is_bandwidth(link.bandwidth_mbit):
        bounds = f"{units.SLOWEST_MBIT:g} and {units.FASTEST_MBIT:g} Mbit/s"
        yield f"link {link.name}: bandwidth must be between {bounds}, not {link.bandwidth_mbit} Mbit/s"
    for quantity, value in (("delay", link.delay_ms), ("jitter", link.jitter_ms)):
        if not units.is_time(value):
            bounds = f"{units.SHORTEST_MS:g} and {units.LONGEST_MS:g} ms"
            yield f"link {link.name}: {quantity} must be zero, or between {bounds}, not {value} ms"
    if link.jitter_ms > link.delay_ms:
        yield f"link {link.name}: jitter of {link.jitter_ms} ms is more than the delay of {link.delay_ms} ms"
    for quantity, value in (("loss", link.loss), ("duplicate", link.duplicate), ("reorder", link.reorder)):
        if not units.is_share(value):
            yield f"link {link.name}: {quantity} must be zero, or between {units.SMALLEST_SHARE:g} and 1, not {value}"
    if not 1 <= link.burst <= units.LONGEST_BURST:
        yield f"link {link.name}: burst must be between 1 and {units.LONGEST_BURST:,.0f} packets, not {link.burst}"
    if link.queue_packets is not None and not 1 <= link.queue_packets <= units.LONGEST_QUEUE:
        yield f"link {link.name}: a queue holds between 1 and {units.LONGEST_QUEUE:,} packets, not {link.queue_packets}"


def _shape_problems(network: Network) -> Iterator[str]:
    for host in network.hosts:
        links = tuple(network.neighbours[host].items())
        if len(links) != 1 or network.is_host(links[0][0]):
            yield f"host {host!r} must have exactly one link, and to a switch"
        if links[0][1].expensive:
            yield f"the link of host {host!r} must be cheap: put a switch between the host and the expensive link"
    for switch in network.switches:
        ports = len(network.neighbours[switch])
        if ports > MOST_PORTS:
            yield f"switch {switch!r} has {ports} ports; Open vSwitch has at most {MOST_PORTS}"
        if len(f"{switch}-eth{ports}") > LONGEST_INTERFACE:
            yield f"switch {switch!r} needs a shorter name: {switch}-eth{ports} is over the {LONGEST_INTERFACE} characters of an interface"
    component_of = components(network, lambda _: True)
    for node, component in component_of.items():
        if component != 0:
            yield f"it is not connected: there is no path between {next(iter(component_of))!r} and {node!r}"


def components(network: Network, joins: Callable[[Link], bool]) -> dict[str, int]:
    """Number the connected components of the network over the links that `joins` accepts."""
    component_of: dict[str, int] = {}
    count = 0
    for start in (*network.hosts, *network.switches):
        if start in component_of:
            continue
        component_of[start] = count
        frontier = [start]
        while frontier:
            node = frontier.pop()
            for neighbour, link in network.neighbours[node].items():
                if neighbour not in component_of and joins(link):
                    component_of[neighbour] = count
                    frontier.append(neighbour)
        count += 1
    return component_of
