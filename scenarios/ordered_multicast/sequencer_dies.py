#!./castbed run
"""The sequencer dies in the middle of a stream: without failover all wait for it, with it a majority elects a successor.

Six hosts send in turn; h1 is the sequencer, and its agent is killed when it has delivered the twentieth message of the stream. With
failover=none nobody delivers anything until it is back, two seconds later ("the whole system will come to a grinding halt", Kaashoek and
others). With failover=elect it stays dead, and the other five go on. Nothing is lost, and the order is strict in both.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import AnyFault, Crash, Restart, Trigger
from topologies import clusters

SEQUENCER = "h1"
DIES_AT = 20
DOWN_MS = 2000.0
# What was on its way when the sequencer died may still be delivered.
ON_ITS_WAY_S = 0.1
# Three questions to the sequencer, of which each is awaited for twice as long as the one before, and an election.
SUCCEEDED_S = 1.0
PROMISED = (
    *(Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.NO_GAPS, Guarantee.NO_DUPLICATION),
    Order(Scope.MULTIPLE_GROUP, Strength.STRICT),
)


def scenario(delay_ms: float = 5.0) -> list[Variant]:
    """The same stream twice: the sequencer comes back, or never.

    delay_ms: milliseconds that a packet takes over an expensive link
    """
    network = clusters(3, 2, "ring", delay_ms=delay_ms)
    dies = Crash(host=SEQUENCER, when=Trigger("deliver", host=SEQUENCER, nth=DIES_AT))
    back = Restart(host=SEQUENCER, when=Trigger("deliver", host=SEQUENCER, nth=DIES_AT, after_ms=DOWN_MS))
    faults: dict[str, tuple[AnyFault, ...]] = {"none": (dies, back), "elect": (dies,)}
    stream = Workload(messages=200, interval=25.0, settle=5000.0)
    return [
        Variant(
            failover,
            Scenario(network=network, sources=network.hosts[1:], faults=some, workload=stream),
            "sequencer",
            {"failover": failover, "sequencer": SEQUENCER},
        )
        for failover, some in faults.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long nobody delivered, and that all is well in the end."""
    yield _stops(runs["none"])
    yield _goes_on(runs["elect"])
    for run in runs:
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)


def _deliveries_s(run: MeasuredRun) -> list[float]:
    """When the other hosts delivered anything."""
    return sorted(run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.host != SEQUENCER)


def _stops(run: MeasuredRun) -> Claim:
    """Whether nobody delivered anything while the sequencer was down, and how soon after its return."""
    ((died_s, _), (back_s, _)) = run.faults("crash", "restart")
    times_s = _deliveries_s(run)
    meanwhile = sum(died_s + ON_ITS_WAY_S <= at_s < back_s for at_s in times_s)
    after_s = next((at_s for at_s in times_s if at_s >= back_s), None)
    text = "none: nobody delivers anything until the sequencer is back"
    if after_s is None:
        return Claim("-", text, holds=False, figure="nothing was delivered after its return")
    figure = (
        f"{meanwhile} deliveries in {back_s - died_s:.2f} s; the next one {1000 * (after_s - back_s):.0f} ms after its return"
    )
    return Claim("-", text, meanwhile == 0, figure)


def _goes_on(run: MeasuredRun) -> Claim:
    """How long it took until the others delivered messages that were broadcast after the death."""
    ((died_s, _),) = run.faults("crash")
    after = {broadcast.message for broadcast in run.broadcasts if run.at_s(broadcast.at_ns) > died_s}
    times_s = [run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.message in after]
    chosen = sorted(run.at_s(line.at_ns) for line in run.logged("sequencer") if run.at_s(line.at_ns) > died_s)
    text = f"elect: the others go on without it, within {SUCCEEDED_S:g} s"
    if not times_s or not chosen:
        return Claim("-", text, holds=False, figure="nothing was delivered any more")
    took_s = min(times_s) - died_s
    figure = f"a successor {1000 * (chosen[0] - died_s):.0f} ms after the death, the next message {1000 * took_s:.0f} ms after it"
    return Claim("-", text, took_s <= SUCCEEDED_S, figure)
