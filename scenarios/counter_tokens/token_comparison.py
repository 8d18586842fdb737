#!./castbed run
"""Tables 1 to 3 and Figures 5 to 7 of the fourth paper: messages for each broadcast (Num) and delay of five protocols, on both media.

    ./castbed run token_comparison --on simulator --pack off                                   # 1,000 messages a run
    ./castbed run token_comparison --on simulator --pack off --set messages=30000              # as many as in the paper
    sudo ./castbed run token_comparison --pack off --set hosts=10 --set unit=1s --set propagation=0

N hosts broadcast A messages each in a unit of time, at random times; all systems have the same load. T is 1 and PP 0.1 as in
`counter_costs`. Num is all packets for each broadcast: those with messages, and all others until the last message has left its source.
`two-phase` acknowledges its packets, which the paper does not count, and which are left out here. The formulas with tokens are of a busy
system; where a packet takes less than the time between two broadcasts, as with propagation=0, tokens go round for nothing.

The paper's D of a protocol with a token is no delay: it is the time of a cycle, of two for `counter`, divided by the messages of a cycle,
and so the time between two broadcasts or twice that. Beside it stands the true delay, from the broadcast until the last host delivers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import pyarrow.compute as pc

from analysis.figures.claims import Claim, Entry, MeasuredRun, Runs, Sweep, Table
from scenarios import Scenario, Time, Variant
from scenarios.counter_tokens.counter_costs import (
    MEDIA,
    PROPAGATION,
    Point,
    counter_parameters,
    point_of,
    reading_of,
    ring_parameters,
    system,
)
from scenarios.nonprogrammable_servers.control_cost import whole_numbers
from scenarios.scenario import load

OWNER: Final = 1
"""T, in units."""
NEAR: Final = 0.1
"""A figure is as a formula says if it differs by less than this share."""


class Measured(NamedTuple):
    """What a run shows, with times in units."""

    num: float
    """Packets for each broadcast."""
    paper: float
    """D as the paper counts it."""
    delay: float
    """The mean time from a broadcast until its last delivery."""
    gap: float
    """The mean time between two broadcasts, exp(A, N) / N."""
    p: float
    """The mean time of a packet, P."""


Formula = Callable[[int, Measured], float]


@dataclass(frozen=True)
class Row:
    """A protocol in the tables: its name there, and the formulas as text and as functions of N and what was measured."""

    called: str
    num: tuple[str, Formula]
    """Num in a broadcast network."""
    num_alone: tuple[str, Formula]
    """Num in a point-to-point network."""
    delay: tuple[str, Formula]
    """D."""
    cycles: int = 0
    """How many cycles D is about, divided by their messages; 0 if D is a delay."""
    parameters: Callable[[float], dict[str, Any]] = lambda _: {}
    """The parameters with a token owner time, in milliseconds."""
    one_a_period: bool = False
    """Whether a host sends one message in a token period, so that its messages wait, and the run takes as many periods."""
    acknowledged: bool = False
    """Whether its other packets are acknowledgements of single packets, which the paper does not count."""
    batches: bool = False
    """Whether one packet may serve several messages, so that the formulas of Num are the most that a message takes."""
    share: float = 1.0
    """The share of the messages that is enough: every broadcast takes the same number of packets, and many of them."""


ROWS: Final = {
    "token-site": Row(
        "centralized",
        num=("2", lambda *_: 2),
        num_alone=("N", lambda n, _: n),
        delay=("2 P", lambda _, m: 2 * m.p),
        batches=True,
        parameters=lambda _: {"resilience": 0},
    ),
    "two-phase": Row(
        "two-phase",
        num=("N + 1", lambda n, _: n + 1),
        num_alone=("3 (N - 1)", lambda n, _: 3 * (n - 1)),
        delay=("3 P", lambda _, m: 3 * m.p),
        acknowledged=True,
        share=0.1,
    ),
    "totem": Row(
        "fast message",
        num=("2", lambda *_: 2),
        num_alone=("2 (N - 1)", lambda n, _: 2 * (n - 1)),
        delay=("T + P", lambda _, m: OWNER + m.p),
        batches=True,
        cycles=1,
    ),
    "optimistic": Row(
        "optimistic",
        num=("1 + 1 / N", lambda n, _: 1 + 1 / n),
        num_alone=("(N - 1) + (N - 1) / N", lambda n, _: (n - 1) * (1 + 1 / n)),
        delay=("T / N + P / N", lambda n, m: (OWNER + m.p) / n),
        cycles=1,
        parameters=ring_parameters,
        one_a_period=True,
    ),
    "counter": Row(
        "counter-based",
        num=("1 + exp(A, N) / ((T + P) N)", lambda _, m: 1 + m.gap / (OWNER + m.p)),
        num_alone=("(N - 1) (1 + exp(A, N) / ((T + P) N))", lambda n, m: (n - 1) * (1 + m.gap / (OWNER + m.p))),
        delay=("2 exp(A, N) / N", lambda _, m: 2 * m.gap),
        cycles=2,
        parameters=counter_parameters,
    ),
}
"""The protocols. A further one needs its row here, and nothing else."""


def scenario(
    hosts: Annotated[tuple[int, ...], whole_numbers] = (10, 20, 30, 40, 50),
    rates: Annotated[tuple[int, ...], whole_numbers] = (10, 20),
    reading: Annotated[str, reading_of] = "host",
    unit: Time = 100.0,
    propagation: float = PROPAGATION,
    messages: int = 1000,
) -> list[Variant]:
    """Every protocol with the first rate, and `counter` with all rates.

    hosts: N: numbers of hosts, runs for each
    rates: A: broadcasts in a unit of time; further ones for counter alone
    reading: what A is the rate of: each host, or the system
    unit: how long a unit of the paper's time is
    propagation: P: units of time that a packet takes
    messages: broadcasts of a run; slow protocols have a part of them
    """
    return [
        Variant(
            f"{name}-{point.label}",
            _system(row, point, unit, propagation, max(round(row.share * messages), 100)),
            name,
            row.parameters(OWNER * unit),
            medium=medium,
        )
        for n in hosts
        for medium in MEDIA
        for name, row in ROWS.items()
        for rate in (rates if name == "counter" else rates[:1])
        for point in (Point(medium, n, rate, OWNER, reading=reading),)
    ]


def _system(row: Row, point: Point, unit: float, propagation: float, messages: int) -> Scenario:
    asked = system(point, unit, propagation, messages)
    if not row.one_a_period:
        return asked
    # Two hops a period, so that it is enough where tokens wait for messages.
    waits_ms = 2 * messages / point.hosts * (point.owner + propagation) * unit
    return replace(asked, workload=replace(asked.workload, settle=asked.workload.settle + waits_ms))


_measured: dict[Path, Measured] = {}
"""By run: claims, tables and figures need it, and logs are long."""


def measured(run: MeasuredRun) -> Measured:
    """What a run shows."""
    if run.directory not in _measured:
        took, broadcasts, last_s = run.last_ms(), len(run.broadcasts), _last_sent_s(run)
        unit_s, p = _unit_s(run), 2 * run.network.links[0].delay_ms / 1000
        row = ROWS[run.summary.protocol]
        packets = run.data_packets().total() + run.packets_for("repair")
        packets += 0 if row.acknowledged else run.packets_for("control", last_s)
        delay = sum(took.values()) / max(len(took), 1) / 1000 / unit_s
        paper = row.cycles * last_s / broadcasts / unit_s if row.cycles else delay
        gap = run.stream_end_s / broadcasts / unit_s
        _measured[run.directory] = Measured(packets / broadcasts, paper, delay, gap, p / unit_s)
    return _measured[run.directory]


def _unit_s(run: MeasuredRun) -> float:
    """The unit of time of a run: as long as A broadcasts are asked for to take."""
    return load(run.directory / "scenario.json", run.network).workload.interval * point_of(run).rate / 1000


def _last_sent_s(run: MeasuredRun) -> float:
    """When the last packet with a message left its source, which may be long after the last broadcast where messages wait."""
    packets = run.table("packets").select(["source", "sender", "purpose", "at_ns"])
    chosen = pc.and_(pc.equal(packets["purpose"], "data"), pc.equal(packets["source"], packets["sender"]))
    return run.at_s(pc.max(packets.filter(chosen)["at_ns"]).as_py())


def claims(runs: Runs) -> Iterator[Claim]:
    """What section 4.3 says, on the paper's readings and on the true ones."""
    found = {(run.summary.protocol, point_of(run)): measured(run) for run in runs}
    for name, row in ROWS.items():
        for medium, (text, formula) in zip(MEDIA, (row.num, row.num_alone), strict=True):
            said = f"{name}, {medium}: Num {'is at most' if row.batches else '='} {text}"
            yield _by_formula(said, _of(found, name, medium), formula, at_most=row.batches)
    for medium, figure in zip(MEDIA, ("Figure 5", "Figure 7"), strict=True):
        yield _least(figure, f"{medium}: counter needs the fewest messages", found, medium, lambda m: m.num)
    yield _two_least(found)
    pair = {key: value for key, value in found.items() if key[0] in {"counter", "optimistic"}}
    yield _least("Table 3", "unicast: counter needs fewer messages than optimistic", pair, "unicast", lambda m: m.num)
    yield _least("Figure 6", "multicast: counter has the shortest D, as D is counted there", found, MEDIA[0], lambda m: m.paper)
    for medium in MEDIA:
        yield _least("Figure 6", f"{medium}: counter has the shortest true delay", found, medium, lambda m: m.delay)
    yield from _delays_over_hosts(_at_one_rate(found, MEDIA[0]))
    yield _in_cycles(found)


Found = Mapping[tuple[str, Point], Measured]


def _of(found: Found, name: str, medium: str) -> dict[Point, Measured]:
    return {point: shown for (its, point), shown in found.items() if (its, point.medium) == (name, medium)}


def _by_formula(text: str, points: Mapping[Point, Measured], formula: Formula, *, at_most: bool) -> Claim:
    """Whether each point is as the formula says, or no higher."""
    if not points:
        return Claim("Tables 1 and 2", text, None, "there is no such run")
    pairs = {point: (shown.num, formula(point.hosts, shown)) for point, shown in points.items()}
    told = "; ".join(
        f"N {point.hosts}, A {point.rate}: {ours:.3f}, {theirs:.3f} there" for point, (ours, theirs) in pairs.items()
    )
    if at_most and (idle := _idle(points)):
        return Claim("Tables 1 and 2", text, None, f"{idle}: {told}")
    right = [ours <= theirs if at_most else abs(ours - theirs) <= NEAR * theirs for ours, theirs in pairs.values()]
    return Claim("Tables 1 and 2", text, all(right), told)


def _idle(points: Mapping[Point, Measured]) -> str:
    """If broadcasts are so rare that a token, or an acknowledgement, is seldom for several of them: that it is so."""
    rare = [shown for shown in points.values() if shown.gap > shown.p]
    return f"not a busy system, with a packet of {rare[0].p:.3g} units every {rare[0].gap:.3g} units" if rare else ""


def _at_one_rate(found: Found, medium: str) -> dict[int, dict[str, Measured]]:
    """By N, the protocols with the same rate."""
    rate = min((point.rate for name, point in found if name != "counter"), default=0)
    by_hosts: dict[int, dict[str, Measured]] = {}
    for (name, point), shown in found.items():
        if (point.medium, point.rate) == (medium, rate):
            by_hosts.setdefault(point.hosts, {})[name] = shown
    return by_hosts


def _two_least(found: Found) -> Claim:
    """Whether `counter` and `optimistic` are below the others that Figure 7 shows."""
    text = "unicast: counter and optimistic need less than all others"
    if idle := _idle(_of(found, "totem", "unicast")):
        return Claim("Figure 7", text, None, idle)
    right, told = [], []
    for n, each in _at_one_rate(found, "unicast").items():
        values = {name: shown.num for name, shown in each.items() if name != "two-phase"}
        right.append(set(sorted(values, key=lambda name: values[name])[:2]) == {"counter", "optimistic"})
        told.append(f"N {n}: " + ", ".join(f"{name} {amount:.3f}" for name, amount in values.items()))
    return Claim("Figure 7", text, all(right), "; ".join(told))


def _delays_over_hosts(by_hosts: Mapping[int, Mapping[str, Measured]]) -> Iterator[Claim]:
    """What section 4.3 says of the shape of D over N."""
    for name in ROWS:
        values = {n: each[name].paper for n, each in sorted(by_hosts.items()) if name in each}
        falls = name in {"optimistic", "counter"}
        text = f"multicast: D of {name} {'falls as N grows' if falls else 'is the same for every N'}"
        told = ", ".join(f"N {n}: {value:.4f}" for n, value in values.items())
        if len(values) < 2:
            yield Claim("Figure 6", text, None, f"{told}; there is only one N")
            continue
        right = (
            all(b < a for a, b in pairwise(values.values())) if falls else 1 - min(values.values()) / max(values.values()) <= NEAR
        )
        yield Claim("Figure 6", text, right, told)


def _least(number: str, text: str, found: Found, medium: str, value: Callable[[Measured], float]) -> Claim:
    """Whether `counter` has the least value for each number of hosts, with the same rate."""
    right, told = [], []
    for n, each in _at_one_rate(found, medium).items():
        values = {name: value(shown) for name, shown in each.items()}
        right.append(min(values, key=lambda name: values[name]) == "counter")
        told.append(f"N {n}: " + ", ".join(f"{name} {amount:.3f}" for name, amount in values.items()))
    return Claim(number, text, all(right), "; ".join(told))


def _in_cycles(found: Found) -> Claim:
    """The true delay of `counter` in cycles of N (T + P)."""
    counters = {point: shown for (name, point), shown in found.items() if name == "counter"}
    cycles = {point: shown.delay / (point.hosts * (OWNER + shown.p)) for point, shown in counters.items()}
    told = "; ".join(f"{point.medium}, N {point.hosts}, A {point.rate}: {took:.2f}" for point, took in cycles.items())
    right = all(1 <= took <= 2 for took in cycles.values())
    return Claim("4.1", "the true delay of counter is between one and two cycles on average", right, told)


def tables(runs: Runs) -> Iterator[Table]:
    """Tables 1 to 3, with the true delay beside D."""
    names = ("Table 1", "Num and D in a broadcast network"), ("Table 2", "Num in a point-to-point network")
    for medium, (name, title) in zip(MEDIA, names, strict=True):
        yield Table(name, title, _rows(runs, medium, tuple(ROWS)))
    yield Table("Table 3", "Num of two protocols in a point-to-point network", _rows(runs, "unicast", ("counter", "optimistic")))


def _rows(runs: Runs, medium: str, names: tuple[str, ...]) -> dict[str, dict[str, Entry]]:
    found = {}
    for run in runs:
        name, point, shown = run.summary.protocol, point_of(run), measured(run)
        if point.medium != medium or name not in names:
            continue
        row = ROWS[name]
        text, formula = row.num if medium == MEDIA[0] else row.num_alone
        called = row.called if row.called == name else f"{row.called} ({name})"
        found[f"{called}, N = {point.hosts}, A = {point.rate}"] = {
            "Num, packets": Entry(text, shown.num, formula(point.hosts, shown)),
            "D, units of time": Entry(row.delay[0], shown.paper, row.delay[1](point.hosts, shown)),
            "true delay, units": Entry("", shown.delay),
        }
    return found


def sweep(runs: Runs) -> list[Sweep]:
    """Figures 5 to 7, and Figure 6 once more with the true delay. Figures 5 and 7 leave two-phase out, as in the paper."""
    found = {(run.summary.protocol, point_of(run)): measured(run) for run in runs}
    shown = (
        ("Figure 5", "Num in a broadcast network", MEDIA[0], lambda m: m.num),
        ("Figure 6", "D as the paper counts it, in a broadcast network", MEDIA[0], lambda m: m.paper),
        ("Figure 6, true", "True delay in a broadcast network", MEDIA[0], lambda m: m.delay),
        ("Figure 7", "Num in a point-to-point network", MEDIA[1], lambda m: m.num),
    )
    return [
        Sweep(title, "number of nodes N", "packets per broadcast, Num" if "Num" in title else "units of time", lines, name=name)
        for name, title, medium, value in shown
        if (lines := _lines(found, medium, value, without_two_phase=name in {"Figure 5", "Figure 7"}))
    ]


def _lines(
    found: Found, medium: str, value: Callable[[Measured], float], *, without_two_phase: bool
) -> dict[str, list[tuple[float, float, str]]]:
    """A line for each protocol, and for each A of `counter`."""
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for (name, point), shown in found.items():
        if point.medium == medium and not (name == "two-phase" and without_two_phase):
            line = f"{name}, A = {point.rate}" if name == "counter" else name
            lines.setdefault(line, []).append((float(point.hosts), value(shown), ""))
    return lines
