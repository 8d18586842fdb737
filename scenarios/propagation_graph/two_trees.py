#!./castbed run
"""Two trees at once, for a bounded time: a majority breaks off, and the rest of the old tree goes on (third paper, Figure 7.5).

The link between h1, h2 and the others fails in one direction first, and a second later in the other one. So h3, h4 and the manager h5, a
majority, give h1 and h2 up first, and form a graph without them. h1 and h2 go on in the old graph until they miss the manager, and then
notice that they are in a minority. When the link is back they are told that they have failed: they start over, or take back what they
delivered in the old graph and deliver it again in the order of the others.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import LinkChange
from topologies import clusters

OLD = ("h1", "h2")
OUT_MS, IN_MS, BACK_MS = 3000.0, 4200.0, 13_000.0
# Questions are frequent and the time-out is long, so that both sides notice at about the same time after their link has failed.
WATCH = {"period_ms": 250.0, "timeout_ms": 2000.0, "longest_timeout_ms": 3000.0}
# A host that is silent is suspected within the longest time-out and two periods: first the manager, then the others.
BOUND_S = 2 * (WATCH["longest_timeout_ms"] + 2 * WATCH["period_ms"]) / 1000
STRENGTHS = {"new-member": Strength.OPERATIONAL, "rollback": Strength.ROLLBACK}


def scenario() -> list[Variant]:
    """h1 and h5 send to everybody, before, during and after the partition; once with each way to recover."""
    faults = (
        LinkChange(at_ms=OUT_MS, link="s2-s3", towards="s3", loss=1.0),
        LinkChange(at_ms=IN_MS, link="s2-s3", towards="s2", loss=1.0),
        LinkChange(at_ms=BACK_MS, link="s2-s3", loss=0.0),
    )
    stream = Workload(messages=180, interval=100.0, settle=8000.0)
    divided = Scenario(network=clusters(5, 1, "line"), sources=("h1", "h5"), faults=faults, workload=stream)
    settings = {"failures": "non-atomic", "manager": "h5", **WATCH}
    return [Variant(recover, divided, "propagation-graph", {**settings, "recover": recover}) for recover in STRENGTHS]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long there were two trees, against the time that detection takes at most, and that all is well in the end."""
    for run in runs:
        yield _two_trees(run)
        yield kept("R", run, Order(Scope.MULTIPLE_GROUP, STRENGTHS[run.label]), expected=True)
        yield kept("R1", run, Order(Scope.MULTIPLE_GROUP, Strength.STRICT), expected=False)
        yield kept("7.3", run, Guarantee.PROGRESS, expected=True)
        yield _taken_back(run)


def _two_trees(run: MeasuredRun) -> Claim:
    """From the first delivery in the new tree to the last one in the old tree."""
    text = f"{run.label}: the old tree outlives the new one's beginning, and stops in time"
    since_ns = min((one.at_ns for one in run.history.exclusions), default=run.history.ended_ns)
    back_ns = run.at_ns(BACK_MS / 1000)
    both = [one for one in run.history.deliveries if since_ns < one.at_ns < back_ns]
    old, new = ([one.at_ns for one in both if (one.host in OLD) == is_old] for is_old in (True, False))
    if not old or not new:
        return Claim("Figure 7.5", text, holds=False, figure="there was one tree only")
    stopped_s, both_s = run.at_s(old[-1]) - IN_MS / 1000, (old[-1] - new[0]) / 1e9
    figure = f"two trees for {both_s:.2f} s; the old one stopped {stopped_s:.2f} s after the partition, {BOUND_S:g} s allowed"
    return Claim("Figure 7.5", text, 0 < both_s <= BOUND_S and stopped_s <= BOUND_S, figure)


def _taken_back(run: MeasuredRun) -> Claim:
    hosts = sorted({one.host for one in run.history.taken_back})
    wrong = len(run.history.taken_back)
    if run.label == "rollback":
        text = "rollback: h1 and h2 take back what they delivered in the wrong place, and nobody else does"
        return Claim("R3", text, hosts == list(OLD), f"{wrong} deliveries, at {' and '.join(hosts) or 'no host'}")
    return Claim("R2", "new-member: nothing is taken back", not wrong, f"{wrong} deliveries")
