#!./castbed run
"""A source of two-phase fails between its phases: all destinations wait for it, or finish its message by election (third paper, 7.1.3).

h6 sends to a group that it is not in. When it has all proposals for its fifth message and has chosen the final priority, but told nobody,
its agent is killed. With failover=block the members deliver nothing, also nothing of the other source, until h6 is back and finishes from
its storage. With failover=elect h6 stays dead, and the others finish the message.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.faults import AnyFault, Crash, Restart, Trigger
from topologies import clusters

SOURCE = "h6"
MESSAGE = (SOURCE, 5)
MEMBERS = ("h1", "h2", "h3", "h4")
BACK_MS = 4000.0
# What was on its way when the source died may still be delivered.
ON_ITS_WAY_S = 0.1
# As long as nobody knows how long a message takes, it is taken over after a second.
TAKEN_OVER_S = 1.5
PROMISED = (Guarantee.CONVERGENCE, Guarantee.NO_GAPS, Order(Scope.MULTIPLE_GROUP, Strength.STRICT))


def scenario(delay_ms: float = 5.0) -> list[Variant]:
    """Two sources, one of which dies between its phases, and is back after four seconds or never.

    delay_ms: milliseconds that a packet takes over an expensive link
    """
    network = clusters(3, 2, "line", delay_ms=delay_ms)
    dies = Crash(host=SOURCE, when=Trigger("decided", host=SOURCE, origin=SOURCE, sequence=MESSAGE[1]))
    faults: dict[str, tuple[AnyFault, ...]] = {"block": (dies, Restart(at_ms=BACK_MS, host=SOURCE)), "elect": (dies,)}
    stream = Workload(messages=120, interval=50.0, settle=6000.0)
    return [
        Variant(
            failover,
            Scenario(network=network, sources=("h1", SOURCE), groups=(Group("alpha", MEMBERS),), faults=some, workload=stream),
            "two-phase",
            {"failover": failover},
        )
        for failover, some in faults.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long the members waited, and that all is well in the end."""
    yield _waited(runs["block"])
    yield _finished(runs["elect"])
    for run in runs:
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)


def _waited(run: MeasuredRun) -> Claim:
    """Whether no member delivered anything while the source was down, and each the message when it was back."""
    (died_s, _), (back_s, _) = run.faults("crash", "restart")
    times_s = sorted(run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.host in MEMBERS)
    meanwhile = sum(died_s + ON_ITS_WAY_S <= at_s < back_s for at_s in times_s)
    next_s = next((at_s for at_s in times_s if at_s >= back_s), None)
    text = "block: the members deliver nothing until the source is back"
    if next_s is None:
        return Claim("7.1.3", text, holds=False, figure="nothing was delivered after that")
    figure = f"{meanwhile} deliveries while it was down, the next one {next_s - died_s:.2f} s after its death"
    return Claim("7.1.3", text, meanwhile == 0, figure)


def _finished(run: MeasuredRun) -> Claim:
    """How long after the death of the source each member had its last message."""
    ((died_s, _),) = run.faults("crash")
    times_s = [run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.message == MESSAGE]
    text = f"elect: the members finish the message of the dead source, within {TAKEN_OVER_S:g} s"
    if len(times_s) < len(MEMBERS):
        return Claim("7.1.3", text, holds=False, figure=f"{len(times_s)} of {len(MEMBERS)} members delivered it")
    took_s = max(times_s) - died_s
    return Claim("7.1.3", text, took_s <= TAKEN_OVER_S, f"{1000 * took_s:.0f} ms after its death all members had it")
