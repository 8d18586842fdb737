"""Switches made of dictionaries: packets walk through them by the flows that they hold, and nothing else."""

from typing import NamedTuple

from controller.routes import Changes, Flow, Port, Routes
from hostagent.contract.wire import COST_DSCP
from topologies.network import Network


class Walk(NamedTuple):
    """Where a packet went, what it had in its DSCP at the end, and whether it got to the host it was for."""

    nodes: tuple[str, ...]
    dscp: int
    arrived: bool


class Copy(NamedTuple):
    """A copy of a multicast packet that reached a host, with what it had in its DSCP."""

    host: str
    dscp: int


class FakeSwitches:
    """All switches of a network, each with a table from addresses to flows, and the ports that are up."""

    def __init__(self, network: Network, up: frozenset[Port], flows: Routes | tuple[Flow, ...] = ()) -> None:
        self.network = network
        self.up = up
        self.tables: dict[str, dict[str, Flow]] = {switch: {} for switch in network.switches}
        self.apply(Changes(tuple(flows), ()))

    def apply(self, changes: Changes) -> None:
        """Do what a switch does: an added flow takes the place of that for the same address; deleting nothing is suspect."""
        for flow in changes.add:
            self.tables[flow.switch][flow.address] = flow
        for flow in changes.delete:
            del self.tables[flow.switch][flow.address]

    def walk(self, source: str, destination: str) -> Walk:
        """Send a packet from host to host."""
        node, dscp = self.network.access_switch(source), 0
        nodes = [source, node]
        if not self._carries(source, node):
            return Walk(tuple(nodes[:1]), dscp, arrived=False)
        while flow := self.tables[node].get(self.network.addresses[destination]):
            (port,) = (*flow.cheap, *flow.expensive)
            before, node = node, self._behind(Port(node, port))
            assert self._carries(before, node), f"{before} sends into the broken link to {node}"
            assert node not in nodes, f"a loop: {nodes} and then {node}"
            dscp = COST_DSCP if flow.expensive else dscp
            nodes.append(node)
            if self.network.is_host(node):
                return Walk(tuple(nodes), dscp, arrived=node == destination)
        return Walk(tuple(nodes), dscp, arrived=False)

    def multicast(self, source: str, address: str) -> tuple[list[Copy], list[tuple[str, str]]]:
        """Send a packet from a host to a group: the copies that hosts got, and every crossing of a link between switches."""
        copies: list[Copy] = []
        crossings: list[tuple[str, str]] = []
        switch = self.network.access_switch(source)
        under_way = [(source, switch, 0)] if self._carries(source, switch) else []
        while under_way:
            came_from, node, dscp = under_way.pop()
            if self.network.is_host(node):
                copies.append(Copy(node, dscp))
                continue
            if not self.network.is_host(came_from):
                crossings.append((came_from, node))
                assert len(crossings) <= len(self.network.switches), f"a loop: {crossings}"
            flow = self.tables[node].get(address)
            for ports, mark in ((flow.cheap, dscp), (flow.expensive, COST_DSCP)) if flow else ():
                for following in (self._behind(Port(node, port)) for port in ports):
                    if following != came_from:
                        assert self._carries(node, following), f"{node} sends into the broken link to {following}"
                        under_way.append((node, following, mark))
        return copies, crossings

    def _behind(self, port: Port) -> str:
        return next(node for node, number in self.network.ports[port.switch].items() if number == port.number)

    def _carries(self, a: str, b: str) -> bool:
        ends = ((a, b), (b, a))
        return all(Port(here, self.network.ports[here][there]) in self.up for here, there in ends if here in self.network.ports)
