#!./castbed run
"""What LC2's wait saves: requests for PDUs that were for others, with the wait and without it (fifth paper, section 3.4).

Six entities send to overlapping groups of two to four of them, on a LAN that loses some packets. An entity that hears from another of a PDU
that it lacks waits for the next PDU of the sender (`lc2=wait`), or asks at once (`lc2=at-once`).
"""

from collections.abc import Iterator
from math import sqrt

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.scenario import Share
from topologies import lan

GROUPS = {"a": "12", "b": "1234", "c": "35", "d": "2456", "e": "16", "f": "346"}


def scenario(loss: Share = 0.04) -> list[Variant]:
    """The same stream with the wait and without it."""
    network = lan(6, bandwidth_mbit=10.0, loss=1 - sqrt(1 - loss))
    groups = tuple(Group(name, tuple(f"h{number}" for number in members)) for name, members in GROUPS.items())
    stream = Workload(messages=600, interval=8.0, arrivals="poisson", settle=4000.0)
    same = Scenario(network=network, sources=network.hosts, groups=groups, workload=stream)
    return [Variant(lc2, same, "spo", {"lc2": lc2}, medium="multicast") for lc2 in ("wait", "at-once")]


def claims(runs: Runs) -> Iterator[Claim]:
    """That the wait saves requests, and how many; and that nothing is lost either way."""
    waits, asks = runs["wait"], runs["at-once"]
    yield Claim(
        "section 3.4",
        "waiting for the sender's next PDU saves requests that are for nothing",
        _for_nothing(waits) / _lost(waits) < _for_nothing(asks) / _lost(asks),
        "; ".join(_told(run) for run in (waits, asks)),
    )
    for run in runs:
        for promise in (Guarantee.NO_CREATION, Guarantee.PROGRESS, Order(Scope.SINGLE_SOURCE, Strength.STRICT)):
            yield kept("-", run, promise, expected=True)


def _told(run: MeasuredRun) -> str:
    again, lost = sum(line.details["pdus"] for line in run.logged("sent-again")), _lost(run)
    return (
        f"{run.label}: {len(run.logged('asked')) / lost:.2f} requests, {_for_nothing(run) / lost:.3f} of them for nothing, and "
        f"{again / lost:.2f} PDUs sent again for each of {lost} lost datagrams"
    )


def _for_nothing(run: MeasuredRun) -> int:
    """Requests that were answered by no PDU, as what its sender lacked was not for it."""
    return sum(not line.details["pdus"] for line in run.logged("sent-again"))


def _lost(run: MeasuredRun) -> int:
    return max(run.summary.books.dropped_loss if run.summary.books else 0, 1)
