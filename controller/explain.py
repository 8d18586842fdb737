"""The controller's decisions as text: the flows of each switch, and the path between every two hosts."""

from collections.abc import Iterator
from typing import NamedTuple

from controller.routes import every_port, routes
from topologies.network import Network
from topologies.paths import path


class Row(NamedTuple):
    """Where a switch sends the packets for one host, and whether it marks them."""

    switch: str
    destination: str
    out_port: int
    neighbour: str
    marks: bool


def rows(network: Network) -> Iterator[Row]:
    """The flows of all switches while every port is up, in the order of switches and hosts."""
    node_at = {switch: {number: node for node, number in ports.items()} for switch, ports in network.ports.items()}
    host_at = {address: host for host, address in network.addresses.items()}
    for flow in routes(network, every_port(network)):
        (port,) = (*flow.cheap, *flow.expensive)
        yield Row(flow.switch, host_at[flow.address], port, node_at[flow.switch][port], bool(flow.expensive))


def path_line(network: Network, source: str, destination: str) -> str:
    """The path between two hosts, with `=` for an expensive link and `-` for a cheap one: `h1 -> h3: h1-s1=s2-h3`."""
    text = node = source
    for link in path(network, source, destination):
        node = link.other(node)
        text += ("=" if link.expensive else "-") + node
    return f"{source} -> {destination}: {text}"


def explain(network: Network) -> Iterator[str]:
    """Lines for `castbed routes`: a table of the flows, then the paths."""
    width = max(map(len, (*network.hosts, *network.switches, "destination")))
    yield f"{'switch':{width}}  {'destination':{width}}  port -> neighbour"
    for row in rows(network):
        marks = ", marks" if row.marks else ""
        yield f"{row.switch:{width}}  {row.destination:{width}}  {row.out_port} -> {row.neighbour}{marks}"
    for source in network.hosts:
        yield from (path_line(network, source, destination) for destination in network.hosts if destination != source)
