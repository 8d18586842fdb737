"""Where every switch sends a packet for every host, as plain data, worked out before the first packet is sent.

A path has the fewest expensive links, then the fewest hops; ties go to the switch listed first (`topologies.paths`). A flow marks
the packet when its port is on an expensive link. What has no flow is dropped: nothing is ever flooded, so a link carries what the
hosts sent over it and no more.

`Routes` keeps one tree for each switch that has hosts, not one flow for each switch and host: the flows are spelled out when
asked for, and `changes` spells out those that differ. Losing a link computes only the trees that used it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from topologies.network import Network
from topologies.paths import next_hops


class Port(NamedTuple):
    """One port of a switch, by its OpenFlow number."""

    switch: str
    number: int


class Flow(NamedTuple):
    """What `switch` does with packets for `host`: mark them or not, and send them out of a port."""

    switch: str
    host: str
    address: str
    out_port: int
    mark: bool


class Changes(NamedTuple):
    """Flows to add (in place of what the switch has for that host, if anything) and flows to delete."""

    add: tuple[Flow, ...]
    delete: tuple[Flow, ...]

    def by_switch(self) -> dict[str, "Changes"]:
        """The changes of each switch that has any."""
        shares: dict[str, tuple[list[Flow], list[Flow]]] = {}
        for kind, flows in enumerate(self):
            for flow in flows:
                shares.setdefault(flow.switch, ([], []))[kind].append(flow)
        return {switch: Changes(tuple(add), tuple(delete)) for switch, (add, delete) in shares.items()}


@dataclass(frozen=True)
class Routes:
    """The routes of a network over its usable links."""

    network: Network
    usable: frozenset[str]
    """Names of the links whose ports are up."""
    trees: Mapping[str, Mapping[str, str]]
    """For every switch that has hosts: the next hop towards it from each switch that can reach it."""

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The hosts whose own link is usable."""
        network = self.network
        return frozenset(host for host in network.hosts if network.link(host, network.access_switch(host)).name in self.usable)

    def flow(self, switch: str, host: str) -> Flow | None:
        """What a switch does with packets for a host; nothing when it has no path."""
        network = self.network
        last = network.access_switch(host)
        neighbour = host if switch == last else self.trees[last].get(switch)
        if neighbour is None or host not in self.reachable:
            return None
        mark = network.neighbours[switch][neighbour].expensive
        return Flow(switch, host, network.addresses[host], network.ports[switch][neighbour], mark)

    def at(self, switch: str) -> tuple[Flow, ...]:
        """All flows of one switch."""
        return tuple(flow for host in self.network.hosts if (flow := self.flow(switch, host)))

    def __iter__(self) -> Iterator[Flow]:
        """All flows of all switches."""
        for switch in self.network.switches:
            yield from self.at(switch)


def every_port(network: Network) -> frozenset[Port]:
    """All ports of all switches."""
    return frozenset(Port(switch, number) for switch, ports in network.ports.items() for number in ports.values())


def routes(network: Network, up: frozenset[Port], before: Routes | None = None) -> Routes:
    """The routes when these ports are up. Routes computed before spare work and change nothing."""
    usable = _usable_links(network, up)
    access_switches = dict.fromkeys(network.access_switch(host) for host in network.hosts)
    still_good = _still_good(before, usable) if before else {}
    trees = {
        switch: still_good.get(switch) or next_hops(network, switch, lambda link: link.name in usable)
        for switch in access_switches
    }
    return Routes(network, usable, trees)


def changes(before: Routes, after: Routes) -> Changes:
    """What turns the flows of `before` into those of `after`."""
    add, delete = [], []
    for switch, host in _differences(before, after):
        old, new = before.flow(switch, host), after.flow(switch, host)
        if new and new != old:
            add.append(new)
        elif old and not new:
            delete.append(old)
    return Changes(tuple(add), tuple(delete))


def arp_reply(network: Network, asker: str, target: str) -> str | None:
    """The Ethernet address to tell a host with address `asker` that asks for `target`; None for no answer.

    A host that asks for its own address wants to hear nothing: an answer would mean that somebody else has it.
    """
    if asker == target:
        return None
    return next((network.macs[host] for host, address in network.addresses.items() if address == target), None)


def _usable_links(network: Network, up: frozenset[Port]) -> frozenset[str]:
    """Names of the links whose ports are up at both ends; a host's end always counts as up."""
    down = {
        network.neighbours[switch][neighbour].name
        for switch, ports in network.ports.items()
        for neighbour, number in ports.items()
        if (switch, number) not in up
    }
    return frozenset(link.name for link in network.links if link.name not in down)


def _still_good(before: Routes, usable: frozenset[str]) -> Mapping[str, Mapping[str, str]]:
    """The trees that stay the shortest ones: all that crossed no lost link, unless a link was gained, which may shorten any."""
    if not usable <= before.usable:
        return {}
    gone = before.usable - usable
    lost = [link for link in before.network.links if link.name in gone]
    return {
        switch: tree
        for switch, tree in before.trees.items()
        if not any(tree.get(link.a) == link.b or tree.get(link.b) == link.a for link in lost)
    }


def _differences(before: Routes, after: Routes) -> Iterator[tuple[str, str]]:
    """Switches and hosts whose flow may differ: where the tree does, and everywhere for a host that came or went."""
    switches = after.network.switches
    moved = {
        last: [switch for switch in switches if tree.get(switch) != before.trees[last].get(switch)]
        for last, tree in after.trees.items()
    }
    came_or_went = before.reachable ^ after.reachable
    for host in after.network.hosts:
        for switch in switches if host in came_or_went else moved[after.network.access_switch(host)]:
            yield switch, host
