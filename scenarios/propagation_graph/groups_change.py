#!./castbed run
"""Groups change under load: hosts join and leave while all hosts send, and nothing is lost, doubled or reordered (third paper, chapter 5).

Each change closes the old propagation graph and opens a new one. Two of the changes are asked for at the same moment.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from scenarios import Group, Scenario, Variant, Workload
from scenarios.faults import Join, Leave
from topologies import clusters

CHANGES = (
    Join(at_ms=1000.0, host="h7", group="alpha"),
    Leave(at_ms=2000.0, host="h1", group="alpha"),
    Join(at_ms=3000.0, host="h1", group="beta"),
    Leave(at_ms=3000.0, host="h5", group="gamma"),
    Join(at_ms=4000.0, host="h5", group="alpha"),
)
LONGEST_CLOSED_MS = 1000.0
PROMISED = (
    Guarantee.NO_CREATION,
    Guarantee.NO_DUPLICATION,
    Guarantee.CONVERGENCE,
    Order(Scope.MULTIPLE_GROUP, Strength.STRICT),
    Order(Scope.SINGLE_SOURCE, Strength.STRICT),
)


def scenario() -> list[Variant]:
    """Three overlapping groups of eight hosts in four clusters."""
    groups = (
        Group("alpha", ("h1", "h2", "h3", "h4")),
        Group("beta", ("h3", "h4", "h5", "h6")),
        Group("gamma", ("h5", "h6", "h7", "h8")),
    )
    network = clusters(4, 2, "ring")
    stream = Workload(messages=300, interval=20.0, arrivals="poisson", settle=4000.0)
    scenario = Scenario(network=network, sources=network.hosts, groups=groups, faults=CHANGES, workload=stream)
    return [Variant("propagation-graph", scenario, "propagation-graph")]


def claims(runs: Runs) -> Iterator[Claim]:
    """Every host opened every graph, and every promise was kept meanwhile."""
    for run in runs:
        yield _opened(run)
        yield _closed(run)
        for promise in PROMISED:
            yield kept("-", run, promise, expected=True)


def _opened(run: MeasuredRun) -> Claim:
    opened = {host: [view.view for view in run.history.views if view.host == host] for host in run.network.hosts}
    graphs = list(range(1, len(CHANGES) + 1))
    text = f"every host opened the {len(CHANGES)} new graphs, in order"
    figure = f"at most {_longest_ms(run):.2f} ms from the first host to the last"
    return Claim("chapter 5", text, all(views == graphs for views in opened.values()), figure)


def _closed(run: MeasuredRun) -> Claim:
    """How long each graph let nothing through at a host: from Close to Open there."""
    since: dict[str, tuple[int, int]] = {}
    took_ms = []
    for change in run.history.graphs:
        if change.closed:
            since.setdefault(change.host, (change.number, change.at_ns))
        elif change.host in since:
            number, closed_ns = since.pop(change.host)
            assert change.number > number
            took_ms.append((change.at_ns - closed_ns) / 1e6)
    text = "every host closed each old graph and opened the next; no graph was closed for longer than a second"
    if not took_ms:
        return Claim("chapter 5", text, None, "no host closed a graph")
    every = len(took_ms) == len(CHANGES) * len(run.network.hosts) and not since
    figure = f"closed {len(took_ms)} times, {sum(took_ms) / len(took_ms):.2f} ms on average, {max(took_ms):.2f} ms at most"
    return Claim("chapter 5", text, every and max(took_ms) < LONGEST_CLOSED_MS, figure)


def _longest_ms(run: MeasuredRun) -> float:
    """The longest time from the first host to open a graph to the last."""
    opened: dict[int, list[int]] = {}
    for view in run.history.views:
        opened.setdefault(view.view, []).append(view.at_ns)
    return max(((max(times) - min(times)) / 1e6 for times in opened.values()), default=0.0)
