#!./castbed run
"""Cheap links that flap make hosts attach to their own descendants: no such cycle of parents lasts (claim 4).

Each cluster has two switches, and the cheap link between them goes down and comes up at random times. So clusters split and merge again,
and two leaders that have the same messages may each become a descendant of the other. The number in the label is the seed of the times.
"""

from collections.abc import Iterator
from random import Random

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Fault, LinkDown, LinkUp, trunks
from topologies import Network, clusters

MOST_S = 2.0
"""Two periods of INFO between clusters, five of the attachment procedure."""
FLAPPING_MS = 12_000.0
MODES = ("frugal", "literal")


def scenario(k: int = 3, size: int = 4, draws: int = 2, first: int = 9) -> list[Variant]:
    """A stream that goes on for some time after the last flap: a cycle matters only while there are new messages.

    k: clusters, in a ring
    size: hosts of each cluster
    draws: random schedules of flaps, a run of each mode for each
    first: the seed of the first of them; with 9, cycles form in either mode
    """
    network = clusters(k, size, "ring", 2)
    stream = Workload(messages=350, interval=40.0, settle=3000.0)
    drawn = {
        seed: Scenario(network=network, faults=tuple(_flaps(network, Random(seed))), workload=stream)  # noqa: S311 - an experiment, no secret
        for seed in range(first, first + draws)
    }
    return [
        Variant(f"{mode}-{seed}", scenario, "cluster-tree", {"mode": mode}) for mode in MODES for seed, scenario in drawn.items()
    ]


def _flaps(network: Network, random: Random) -> Iterator[Fault]:
    """Each cheap link between switches is down for one or two seconds, then up for about one second, again and again."""
    for link in (link.name for link in trunks(network) if not link.expensive):
        at_ms = random.uniform(0, 1500)
        while at_ms < FLAPPING_MS:
            yield LinkDown(at_ms=at_ms, link=link)
            at_ms += random.uniform(800, 2500)
            yield LinkUp(at_ms=at_ms, link=link)
            at_ms += random.uniform(300, 1500)


def claims(runs: Runs) -> Iterator[Claim]:
    """The longest time that a cycle existed, for each mode."""
    for mode in MODES:
        lasted = [time_s for run in runs if run.label.startswith(mode) for time_s in _times(run)]
        text = f"{mode}: no cycle of parents lasts longer than {MOST_S:g} s"
        if not lasted:
            yield Claim("4", text, None, "no cycle formed")
            continue
        formed = "one cycle" if len(lasted) == 1 else f"{len(lasted)} cycles"
        yield Claim("4", text, max(lasted) <= MOST_S, f"{formed} formed, the longest lasted {max(lasted):.2f} s")


def _times(run: MeasuredRun) -> list[float]:
    """How long each cycle lasted while messages were sent: without new messages a cycle does no harm."""
    return [min(cycle.until_s, run.stream_end_s) - cycle.since_s for cycle in run.cycles() if cycle.since_s < run.stream_end_s]
