"""Routes as plain data: where every switch sends packets for every host and every group, computed before the first packet is sent.

A path has the fewest expensive links, then the fewest hops; ties go to the switch listed first (`topologies.paths`, which has the trees
of groups as well). A flow marks the copies that leave on expensive links. A packet without a flow is dropped. Nothing is ever flooded, so
a link carries what the hosts sent over it and no more.

`Routes` keeps one tree for each switch that has hosts, not one flow for each switch and host. Flows are computed from the trees on demand,
and `changes` computes only the flows that differ. When a link is lost, only the trees that used it are computed again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from topologies.network import Network, group_address
from topologies.paths import group_tree, next_hops

Groups = Mapping[int, tuple[str, ...]]
"""The members of every group, by the number of the group."""


class Port(NamedTuple):
    """One port of a switch, with its OpenFlow number."""

    switch: str
    number: int


class Flow(NamedTuple):
    """How `switch` forwards packets for an address: a copy out of each cheap port, then a marked copy out of each expensive port.

    A switch never sends a copy out of the port where the packet arrived.
    """

    switch: str
    address: str
    cheap: tuple[int, ...]
    expensive: tuple[int, ...]


class Changes(NamedTuple):
    """Flows to add, which replace any flow of the switch for the same address, and flows to delete."""

    add: tuple[Flow, ...]
    delete: tuple[Flow, ...]

    def by_switch(self) -> dict[str, "Changes"]:
        """The changes split by switch; switches without changes are left out."""
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
    """For every switch that has hosts: the next hop towards that switch from each switch that can reach it."""
    group_trees: Mapping[int, Mapping[str, tuple[str, ...]]]
    """For every group, by its number: the neighbours to which each switch sends packets of the group."""

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The hosts whose access link is usable."""
        network = self.network
        return frozenset(host for host in network.hosts if network.link(host, network.access_switch(host)).name in self.usable)

    def flow(self, switch: str, host: str) -> Flow | None:
        """The flow of a switch for packets to a host; None if there is no path."""
        last = self.network.access_switch(host)
        neighbour = host if switch == last else self.trees[last].get(switch)
        if neighbour is None or host not in self.reachable:
            return None
        return self._flow(switch, self.network.addresses[host], (neighbour,))

    def group_flow(self, switch: str, group: int) -> Flow | None:
        """The flow of a switch for packets to a group; None if the switch can reach no member."""
        neighbours = self.group_trees[group].get(switch)
        return self._flow(switch, group_address(group), neighbours) if neighbours else None

    def _flow(self, switch: str, address: str, neighbours: tuple[str, ...]) -> Flow:
        ports, links = self.network.ports[switch], self.network.neighbours[switch]
        return Flow(
            switch,
            address,
            tuple(ports[node] for node in neighbours if not links[node].expensive),
            tuple(ports[node] for node in neighbours if links[node].expensive),
        )

    def at(self, switch: str) -> tuple[Flow, ...]:
        """All flows of one switch."""
        to_hosts = (self.flow(switch, host) for host in self.network.hosts)
        to_groups = (self.group_flow(switch, group) for group in self.group_trees)
        return tuple(flow for flow in (*to_hosts, *to_groups) if flow)

    def __iter__(self) -> Iterator[Flow]:
        """All flows of all switches."""
        for switch in self.network.switches:
            yield from self.at(switch)


def every_port(network: Network) -> frozenset[Port]:
    """All ports of all switches."""
    return frozenset(Port(switch, number) for switch, ports in network.ports.items() for number in ports.values())


def routes(network: Network, up: frozenset[Port], before: Routes | None = None, groups: Groups | None = None) -> Routes:
    """The routes for hosts and groups while these ports are up. Trees of `before` that are still right are not computed again."""
    usable = _usable_links(network, up)
    access_switches = dict.fromkeys(network.access_switch(host) for host in network.hosts)
    still_good = _still_good(before, usable) if before else {}
    trees = {
        switch: still_good.get(switch) or next_hops(network, switch, lambda link: link.name in usable)
        for switch in access_switches
    }
    group_trees = {
        number: group_tree(network, members, lambda link: link.name in usable) for number, members in (groups or {}).items()
    }
    return Routes(network, usable, trees, group_trees)


def changes(before: Routes, after: Routes) -> Changes:
    """The changes that turn the flows of `before` into the flows of `after`."""
    add, delete = [], []
    for old, new in _differences(before, after):
        if new and new != old:
            add.append(new)
        elif old and not new:
            delete.append(old)
    return Changes(tuple(add), tuple(delete))


def arp_reply(network: Network, asker: str, target: str) -> str | None:
    """The Ethernet address to answer a host with address `asker` that asks for `target`; None for no answer.

    A host that asks for its own address gets no answer: an answer would mean that another host has the address too.
    """
    if asker == target:
        return None
    return next((network.macs[host] for host, address in network.addresses.items() if address == target), None)


def _usable_links(network: Network, up: frozenset[Port]) -> frozenset[str]:
    """Names of the links whose ports are up at both ends; the end at a host always counts as up."""
    down = {
        network.neighbours[switch][neighbour].name
        for switch, ports in network.ports.items()
        for neighbour, number in ports.items()
        if (switch, number) not in up
    }
    return frozenset(link.name for link in network.links if link.name not in down)


def _still_good(before: Routes, usable: frozenset[str]) -> Mapping[str, Mapping[str, str]]:
    """The trees that are still right: those without a lost link. If a link was gained, none: it may shorten paths in any tree."""
    if not usable <= before.usable:
        return {}
    gone = before.usable - usable
    lost = [link for link in before.network.links if link.name in gone]
    return {
        switch: tree
        for switch, tree in before.trees.items()
        if not any(tree.get(link.a) == link.b or tree.get(link.b) == link.a for link in lost)
    }


def _differences(before: Routes, after: Routes) -> Iterator[tuple[Flow | None, Flow | None]]:
    """Pairs of old and new flows that may differ: where a tree differs, and at every switch for a host that came or went."""
    switches = after.network.switches
    moved = {
        last: [switch for switch in switches if tree.get(switch) != before.trees[last].get(switch)]
        for last, tree in after.trees.items()
    }
    came_or_went = before.reachable ^ after.reachable
    for host in after.network.hosts:
        for switch in switches if host in came_or_went else moved[after.network.access_switch(host)]:
            yield before.flow(switch, host), after.flow(switch, host)
    for group in {**before.group_trees, **after.group_trees}:
        for switch in switches:
            yield (
                before.group_flow(switch, group) if group in before.group_trees else None,
                after.group_flow(switch, group) if group in after.group_trees else None,
            )
