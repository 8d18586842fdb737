#!./castbed run
"""What LC2's wait saves: requests for PDUs that were for others, with the wait and without it (fifth paper, section 3.4).

Six entities send to overlapping groups of two to four of them, on a LAN that loses some packets. An entity that hears from another of a PDU
that it lacks waits for the next PDU of the sender (`lc2=wait`), or asks at once (`lc2=at-once`). With repeats the claims are about all of
them together, each with the 95 % interval of what is saved: --repeat 6.
"""

from collections.abc import Iterator
from math import sqrt

from analysis.figures.claims import Claim, Gain, MeasuredRun, Runs, Sweep, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.scenario import Share
from topologies import lan

MEASURES = ("requests", "requests that no PDU answers", "PDUs sent again")
UNIT = "saved for each lost datagram"
GROUPS = {"a": "12", "b": "1234", "c": "35", "d": "2456", "e": "16", "f": "346"}


def scenario(loss: Share = 0.04) -> list[Variant]:
    """The same stream with the wait and without it.

    loss: the share of packets that do not get from one host to another
    """
    network = lan(6, bandwidth_mbit=10.0, loss=1 - sqrt(1 - loss))
    groups = tuple(Group(name, tuple(f"h{number}" for number in members)) for name, members in GROUPS.items())
    stream = Workload(messages=600, interval=8.0, arrivals="poisson", settle=4000.0)
    same = Scenario(network=network, sources=network.hosts, groups=groups, workload=stream)
    return [Variant(lc2, same, "spo", {"lc2": lc2}, medium="multicast") for lc2 in ("wait", "at-once")]


def claims(runs: Runs) -> Iterator[Claim]:
    """That the wait saves requests and PDUs sent again, and how many; and that nothing is lost either way."""
    waits, asks = _per_loss(runs["wait"]), _per_loss(runs["at-once"])
    for what in MEASURES:
        told = f"{waits[what]:.3f} with the wait, {asks[what]:.3f} without, for each lost datagram"
        yield Gain.of("section 3.4", f"waiting for the sender's next PDU saves {what}", asks[what] - waits[what], UNIT, told)
    for run in runs:
        for promise in (Guarantee.NO_CREATION, Guarantee.PROGRESS, Order(Scope.SINGLE_SOURCE, Strength.STRICT)):
            yield kept("-", run, promise, expected=True)


def sweep(runs: Runs) -> Sweep:
    """What each lost datagram costs, with the wait and without it."""
    lines = {
        name: [(float(place), _per_loss(runs[label])[what], "") for place, what in enumerate(MEASURES)]
        for label, name in (("wait", "waits for the next PDU"), ("at-once", "asks at once"))
    }
    return Sweep(title="What LC2's wait saves", x="", y="for each lost datagram", lines=lines, ticks=MEASURES)


def _per_loss(run: MeasuredRun) -> dict[str, float]:
    """The measures for each datagram that the network lost; nearly all of those are PDUs."""
    books, answers = run.summary.books, [line.details["pdus"] for line in run.logged("sent-again")]
    counts = (len(run.logged("asked")), sum(not pdus for pdus in answers), sum(answers))
    lost = max(books.dropped_loss if books else 0, 1)
    return {what: count / lost for what, count in zip(MEASURES, counts, strict=True)}
