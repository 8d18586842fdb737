#!./castbed run
"""A site fails, and those below it wait: atomic delivery in the propagation graph (third paper, section 7.1.2).

With the groups of Figure 7.1, h3 passes messages on to h4 and h5, and h2 to nobody. While h3 is down, h4 and h5 deliver nothing, and h1
and h2 go on. While h2 is down, nobody else notices. When both are back, everybody has everything, in one order, within the bound of P4 and
Q3 (section 7.2.1).
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.faults import Crash, Restart
from topologies import clusters

GROUPS = (Group("alpha", ("h1", "h2", "h3", "h4", "h5")), Group("beta", ("h3", "h4", "h5")), Group("gamma", ("h1", "h2")))
INNER, LEAF = "h3", "h2"
DOWN_S = {INNER: (2.0, 4.0), LEAF: (6.0, 8.0)}
# What was on its way when a host died may still be delivered.
ON_ITS_WAY_S = 0.5
PROMISED = (Guarantee.CONVERGENCE, Guarantee.NO_GAPS, Order(Scope.MULTIPLE_GROUP, Strength.STRICT))


def scenario() -> list[Variant]:
    """A host of each kind is killed and restarted while h1 and h6 send to all groups; h6 is in none."""
    faults = [
        fault
        for host, (from_s, until_s) in DOWN_S.items()
        for fault in (Crash(at_ms=1000 * from_s, host=host), Restart(at_ms=1000 * until_s, host=host))
    ]
    stream = Workload(messages=200, interval=50.0, settle=3000.0)
    network = clusters(3, 2, "line")
    return [
        Variant(
            "propagation-graph",
            Scenario(network=network, sources=("h1", "h6"), groups=GROUPS, faults=tuple(faults), workload=stream),
            "propagation-graph",
        )
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """Who delivered while each of the two was down, and that all is well in the end."""
    for run in runs:
        for host, blocked in ((INNER, {"h4", "h5"}), (LEAF, set())):
            yield _waited(run, host, blocked)
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)
        for bound in run.input.run.promise.time_bounds:
            yield kept("7.2.1", run, bound, expected=True)


def _waited(run: MeasuredRun, down: str, blocked: set[str]) -> Claim:
    """Whether exactly these hosts delivered nothing while another was down."""
    (from_s, _), (until_s, _) = run.faults("crash", "restart")[slice(0, 2) if down == INNER else slice(2, 4)]
    others = {member for group in GROUPS for member in group.members} - {down}
    delivered = {
        delivery.host for delivery in run.history.deliveries if from_s + ON_ITS_WAY_S <= run.at_s(delivery.at_ns) < until_s
    }
    silent = sorted(others - delivered)
    text = (
        f"while {down} is down, {' and '.join(sorted(blocked))} wait, and nobody else"
        if blocked
        else f"{down} is down: nobody waits"
    )
    return Claim(
        "7.1.2", text, set(silent) == blocked, f"{', '.join(silent)} delivered nothing" if silent else "all others delivered"
    )
