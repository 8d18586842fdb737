#!./castbed run
"""Figure 1 of the fifth paper: the delay of SPO against the number of entities, on a LAN of 10 Mbit/s, phase by phase.

All entities send to all, in turn, at random times. A message counts as accepted, pre-acknowledged or acknowledged when its last destination
has it so far. The figure is drawn with intervals if there are repeats: --repeat 6.
"""

from collections.abc import Iterator
from statistics import median
from typing import Annotated

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from runfiles.format import Medium
from scenarios import Scenario, Variant, Workload
from topologies import lan
from topologies.properties import whole

MEDIA: tuple[Medium, ...] = ("multicast", "unicast")
LAN_MBIT = 10.0
PHASES = {"accepted": "receive", "pre-acknowledged": "pre-acknowledged", "acknowledged": "deliver"}
"""What an entity logs when a message has come so far."""
PROMISED = (
    Guarantee.NO_CREATION,
    Guarantee.PROGRESS,
    Guarantee.SAFE,
    Order(Scope.SINGLE_SOURCE, Strength.STRICT),
)


def whole_numbers(text: str) -> tuple[int, ...]:
    """Numbers from text such as `2,4,8`."""
    return tuple(whole(part) for part in text.split(","))


def scenario(entities: Annotated[tuple[int, ...], whole_numbers] = (2, 4, 6, 8, 10)) -> list[Variant]:
    """A LAN of each size, on both media.

    entities: numbers of hosts, runs for each
    """
    stream = Workload(messages=60, interval=40.0, arrivals="poisson", settle=1500.0)
    return [
        Variant(f"{medium}-{size}", Scenario(network=network, sources=network.hosts, workload=stream), "spo", medium=medium)
        for medium in MEDIA
        for size in entities
        for network in (lan(size, bandwidth_mbit=LAN_MBIT),)
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """That the delay grows with the number of entities, that phases follow each other, and what is promised."""
    for medium in MEDIA:
        sizes = _of(runs, medium)
        told = "; ".join(f"{run.summary.hosts} entities: {_told(run)}" for run in sizes)
        first, last = (median(run.last_ms(PHASES["acknowledged"]).values()) for run in (sizes[0], sizes[-1]))
        yield Claim("Figure 1", f"{medium}: the delay grows with the number of entities", last > first, told)
    for run in runs:
        medians = [median(run.last_ms(PHASES[phase]).values()) for phase in PHASES]
        yield Claim(
            "section 3",
            f"{run.label}: accepted, pre-acknowledged, acknowledged, in this order",
            medians == sorted(medians),
            _told(run),
        )
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)


def sweep(runs: Runs) -> Sweep:
    """The delay against the number of entities: a line for each phase and medium."""
    lines = {
        f"{phase}, {medium}": [
            (float(run.summary.hosts), median(run.last_ms(PHASES[phase]).values()), "") for run in _of(runs, medium)
        ]
        for medium in MEDIA
        for phase in PHASES
    }
    title = "Delay of SPO until the last destination has a message"
    return Sweep(title=title, x="entities", y="median delay, ms", lines=lines, name="Figure 1")


def _of(runs: Runs, medium: str) -> list[MeasuredRun]:
    return sorted((run for run in runs if run.label.startswith(medium)), key=lambda run: run.summary.hosts)


def _told(run: MeasuredRun) -> str:
    return ", ".join(f"{median(values):.1f}" for values in (run.last_ms(event).values() for event in PHASES.values())) + " ms"
