#!./castbed run
"""A token is lost, comes twice, dies with its owner; hosts leave and join: section 3.3 of the fourth paper, under load.

Five hosts on one LAN send in turn. In one run each, the token is lost once on its way to the next owner; is received twice; its owner is
killed while it has the token, and comes back; two hosts leave, one of them comes back, and a host joins late. Nothing may be lost, doubled
or reordered, there may never be two tokens of one generation, and the stream must go on soon: token systems in production stall for half a
second to three seconds for each lost token.
"""

from collections.abc import Iterator
from itertools import pairwise

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import AnyFault, Arrive, Crash, DropMessage, DuplicateMessage, Join, Leave, Restart, Trigger
from scenarios.groups import EVERYBODY
from topologies import lan

SOURCES = ("h1", "h2")
FAILS = "h3"
AT_MS = 1000.0
DOWN_MS = 2000.0
LONGEST_STALL_S = {"lost": 0.25, "twice": 0.25, "owner-dies": 1.5, "members": 1.0}
"""The longest time in which nobody may deliver anything. An owner that dies is given several tries before it is out of the list."""
PROMISED = (
    *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
    *(Guarantee.SAFE, Order(Scope.MULTIPLE_GROUP, Strength.STRICT)),
)


def scenario() -> list[Variant]:
    """Four runs of the same stream."""
    failures: dict[str, tuple[AnyFault, ...]] = {
        "lost": tuple(DropMessage(at_ms=AT_MS + 500 * n, host=FAILS, kind="Token", nth=1) for n in range(4)),
        "twice": tuple(DuplicateMessage(at_ms=AT_MS + 500 * n, host=FAILS, kind="Token", nth=1) for n in range(4)),
        "owner-dies": (
            Crash(host=FAILS, when=Trigger("token", host=FAILS, nth=40, details={"held": True})),
            Restart(host=FAILS, when=Trigger("token", host=FAILS, nth=40, details={"held": True}, after_ms=DOWN_MS)),
        ),
        "members": (
            Leave(at_ms=AT_MS, host="h4", group=EVERYBODY),
            Arrive(at_ms=AT_MS, host="h5"),
            Leave(at_ms=AT_MS + 500, host=FAILS, group=EVERYBODY),
            Join(at_ms=AT_MS + 2000, host="h4", group=EVERYBODY),
        ),
    }
    stream = Workload(messages=400, interval=10.0, settle=4000.0)
    return [
        Variant(label, Scenario(network=lan(5), sources=SOURCES, faults=faults, workload=stream), "counter")
        for label, faults in failures.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How long the stream stalled, who was in the list in the end, and that no promise was broken."""
    for run in runs:
        yield _stall(run)
        if run.label in {"owner-dies", "members"}:
            yield _members(run)
        for promise in PROMISED:
            yield kept("3.3", run, promise, expected=True)
        yield _one_token(run)


def _stall(run: MeasuredRun) -> Claim:
    """The longest time between two deliveries at one of the sources, while messages were sent."""
    times_s = [run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.host == SOURCES[0]]
    since_s = max(AT_MS / 1000 - 0.5, 0.0)
    gaps = [later - earlier for earlier, later in pairwise(sorted(times_s)) if since_s <= earlier <= run.stream_end_s]
    most_s = LONGEST_STALL_S[run.label]
    text = f"{run.label}: the stream never stalls for more than {most_s:g} s"
    return Claim("3.3", text, bool(gaps) and max(gaps) <= most_s, f"{1000 * max(gaps, default=0.0):.0f} ms at most")


def _one_token(run: MeasuredRun) -> Claim:
    """The verdict of the run is about this too, as it is a promise of the protocol that the packets show."""
    held = sum(line.details["held"] for line in run.logged("token"))
    generations = len({line.details["generation"] for line in run.logged("token")})
    beside_ms = run.summary.checks[Guarantee.ONE_TOKEN].longest_ms or 0.0
    verdict, text = run.summary.verdict, f"{run.label}: there are never two tokens of one generation"
    holds = {"holds": True, "violated": False}.get(verdict)
    told = f"{held} turns of owners in {generations} generations, a second token for {beside_ms:.0f} ms at most"
    return Claim("3.3", text, holds, f"{told}; the verdict is: {verdict}")


def _members(run: MeasuredRun) -> Claim:
    """Who is in everybody's group in the end, as the first source has it."""
    expected = run.network.hosts if run.label == "owner-dies" else tuple(host for host in run.network.hosts if host != FAILS)
    views = [view.members for view in run.history.views if view.host == SOURCES[0] and view.group == 0]
    told = "; ".join(", ".join(members) for members in views)
    text = f"{run.label}: in the end the view is {', '.join(expected)}"
    return Claim("3.3", text, bool(views) and tuple(views[-1]) == tuple(expected), f"{len(views)} views: {told}")
