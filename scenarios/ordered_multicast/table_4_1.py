#!./castbed run
"""Table 4.1 of the third paper: packets N and delay D of an ordered multicast on a point-to-point network.

                 propagation graph         centralised   two-phase
    N            n + e                     n             3n
    D at most    (d + 1) L + (n + e) P     2L + nP       3L + (2n + 1) P

n is the number of members, e that of extra hosts on the way, d the depth of the graph, L the time of a packet on the network and P the time
of a host to send one; L and P are the longest of each run. The groups are those of Figure 3.2, its ninth, which has an extra host, and a
tenth, which two hosts of one level pass on; the source is in none of them. The central site is the one in most groups. To groups that it is
not in it sends one packet more, n + 1. Delays show better with

    ./castbed run table_4_1 --on simulator --set delay=20ms
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Unpack

from analysis.figures.claims import Claim, Entry, HopTimes, MeasuredRun, Runs, Table, Way, hop_times, kept, ways
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from topologies import clusters
from topologies.properties import Expensive

SITES: Final = "abcdefghj"
"""The letters of Figure 3.2, for h3 and so on; h2 is the source, and h1 in the middle of the star has nothing to do."""
GROUPS: Final = ("cd", "abc", "bcde", "def", "ef", "bg", "ch", "dj", "ad", "adf")
CENTRE: Final = "h6"
"""Site d."""
ONE_ORDER: Final = Order(Scope.MULTIPLE_GROUP, Strength.STRICT)
PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "propagation-graph": {},
    "sequencer": {"sequencer": CENTRE},
    "two-phase": {},
}


class Message(NamedTuple):
    """What the formulas are about. A protocol without a graph sends from one host to all, which is a graph of depth 1."""

    n: int
    way: Way
    has_centre: bool
    """Whether the central site is a member."""


class Row(NamedTuple):
    """The formulas of a protocol, as text and as functions of a message."""

    packets_text: str
    packets: Callable[[Message], int]
    delay_text: str
    delay_ms: Callable[[Message, HopTimes], float]


def _lines(hops: int, packets: int, hop: HopTimes) -> float:
    return hops * hop.latency_ms + packets * hop.process_ms


TABLE: Final = {
    "propagation-graph": Row(
        *("n + e", lambda m: m.n + m.way.extra),
        *("(d + 1) L + (n + e) P", lambda m, hop: _lines(m.way.depth + 1, m.n + m.way.extra, hop)),
    ),
    "sequencer": Row(
        *("n (n + 1 where the central site is no member)", lambda m: m.n + (not m.has_centre)),
        *("2L + nP (or n + 1)", lambda m, hop: _lines(2, m.n + (not m.has_centre), hop)),
    ),
    "two-phase": Row("3n", lambda m: 3 * m.n, "3L + (2n + 1) P", lambda m, hop: _lines(3, 2 * m.n + 1, hop)),
}


def system(**expensive: Unpack[Expensive]) -> Scenario:
    """A star, in which all hosts but the one in the middle are equally far apart; one message at a time."""
    host = {letter: f"h{number}" for number, letter in enumerate(SITES, start=3)}
    groups = tuple(Group(letters, tuple(host[letter] for letter in letters)) for letters in GROUPS)
    stream = Workload(messages=50, interval=200.0, settle=3000.0)
    network = clusters(2 + len(SITES), 1, "star", **expensive)
    return Scenario(network=network, sources=("h2",), groups=groups, workload=stream)


def scenario(**expensive: Unpack[Expensive]) -> list[Variant]:
    """The same stream with each protocol."""
    asked = system(**expensive)
    return [Variant(name, asked, name, parameters, medium="unicast") for name, parameters in PARAMETERS.items()]


def claims(runs: Runs) -> Iterator[Claim]:
    """Order, N and D of each protocol, and how they compare."""
    yield from by_the_table(runs, TABLE)
    yield from compared(runs)


def by_the_table(runs: Runs, table: Mapping[str, Row]) -> Iterator[Claim]:
    """Order, N and D of each protocol."""
    for run in runs:
        if run.summary.protocol in table:
            row, messages = table[run.summary.protocol], _messages(run)
            yield kept("order", run, ONE_ORDER, expected=True)
            yield kept("order", run, Guarantee.CONVERGENCE, expected=True)
            yield _counted(run, row, messages)
            yield _in_time(run, row, messages)


def tables(runs: Runs) -> Iterator[Table]:
    """The table with the formulas for these groups, and what was measured."""
    yield Table(
        "Table 4.1", "Packets N and delay D of a multicast on a point-to-point network, means over messages", rows(runs, TABLE)
    )


def rows(runs: Runs, table: Mapping[str, Row]) -> dict[str, dict[str, Entry]]:
    """N and D of each protocol. What the paper states of D is a bound, with the longest L and P of the run."""
    found = {}
    for run in runs:
        row, messages, sent, took, hop = (
            table[run.summary.protocol],
            _messages(run),
            run.data_packets(),
            run.last_ms(),
            hop_times(run),
        )
        packets = Entry(row.packets_text, sum(sent.values()) / len(messages), _mean(row.packets(m) for m in messages.values()))
        bound_ms = _mean(row.delay_ms(m, hop) for m in messages.values())
        found[run.label] = {"N": packets, "D, ms": Entry(f"at most {row.delay_text}", _mean(took.values()), bound_ms)}
    return found


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _messages(run: MeasuredRun) -> dict[tuple[str, int], Message]:
    found = ways(run) if run.history.parents else {}
    return {
        message: Message(len(hosts), found.get(message) or _flat(message[0], hosts), CENTRE in hosts)
        for message, hosts in run.history.destinations.items()
    }


def _flat(origin: str, hosts: Collection[str]) -> Way:
    return Way(origin, tuple(hosts), 1, 1, 0)


def _counted(run: MeasuredRun, row: Row, messages: Mapping[tuple[str, int], Message]) -> Claim:
    """Whether each message took the packets of the table."""
    sent = run.data_packets()
    expected = {message: row.packets(about) for message, about in messages.items()}
    wrong = [message for message, packets in expected.items() if sent[message] != packets]
    text = f"{run.label}: N = {row.packets_text}"
    figure = f"{sum(sent.values())} packets for {len(expected)} messages, {sum(expected.values())} expected"
    if wrong and sum(sent.values()) < sum(expected.values()) and run.input.run.pack_ms is not None:
        return Claim("N", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("N", text, not wrong, figure)


def _in_time(run: MeasuredRun, row: Row, messages: Mapping[tuple[str, int], Message]) -> Claim:
    """Whether the last destination of each message had it within the time of the table."""
    hop, took = hop_times(run), run.last_ms()
    allowed = {message: row.delay_ms(messages[message], hop) for message in took}
    text = f"{run.label}: D is at most {row.delay_text}"
    if len(took) < len(messages):
        return Claim("D", text, None, f"only {len(took)} of {len(messages)} messages reached all their destinations")
    late = sum(took[message] > allowed[message] for message in took)
    mean, most = sum(took.values()) / len(took), sum(allowed.values()) / len(took)
    told = f"{mean:.2f} ms on average, {most:.2f} by the table with L {hop.latency_ms:.2f} and P {hop.process_ms:.2f} ms"
    return Claim("D", text, not late, f"{told}; {late} of {len(took)} messages took longer")


def compared(runs: Runs) -> Iterator[Claim]:
    """Section 4.1: fewer packets than two-phase, hardly more than centralised, and a lower load on the busiest site than there."""
    graph, centre, phases = (runs[name] for name in PARAMETERS)
    each = {run.label: sum(run.data_packets().values()) / run.history.messages for run in (graph, centre, phases)}
    told = ", ".join(f"{label} {packets:.2f}" for label, packets in each.items())
    fewer = each[graph.label] < each[phases.label] / 2 and each[graph.label] < 1.2 * each[centre.label]
    yield Claim("4.1.1", "N: less than half of two-phase, and at most a fifth above centralised", fewer, told)
    delays = {run.label: run.last_ms() for run in (graph, centre, phases)}
    means = {label: sum(took.values()) / max(len(took), 1) for label, took in delays.items()}
    told = ", ".join(f"{label} {mean:.2f} ms" for label, mean in means.items())
    yield Claim("4.1.1", "D: shorter than two-phase, as d is at most 2", means[graph.label] < means[phases.label], told)
    loads = {run.label: _load(run) for run in (graph, centre, phases)}
    told = ", ".join(f"{label} {load:.2f}" for label, load in loads.items())
    text = "the busiest site sends and receives fewer packets per message than the central site"
    yield Claim("4.1.2", text, loads[graph.label] < loads[centre.label], told)


def _load(run: MeasuredRun) -> float:
    """The datagrams that the busiest host other than the source sent and received, per message."""
    rows = run.table("loads").to_pylist()
    busiest: int = max(row["sent"] + row["received"] for row in rows if row["host"] != run.source)
    return busiest / run.history.messages
