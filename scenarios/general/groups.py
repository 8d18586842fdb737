#!./castbed run
"""Three overlapping groups and messages at random times: each message reaches its group, with each protocol that knows groups.

In all but the propagation graph nobody else handles it, and the number of packets that carry a message depends on the size m of its group
only, not on the number of hosts: m - 1 if the sender alone sends and is a member, m (m - 1) if every member passes the message on. h12 is
in no group, and sends to all of them: that takes one packet more for each member.

    ./castbed run groups --set groups='alpha:h1,h2;beta:h2,h3,h4' --set sources=all
"""

from collections.abc import Iterator
from typing import Unpack

import pyarrow as pa
import pyarrow.compute as pc

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Group, Scenario, Workload
from topologies import clusters
from topologies.properties import Expensive

DIRECT = ("best-effort", "basic", "eager-reliable", "lazy-reliable", "uniform")
"""The protocols in which only the source and the destinations of a message handle it."""
PROTOCOLS = (*DIRECT, "propagation-graph")
MEMBERS_RELAY = frozenset({"eager-reliable", "uniform"})
GROUPS = (
    Group("alpha", ("h1", "h2", "h3", "h4")),
    Group("beta", ("h3", "h4", "h5", "h6", "h7", "h8")),
    Group("gamma", ("h1", "h5", "h9")),
)


def scenario(k: int = 4, size: int = 3, shape: str = "ring", **expensive: Unpack[Expensive]) -> Scenario:
    """Members of one and of two groups send, and h12, which is in none.

    k: clusters
    size: hosts of each cluster
    shape: how clusters are joined: line, ring, star, tree, mesh or grid
    """
    stream = Workload(messages=100, interval=40.0, settle=2000.0, arrivals="poisson")
    network = clusters(k, size, shape, **expensive)
    return Scenario(
        network=network, protocols=PROTOCOLS, sources=("h1", "h3", "h9", network.hosts[-1]), groups=GROUPS, workload=stream
    )


def claims(runs: Runs) -> Iterator[Claim]:
    """Destinations and packets of every message, from event logs and captures."""
    for run in runs:
        yield _delivered(run)
        if run.input.run.medium == "unicast" and run.label in DIRECT:
            yield _nobody_else(run)
        if run.label in DIRECT:
            yield _counted(run)


def _delivered(run: MeasuredRun) -> Claim:
    """Compare who delivered each message with whom it is for."""
    delivered: dict[tuple[str, int], list[str]] = {}
    for delivery in run.history.deliveries:
        delivered.setdefault(delivery.message, []).append(delivery.host)
    destinations = run.history.destinations
    right = sum(sorted(delivered.get(message, ())) == sorted(to) for message, to in destinations.items())
    text = f"{run.label}: every message is delivered once by each of its destinations and by no other host"
    return Claim("-", text, right == len(destinations), f"{right} of {len(destinations)}")


def _nobody_else(run: MeasuredRun) -> Claim:
    """Look for packets with a message that went to a host which is no destination. On multicast they are addressed to groups."""
    text = f"{run.label}: no packet with a message goes to a host that the message is not for"
    destinations = run.history.destinations
    packets = _carrying(run).group_by(["origin", "sequence", "destination"]).aggregate([]).to_pylist()
    outside = [packet for packet in packets if packet["destination"] not in destinations[packet["origin"], packet["sequence"]]]
    return Claim("-", text, not outside, f"{len(outside)} of {len(packets)} pairs of a message and a host")


def _carrying(run: MeasuredRun) -> pa.Table:
    """The packets that carry messages, for the first time or again."""
    packets = run.table("packets").select(["sender", "packet", "purpose", "origin", "sequence", "destination"])
    return packets.filter(pc.is_in(packets["purpose"], pa.array(["data", "repair"])))


def _counted(run: MeasuredRun) -> Claim:
    """Packets that carry a message for the first time, over all links, against the size of its group."""
    on_multicast = run.input.run.medium == "multicast"
    expected = sum(
        _packets(len(to), run.label in MEMBERS_RELAY, on_multicast, is_member=origin in to)
        for (origin, _), to in run.history.destinations.items()
    )
    packets, messages = run.packets_for("data"), run.summary.messages
    text = f"{run.label}: {expected / messages:.2f} packets with each message, as the sizes of the groups say"
    figure = f"{packets / messages:.2f}, and {run.packets_for('repair')} repetitions in all"
    if packets < expected and run.input.run.pack_ms is not None:
        return Claim("-", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("-", text, packets == expected, figure)


def _packets(members: int, members_relay: bool, on_multicast: bool, *, is_member: bool) -> int:
    """Packets for a message: one to each other member, or one to the group, from the source and from each member that passes it on."""
    others = members - 1
    each = (1 if others else 0) if on_multicast else others
    first = each if is_member else (1 if on_multicast else members)
    relays = others if is_member else members
    return first + (relays * each if members_relay else 0)
