#!./castbed run
"""Figures 3 and 4 of the fourth paper: C, the control messages for each broadcast of `counter`, against T, A, N and errors.

    ./castbed run counter_costs --on simulator --pack off                          # 3,000 messages a run
    ./castbed run counter_costs --on simulator --pack off --set messages=30000     # as many as in the paper
    sudo ./castbed run counter_costs --pack off --set hosts=10 --set owner=1,2 --set errors=0% --set unit=1s --set propagation=0

N hosts broadcast at random times, and each keeps the token for T. A packet takes a random time of up to PP = 0.1, and is lost on its way to
each host with probability E: half of that at its source, for all hosts at once if it is multicast. Times are in units of `unit`, as the
paper names none. The paper calls exp(A, N) the time between two broadcasts of the system, and uses it as that of one node: read as
`host`, each host broadcasts A times in a unit, and read as `system`, all hosts together do. Only with the first does C fall with N as the
text says, so Figure 4 has that one; Figure 3 is made with both. Figure 4 has the most nodes with each A and the least and greatest T, as in
the paper, and all N with the first A and T. A run with the second has a part of N of the messages, and so takes as long
and has as many tokens.

C is the packets with tokens while messages are broadcast and all those that ask for lost messages, for each broadcast. Our requests name
several messages and go to one host; so beside that C is counted as in the paper's formula, with a request for each lost message. Only
that one grows with E throughout: where more is lost, a request names more.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from analysis.figures.claims import Claim, Entry, MeasuredRun, Runs, Sweep, Table
from runfiles.format import Medium
from scenarios import Scenario, Time, Variant, Workload
from scenarios.nonprogrammable_servers.control_cost import whole_numbers
from scenarios.scenario import ScenarioError
from topologies import lan, units

PROPAGATION: Final = 0.1
"""PP, in units; P, the mean, is half of it."""
MEDIA: Final[tuple[Medium, ...]] = ("multicast", "unicast")
READINGS: Final = {"host": "with A of each host", "system": "with A of the system"}
"""The readings of exp(A, N), in words."""
NETWORKS: Final[Mapping[Medium, str]] = {"multicast": "broadcast network", "unicast": "point-to-point network"}
FORMULA: Final = "exp(A, N) / (N (T + P))"
"""C without errors in a broadcast network."""
MOST_CONTROL: Final = 0.1
"""What C stays below without errors, by the paper."""
NEARLY: Final = 0.2
"""Figures that differ by less than this share of the greater one are nearly equal."""


class Point(NamedTuple):
    """A point of a figure."""

    medium: Medium
    hosts: int
    """N."""
    rate: int
    """A, broadcasts in a unit."""
    owner: int
    """T, in units."""
    error: float = 0.0
    """E."""
    reading: str = "host"
    """What A is the rate of: each host, or the system."""

    @property
    def label(self) -> str:
        """The label of its run."""
        reading = "" if self.reading == "host" else f"{self.reading}-"
        return f"{self.medium}-{reading}N{self.hosts}-A{self.rate}-T{self.owner}-E{self.error:g}"


def point_of(run: MeasuredRun) -> Point:
    """The point that a run is for."""
    hosts, rate, owner, error = (part[1:] for part in run.label.split("-")[-4:])
    reading = "system" if "-system-" in run.label else "host"
    return Point(run.summary.medium, int(hosts), int(rate), int(owner), float(error), reading)


def shares(text: str) -> tuple[float, ...]:
    """Shares from text such as `0%,5%`."""
    return tuple(units.share(part) for part in text.split(","))


def reading_of(text: str) -> str:
    """One of the two readings of exp(A, N)."""
    if text not in READINGS:
        raise ValueError(f"{text!r} is no reading of exp(A, N): choose host or system")
    return text


def readings_of(text: str) -> tuple[str, ...]:
    """Readings from text such as `host,system`."""
    return tuple(reading_of(part) for part in text.split(","))


def scenario(
    hosts: Annotated[tuple[int, ...], whole_numbers] = (10, 20),
    rates: Annotated[tuple[int, ...], whole_numbers] = (10, 20),
    owner: Annotated[tuple[int, ...], whole_numbers] = (1, 2, 3, 4, 5),
    errors: Annotated[tuple[float, ...], shares] = (0.0, 0.02, 0.05, 0.1),
    readings: Annotated[tuple[str, ...], readings_of] = ("host", "system"),
    unit: Time = 100.0,
    propagation: float = PROPAGATION,
    messages: int = 3000,
) -> list[Variant]:
    """Figure 3: all A and T without errors, on multicast. Figure 4: all E on both media, with the first reading.

    hosts: N: numbers of hosts, a run for each
    rates: A: broadcasts in a unit of time, a run for each
    owner: T: units of time that an owner keeps the token, a run for each
    errors: E: shares of packets that are lost, a run for each
    readings: what A is the rate of: each host, the system, or both after each other
    unit: how long a unit of the paper's time is
    propagation: P: units of time that a packet takes
    messages: broadcasts of each run; with the system's rate, a part of N of them
    """
    figure_3 = [Point("multicast", n, a, t, 0.0, reading) for reading in readings for n in hosts for a in rates for t in owner]
    lines = [*((n, rates[0], owner[0]) for n in hosts), *((max(hosts), a, t) for a in rates for t in (min(owner), max(owner)))]
    figure_4 = [Point(medium, n, a, t, error, readings[0]) for medium in MEDIA for n, a, t in lines for error in errors]
    return [
        Variant(
            point.label,
            system(point, unit, propagation, messages if point.reading == "host" else max(messages // point.hosts, 2)),
            "counter",
            counter_parameters(point.owner * unit),
            medium=point.medium,
        )
        for point in dict.fromkeys((*figure_3, *figure_4))
    ]


def ring_parameters(owner_ms: float) -> dict[str, object]:
    """Parameters of a protocol whose token goes round a list, with this T."""
    return {"token_owner_ms": owner_ms, "longest_wait_ms": max(2000.0, 4 * owner_ms)}


def counter_parameters(owner_ms: float) -> dict[str, object]:
    """Parameters of `counter` with this T. The paper's simulation has no flow control."""
    return {**ring_parameters(owner_ms), "flow_control": False}


def system(point: Point, unit: float, propagation: float, messages: int) -> Scenario:
    """The network and the stream of a point."""
    if not 0 <= propagation <= 1:
        raise ScenarioError(f"propagation={propagation:g}: the longest time of a packet is between 0 and 1, in units")
    # A packet crosses two links; on each it takes up to half of the longest time, and half of that on average.
    mean_ms = propagation * unit / 4
    network = lan(point.hosts, delay_ms=mean_ms, jitter_ms=mean_ms, loss=1 - sqrt(1 - point.error))
    stream = Workload(
        messages=messages,
        interval=unit / point.rate,
        arrivals="poisson-per-host" if point.reading == "host" else "poisson",
        payload=64,
        # Up to three cycles until the last message is committed, longer where tokens and requests are lost.
        settle=(8 if point.error else 4) * point.hosts * (point.owner + propagation) * unit,
    )
    return Scenario(network=network, sources=network.hosts, workload=stream)


class Cost(NamedTuple):
    """C of a run."""

    packets: float
    """In packets."""
    messages: float
    """With a request for each lost message."""
    formula: float
    """By the paper's formula, with the rate of broadcasts of the run."""
    broadcasts: int


Lines = dict[str, list[tuple[float, float, str]]]
AS_IN_PAPER: Final = "with a request for each lost message"
MEASURES: Final[Mapping[str, Callable[[Cost], float]]] = {
    "in packets": lambda cost: cost.packets,
    AS_IN_PAPER: lambda cost: cost.messages,
}
_costs: dict[Path, Cost] = {}
"""By run: claims, tables and figures need them, and logs are long."""


def cost_of(run: MeasuredRun) -> Cost:
    """C of a run. Tokens after the last broadcast do not count; requests do."""
    if run.directory not in _costs:
        end_s, broadcasts, requests = run.stream_end_s, len(run.broadcasts), run.logged("request")
        packets = run.packets_for("control", end_s) + sum(run.at_s(request.at_ns) > end_s for request in requests)
        asked = sum(last - first + 1 for request in requests for first, last in request.details["missing"])
        _costs[run.directory] = Cost(
            packets / broadcasts, (packets - len(requests) + asked) / broadcasts, _formula(run), broadcasts
        )
    return _costs[run.directory]


def _formula(run: MeasuredRun) -> float:
    point = point_of(run)
    copies = 1 if point.medium == "multicast" else point.hosts - 1
    hop_s: float = run.summary.parameters["token_owner_ms"] / 1000 + 2 * run.network.links[0].delay_ms / 1000
    tokens = copies * run.stream_end_s / (len(run.broadcasts) * hop_s)
    return (tokens + (point.hosts - 1) * point.error) / (1 - point.error)


def claims(runs: Runs) -> Iterator[Claim]:
    """What section 4.2 says of Figures 3 and 4."""
    costs = {point_of(run): cost_of(run) for run in runs}
    without_errors = {point: cost.packets for point, cost in costs.items() if point.medium == "multicast" and not point.error}
    yield from _near_formula({point: costs[point] for point in without_errors})
    for reading, words in READINGS.items():
        figure_3 = {point: cost for point, cost in without_errors.items() if point.reading == reading}
        if figure_3:
            most = max(figure_3, key=lambda point: figure_3[point])
            text = f"C is below {MOST_CONTROL:g} without errors, at every point, {words}"
            yield Claim("Figure 3", text, figure_3[most] < MOST_CONTROL, f"at most {figure_3[most]:.4f}, at {most.label}")
            yield from _ordered("Figure 3", f"C falls as T grows, {words}", figure_3, "owner", falls=True)
            if reading == "host":
                yield from _ordered("Figure 3", "C falls as N grows", figure_3, "hosts", falls=True)
    figure_4_points = _figure_4(costs)
    for measure, value in MEASURES.items():
        figure_4 = {point: value(costs[point]) for point in figure_4_points}
        lossy = {point: cost for point, cost in figure_4.items() if point.error}
        if measure == AS_IN_PAPER:
            yield from _ordered("Figure 4", f"C {measure} grows with E", figure_4, "error", falls=False)
            yield from _ordered("Figure 4", f"with errors C {measure} grows with N", lossy, "hosts", falls=False)
        yield from _equal_on_both_media(measure, lossy)


def _figure_4(points: Collection[Point]) -> list[Point]:
    """The points of Figure 4: those that there are on unicast, on either medium."""
    asked = {point._replace(medium="unicast") for point in points if point.medium == "unicast"}
    return [point for point in points if point._replace(medium="unicast") in asked]


def _near_formula(costs: Mapping[Point, Cost]) -> Iterator[Claim]:
    """Whether each C is as the formula says, give or take a token at the end of the stream."""
    off = {point: (abs(cost.packets - cost.formula) - 1 / cost.broadcasts) / cost.formula for point, cost in costs.items()}
    worst = max(off, key=lambda point: off[point])
    figure = f"at most {costs[worst].packets:.4f} where the formula gives {costs[worst].formula:.4f}, at {worst.label}"
    yield Claim("4.1", "without errors C is exp(A, N) / (N (T + P)), within a tenth", off[worst] <= 0.1, figure)


def _ordered(number: str, text: str, costs: Mapping[Point, float], field: str, *, falls: bool) -> Iterator[Claim]:
    """Whether C falls or grows with one field of a point, where all others are equal."""
    lines: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for point, cost in costs.items():
        others = tuple(value for name, value in point._asdict().items() if name != field)
        lines.setdefault(others, []).append((getattr(point, field), cost))
    compared = [pair for line in lines.values() for pair in pairwise(sorted(line))]
    if not compared:
        yield Claim(number, text, None, "there is only one value of it")
        return
    right = [later < earlier if falls else later > earlier for (_, earlier), (_, later) in compared]
    ratios = [later / max(earlier, 1e-9) for (_, earlier), (_, later) in compared]
    figure = f"{sum(right)} of {len(right)} steps, by {min(ratios):.2f} to {max(ratios):.2f} times"
    yield Claim(number, text, all(right), figure)


def _equal_on_both_media(measure: str, costs: Mapping[Point, float]) -> Iterator[Claim]:
    pairs = {point: (cost, costs[there]) for point, cost in costs.items() if (there := point._replace(medium="unicast")) in costs}
    pairs = {point: pair for point, pair in pairs.items() if point.medium == "multicast"}
    text = f"with errors C {measure} is nearly the same on both media"
    if not pairs:
        yield Claim("Figure 4", text, None, "there are no runs with errors on both media")
        return
    far = {point: 1 - min(pair) / max(pair) for point, pair in pairs.items()}
    worst = max(far, key=lambda point: far[point])
    told = "; ".join(
        f"N {point.hosts}, A {point.rate}, T {point.owner}, E {point.error:g}: {ours:.3f} and {theirs:.3f}"
        for point, (ours, theirs) in pairs.items()
    )
    yield Claim("Figure 4", text, far[worst] <= NEARLY, f"on multicast and unicast, {told}")


def _called(point: Point) -> str:
    """A point in words."""
    rate = f"A = {point.rate}" if point.reading == "host" else f"A = {point.rate} of the system"
    return f"{NETWORKS[point.medium]}, N = {point.hosts}, {rate}, T = {point.owner}, E = {point.error:g}"


def tables(runs: Runs) -> Iterator[Table]:
    """C at every point, beside the formula."""
    rows = {}
    for run in runs:
        cost = cost_of(run)
        point = point_of(run)
        stated = FORMULA if point.medium == "multicast" else f"(N - 1) {FORMULA}"
        if point.error:
            stated = f"({stated} + (N - 1) E) / (1 - E)"
        rows[_called(point)] = {
            "C, packets": Entry(stated, cost.packets, cost.formula),
            "C, a request for each lost message": Entry(stated, cost.messages, cost.formula),
        }
    yield Table("Figures 3 and 4", "Control packets C for each broadcast", rows)


def sweep(runs: Runs) -> Iterator[Sweep]:
    """Figure 3, (a) and (b), and Figure 4, with the axes of the paper."""
    costs = {point_of(run): cost_of(run) for run in runs}
    label = "control messages per broadcast, C"
    for n in dict.fromkeys(point.hosts for point in costs):
        lines = Lines()
        for point, cost in costs.items():
            if point.hosts == n and point.medium == "multicast" and not point.error:
                lines.setdefault(f"A = {point.rate} of the {point.reading}", []).append((float(point.owner), cost.packets, ""))
        yield Sweep(
            f"C without errors in a broadcast network, N = {n}", "token owner time T", label, lines, name=f"Figure 3, N = {n}"
        )
    figure_4 = _figure_4(costs)
    first = min(((point.rate, point.owner) for point in figure_4), default=None)
    most = max((point.hosts for point in figure_4), default=0)
    for medium, network in NETWORKS.items():
        lines, others = Lines(), Lines()
        for point in figure_4:
            if point.medium == medium:
                cost, at = costs[point], point.error
                if point.hosts == most:
                    lines.setdefault(f"A = {point.rate}, T = {point.owner}", []).append((at, cost.messages, ""))
                if (point.rate, point.owner) == first:
                    others.setdefault(f"N = {point.hosts}, packets", []).append((at, cost.packets, ""))
                    others.setdefault(f"N = {point.hosts}, a request for each message", []).append((at, cost.messages, ""))
        if lines:
            yield Sweep(f"C in a {network}, N = {most}", "error rate E", label, lines, name=f"Figure 4, {medium}")
            title = f"C in a {network}, A = {first[0]}, T = {first[1]}" if first else ""
            yield Sweep(title, "error rate E", label, others, name=f"Figure 4, {medium}, both N")
