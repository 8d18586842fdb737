#!./castbed run
"""Table 4.2 of the third paper: packets N and delay D of an ordered multicast on a broadcast network.

The paper counts N = d + 1 packets for the propagation graph: one from the source to the primary destination, and one for each level of the
graph above the last. That is the least. A level may have several hosts that pass a message on, each of which sends a packet of its own, so
there are 1 + i packets for i such hosts. A host that passes a message on to several others sends one packet to the group, or to everybody
if one of them is not in the group. D is at most (d + 1) T, where T is the time of a packet with what a host does before it: L + P.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, ways
from scenarios import Variant
from scenarios.ordered_multicast.table_4_1 import PROTOCOLS, counted, in_time, ordered, system
from topologies.properties import Expensive


def scenario(**expensive: Unpack[Expensive]) -> list[Variant]:
    """The system of Table 4.1 with each protocol, where a packet to a group is one packet."""
    asked = system(**expensive)
    return [Variant(name, asked, name, parameters, medium="multicast") for name, parameters in PROTOCOLS.items()]


def claims(runs: Runs) -> Iterator[Claim]:
    """Order, N and D."""
    for run in runs:
        yield from ordered(run)
        yield counted(run, "1 + i packets with each message", {m: 1 + way.inner for m, way in ways(run).items()})
        yield _one_a_level(run)
        yield in_time(run, "(d + 1) T", lambda way, hop: (way.depth + 1) * (hop.latency_ms + hop.process_ms))


def _one_a_level(run: MeasuredRun) -> Claim:
    """How many messages took the d + 1 packets of the table, which is the least that there can be."""
    sent, found = run.data_packets(), ways(run)
    least = {message: way.depth + 1 for message, way in found.items()}
    exact = sum(sent[message] == packets for message, packets in least.items())
    text = f"{run.label}: at least d + 1 packets, and no more where each level has one host that passes messages on"
    holds = all(
        sent[message] >= packets and (sent[message] == packets or found[message].inner > found[message].depth)
        for message, packets in least.items()
    )
    return Claim("N", text, holds, f"{exact} of {len(least)} messages took d + 1")
