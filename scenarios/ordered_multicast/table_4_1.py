#!./castbed run
"""Table 4.1 of the third paper: packets N and delay D of an ordered multicast on a point-to-point network.

For n members the propagation graph takes N = n + e packets, with e extra hosts on the way, and D is at most (d + 1) L + (n + e) P, where d
is the depth of the graph, L the time of a packet on the network and P the time of a host to send one. L and P are the longest of the run.
The groups are those of Figure 3.2, its ninth, which has an extra host, and a tenth, which two hosts of one level pass on; the source is in
none of them. Delays show better with

    ./castbed run table_4_1 --on simulator --set delay=20ms
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Unpack

from analysis.figures.claims import Claim, HopTimes, MeasuredRun, Runs, Way, hop_times, kept, last_delivery_ms, ways
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from topologies import clusters
from topologies.properties import Expensive

SITES: Final = "abcdefghj"
"""The letters of Figure 3.2, for h2 and so on; h1 is the source."""
GROUPS: Final = ("cd", "abc", "bcde", "def", "ef", "bg", "ch", "dj", "ad", "adf")
ONE_ORDER: Final = Order(Scope.MULTIPLE_GROUP, Strength.STRICT)
PROTOCOLS: Final[Mapping[str, Mapping[str, str]]] = {"propagation-graph": {}}
"""The protocols of the table, each with its parameters here."""

Bound = Callable[[Way, HopTimes], float]
"""The delay of a message in milliseconds by the table, from its way, L and P."""


def system(**expensive: Unpack[Expensive]) -> Scenario:
    """A star with a host at each end, the source in its middle, and the groups."""
    host = {letter: f"h{number}" for number, letter in enumerate(SITES, start=2)}
    groups = tuple(Group(letters, tuple(host[letter] for letter in letters)) for letters in GROUPS)
    stream = Workload(messages=100, interval=40.0, settle=3000.0)
    return Scenario(network=clusters(1 + len(SITES), 1, "star", **expensive), groups=groups, workload=stream)


def scenario(**expensive: Unpack[Expensive]) -> list[Variant]:
    """The same stream with each protocol."""
    asked = system(**expensive)
    return [Variant(name, asked, name, parameters, medium="unicast") for name, parameters in PROTOCOLS.items()]


def claims(runs: Runs) -> Iterator[Claim]:
    """Order, N and D."""
    for run in runs:
        yield from ordered(run)
        yield counted(run, "n + e packets with each message", {m: len(way.hosts) for m, way in ways(run).items()})
        yield in_time(run, "(d + 1) L + (n + e) P", lambda way, hop: _delay_ms(hop, way.depth + 1, len(way.hosts)))


def _delay_ms(hop: HopTimes, hops: int, packets: int) -> float:
    return hops * hop.latency_ms + packets * hop.process_ms


def ordered(run: MeasuredRun) -> Iterator[Claim]:
    """Whether all hosts have all messages in one order."""
    yield kept("order", run, ONE_ORDER, expected=True)
    yield kept("order", run, Guarantee.CONVERGENCE, expected=True)


def counted(run: MeasuredRun, formula: str, expected: Mapping[tuple[str, int], int]) -> Claim:
    """Whether each message took so many packets."""
    sent = run.data_packets()
    wrong = [message for message, packets in expected.items() if sent[message] != packets]
    figure = f"{sum(sent.values())} packets for {len(expected)} messages, {sum(expected.values())} expected"
    if wrong and sum(sent.values()) < sum(expected.values()) and run.input.run.pack_ms is not None:
        return Claim("N", f"{run.label}: {formula}", None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("N", f"{run.label}: {formula}", not wrong, figure)


def in_time(run: MeasuredRun, formula: str, bound: Bound) -> Claim:
    """Whether the last destination of each message had it within the time of the table."""
    hop, took, found = hop_times(run), last_delivery_ms(run), ways(run)
    allowed = {message: bound(found[message], hop) for message in took}
    text = f"{run.label}: D is at most {formula}"
    if len(took) < len(found):
        return Claim("D", text, None, f"only {len(took)} of {len(found)} messages reached all their destinations")
    late = sum(took[message] > allowed[message] for message in took)
    mean, most = sum(took.values()) / len(took), sum(allowed.values()) / len(took)
    told = f"{mean:.2f} ms on average, {most:.2f} by the table with L {hop.latency_ms:.2f} and P {hop.process_ms:.2f} ms"
    return Claim("D", text, not late, f"{told}; {late} of {len(took)} messages took longer")
