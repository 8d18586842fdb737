#!./castbed run
"""A host dies under time stamps: without a detector all wait for its clock, with one a majority goes on without it (third paper, 2.2).

Six hosts, of which the first five send in turn. The agent of h6, which never sends anything, is killed when h6 has delivered the twentieth
message of the stream. With detector=none nobody delivers anything more until h6 is back, two seconds later. With detector=suspect it stays
dead: the others suspect it, a majority takes it out, and they go on. Nothing is lost, and the order is strict in both.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import AnyFault, Crash, Restart, Trigger
from topologies import clusters

DEAD = "h6"
DIES_AT = 20
DOWN_MS = 2000.0
# What was on its way when the host died may still be delivered.
ON_ITS_WAY_S = 0.1
PERIOD_MS, TIMEOUT_MS = 100.0, 300.0
# The time-out, two periods until it is noticed, four until somebody stands, and three for the election and what was lost meanwhile.
WITHOUT_S = (TIMEOUT_MS + 9 * PERIOD_MS) / 1000
DETECTOR = {"detector": "suspect", "period_ms": PERIOD_MS, "timeout_ms": TIMEOUT_MS}
PROMISED = (
    *(Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.NO_GAPS, Guarantee.NO_DUPLICATION),
    Order(Scope.MULTIPLE_GROUP, Strength.STRICT),
)


def scenario(delay_ms: float = 0.0) -> list[Variant]:
    """The same stream twice: the host comes back, or never.

    delay_ms: milliseconds that a packet takes over an expensive link
    """
    network = clusters(3, 2, "ring", delay_ms=delay_ms)
    dies = Crash(host=DEAD, when=Trigger("deliver", host=DEAD, nth=DIES_AT))
    back = Restart(host=DEAD, when=Trigger("deliver", host=DEAD, nth=DIES_AT, after_ms=DOWN_MS))
    kinds: dict[str, tuple[tuple[AnyFault, ...], dict[str, object]]] = {
        "none": ((dies, back), {}),
        "suspect": ((dies,), DETECTOR),
    }
    stream = Workload(messages=200, interval=25.0, settle=5000.0)
    sources = tuple(host for host in network.hosts if host != DEAD)
    return [
        Variant(kind, Scenario(network=network, sources=sources, faults=faults, workload=stream), "timestamp", parameters)
        for kind, (faults, parameters) in kinds.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long nobody delivered, and that all is well in the end."""
    yield _stops(runs["none"])
    yield _goes_on(runs["suspect"])
    for run in runs:
        for promise in PROMISED:
            yield kept("2.2", run, promise, expected=True)


def _stops(run: MeasuredRun) -> Claim:
    """Whether nobody delivered anything while the host was down, and how soon after its return."""
    ((died_s, _), (back_s, _)) = run.faults("crash", "restart")
    times_s = sorted(run.at_s(delivery.at_ns) for delivery in run.history.deliveries)
    meanwhile = sum(died_s + ON_ITS_WAY_S <= at_s < back_s for at_s in times_s)
    after_s = next((at_s for at_s in times_s if at_s >= back_s), None)
    text = "none: nobody delivers anything until the dead host is back"
    if after_s is None:
        return Claim("2.2", text, holds=False, figure="nothing was delivered after its return")
    figure = (
        f"{meanwhile} deliveries in {back_s - died_s:.2f} s; the next one {1000 * (after_s - back_s):.0f} ms after its return"
    )
    return Claim("2.2", text, meanwhile == 0, figure)


def _goes_on(run: MeasuredRun) -> Claim:
    """How long it took until all others had installed a view without the host, and had delivered a message broadcast after its death."""
    ((died_s, _),) = run.faults("crash")
    after = {broadcast.message for broadcast in run.broadcasts if run.at_s(broadcast.at_ns) > died_s}
    times_s = [run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.message in after]
    views_s = sorted(run.at_s(line.at_ns) for line in run.logged("view-of-sources") if run.at_s(line.at_ns) > died_s)
    text = f"suspect: the others go on without it, within {WITHOUT_S:g} s"
    if not times_s or not views_s:
        return Claim("2.2", text, holds=False, figure="nothing was delivered any more")
    took_s = min(times_s) - died_s
    figure = f"a view without it {1000 * (views_s[0] - died_s):.0f} ms after the death, the next message {1000 * took_s:.0f} ms after it"
    return Claim("2.2", text, took_s <= WITHOUT_S, figure)
