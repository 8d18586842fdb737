#!./castbed run
"""Figure 2 of the fifth paper: the delay of SPO against the probability that a PDU is lost, on a LAN of 10 Mbit/s.

Five entities send to all, in turn. A PDU crosses two links, that of its sender and that of its receiver. Each of them loses packets, so
that a copy arrives with the probability 1 - `loss`. The figure is drawn with intervals if there are repeats: --repeat 6.
"""

from collections.abc import Iterator
from math import sqrt

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from topologies import lan

ENTITIES, LAN_MBIT = 5, 10.0
PHASES = {"accepted": "receive", "pre-acknowledged": "pre-acknowledged", "acknowledged": "deliver"}
"""What an entity logs when a message has come so far."""
LOSSES = (0.0, 0.01, 0.02, 0.05, 0.1)
PROMISED = (
    Guarantee.NO_CREATION,
    Guarantee.NO_DUPLICATION,
    Guarantee.PROGRESS,
    Guarantee.CONVERGENCE,
    Guarantee.SAFE,
    Order(Scope.SINGLE_SOURCE, Strength.STRICT),
)


def scenario() -> list[Variant]:
    """The same stream with each probability."""
    stream = Workload(messages=300, interval=10.0, settle=4000.0)
    return [
        Variant(
            f"loss-{100 * loss:g}",
            Scenario(network=network, sources=network.hosts, workload=stream),
            "spo",
            medium="multicast",
        )
        for loss in LOSSES
        for network in (lan(ENTITIES, bandwidth_mbit=LAN_MBIT, loss=1 - sqrt(1 - loss)),)
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """That the delay grows with the probability of loss, and that nothing is lost, doubled or reordered."""
    means = [_mean_ms(run) for run in _by_loss(runs)]
    told = ", ".join(
        f"{run.label.removeprefix('loss-')} %: {mean:.1f} ms" for run, mean in zip(_by_loss(runs), means, strict=True)
    )
    yield Claim("Figure 2", "the mean delay grows with the probability of loss", means == sorted(means), told)
    for run in runs:
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)
        yield _repeated(run)


def _repeated(run: MeasuredRun) -> Claim:
    """Selective retransmission: a PDU is sent again to an entity that asked for it, so not more often than datagrams were lost."""
    books = run.summary.books
    again = sum(line.details["pdus"] for line in run.logged("sent-again"))
    lost = books.dropped_loss if books else 0
    # Of a PDU that its sender's link lost, each of the other entities needs a copy.
    most = lost * (ENTITIES - 1)
    return Claim(
        "section 3.4",
        f"{run.label}: only what was lost is sent again, to each of the up to {ENTITIES - 1} entities that missed it",
        again <= most,
        f"{again} PDUs sent again, {lost} datagrams lost",
    )


def sweep(runs: Runs) -> Sweep:
    """The delay against the probability of loss, a line for each phase."""
    lines = {
        phase: [
            (_percent(run), sum(values) / len(values), "")
            for run in _by_loss(runs)
            if (values := run.last_ms(PHASES[phase]).values())
        ]
        for phase in PHASES
    }
    return Sweep(
        title="Delay of SPO until the last of five destinations has a message",
        x="probability that a PDU is lost, %",
        y="mean delay, ms",
        lines=lines,
        name="Figure 2",
        linear=True,
    )


def _by_loss(runs: Runs) -> list[MeasuredRun]:
    return sorted(runs, key=_percent)


def _percent(run: MeasuredRun) -> float:
    return float(run.label.removeprefix("loss-"))


def _mean_ms(run: MeasuredRun) -> float:
    values = run.last_ms(PHASES["acknowledged"]).values()
    return sum(values) / len(values) if values else float("nan")
