#!./castbed run
"""Table 4.2 of the third paper: packets N and delay D of an ordered multicast on a broadcast network.

                 propagation graph         centralised   two-phase
    N            d + 1                     2             n + 2
    D at most    (d + 1) T                 2T            (n + 2) T

T is the time of a packet with what a host does before it: L + P, the longest of each run. The paper counts one packet from the source to
the primary destination, and one for each level of the graph above the last. That is the least. A level may have several hosts that pass a
message on, each of which sends a packet of its own, so there are i + 1 packets for i such hosts. A host that passes a message on to several
others sends one packet to the group, or to everybody if one of them is not in the group. The paper's D also counts that two packets are
never on the network at once; on switches they are, so two-phase takes less than (n + 2) T. The system is that of Table 4.1.
"""

from collections.abc import Iterator
from typing import Final, Unpack

from analysis.figures.claims import Claim, HopTimes, MeasuredRun, Runs, Table, ways
from scenarios import Variant
from scenarios.ordered_multicast.table_4_1 import PARAMETERS, Message, Row, by_the_table, rows, system
from topologies.properties import Expensive


def _times(packets: int, hop: HopTimes) -> float:
    return packets * (hop.latency_ms + hop.process_ms)


TABLE: Final = {
    "propagation-graph": Row(
        *("i + 1", lambda m: m.way.inner + 1),
        *("(d + 1) T", lambda m, hop: _times(m.way.depth + 1, hop)),
    ),
    "sequencer": Row("2", lambda _: 2, "2T", lambda _, hop: _times(2, hop)),
    "two-phase": Row("n + 2", lambda m: m.n + 2, "(n + 2) T", lambda m, hop: _times(m.n + 2, hop)),
}


def scenario(**expensive: Unpack[Expensive]) -> list[Variant]:
    """The system of Table 4.1 with each protocol, where a packet to a group is one packet."""
    asked = system(**expensive)
    return [Variant(name, asked, name, parameters, medium="multicast") for name, parameters in PARAMETERS.items()]


def claims(runs: Runs) -> Iterator[Claim]:
    """Order, N and D of each protocol, and how they compare."""
    yield from by_the_table(runs, TABLE)
    yield from _one_a_level(runs["propagation-graph"])
    each = {run.label: sum(run.data_packets().values()) / run.history.messages for run in runs}
    graph, centre, phases = (each.get(name, 0.0) for name in PARAMETERS)
    told = ", ".join(f"{label} {packets:.2f}" for label, packets in each.items())
    yield Claim("4.2", "N: above centralised, below two-phase", centre < graph < phases, told)


def tables(runs: Runs) -> Iterator[Table]:
    """The table with the paper's formulas, of which d + 1 is the least, and what was measured."""
    stated = {**TABLE, "propagation-graph": TABLE["propagation-graph"]._replace(packets_text="d + 1", packets=_levels)}
    yield Table(
        "Table 4.2", "Packets N and delay D of a multicast on a broadcast network, means over messages", rows(runs, stated)
    )


def _levels(message: Message) -> int:
    return message.way.depth + 1


def _one_a_level(run: MeasuredRun) -> Iterator[Claim]:
    """Whether messages took the d + 1 packets of the table, which is the least that there can be."""
    sent, found = run.data_packets(), ways(run)
    exact = sum(sent[message] == way.depth + 1 for message, way in found.items())
    told = f"{exact} of {len(found)} messages took d + 1, the others more"
    yield Claim("N", f"{run.label}: N = d + 1", exact == len(found), told)
    text = f"{run.label}: at least d + 1 packets, and no more where each level has one host that passes messages on"
    holds = all(
        sent[message] == way.depth + 1 or (sent[message] > way.depth + 1 and way.inner > way.depth)
        for message, way in found.items()
    )
    yield Claim("N", text, holds, told)
