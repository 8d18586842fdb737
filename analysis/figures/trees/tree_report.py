"""The tree of a run in figures: the leaders of clusters at an instant, and how long the tree took to form again.

A propagation graph is a tree of hosts that knows no clusters. Of it, there are the primary destinations of groups at an instant, whether
the graph was open, and who waited for a host that was down.
"""

from collections.abc import Mapping, Sequence

import msgspec

from analysis.judging.healing import Healing, healings
from analysis.judging.history import History
from analysis.judging.parents import (
    Cluster,
    LeaderChange,
    Reformation,
    State,
    cluster_tree_problems,
    ground_at,
    leader_changes,
    leaders,
    reformations,
    sources,
    state_at,
)
from runfiles.errors import ResultsError
from runfiles.reading import RunInput


class LedCluster(msgspec.Struct, frozen=True):
    """A cluster at an instant: its leaders and its other members, each with its parent."""

    leaders: dict[str, str]
    members: dict[str, str]
    connected: bool
    """Whether the cluster is connected with the source, and so can be in the tree of the source."""


class ForestHost(msgspec.Struct, frozen=True):
    """A host in a propagation graph at an instant."""

    host: str
    parent: str
    level: int
    """The number of hosts above it."""
    primary_of: tuple[str, ...]
    """The groups whose messages the host gets from their sources."""
    graph: int
    closed: bool
    running: bool
    waits_for: str
    """The host above it that does not run and is nearest; empty if all do."""


class TreeThen(msgspec.Struct, frozen=True):
    """The tree at an instant, and the reasons why it is no tree of clusters; there are none if it is not meant to be one."""

    at_ns: int
    at_s: float
    """Since the first broadcast, as in scenarios."""
    clusters: tuple[LedCluster, ...]
    problems: tuple[str, ...]
    forest: tuple[ForestHost, ...] = ()
    """The hosts of a propagation graph, each after its parent; empty for other trees."""


class TreeReport(msgspec.Struct, frozen=True):
    """The tree of one source in one run."""

    source: str
    others: tuple[str, ...]
    """The other sources that have trees."""
    trees: tuple[TreeThen, ...]
    reformations: tuple[Reformation, ...]
    leader_changes: tuple[LeaderChange, ...]
    of_clusters: bool = True
    """Whether it is meant to be a tree of clusters: its hosts say who leads a cluster."""
    healings: tuple[Healing, ...] = ()
    """How long each fault of the run was felt."""


def report(run: RunInput, history: History, source: str = "", times_ms: Sequence[float] = ()) -> TreeReport:
    """The tree of a source, by default the first one, at some times since the first broadcast, by default at the end.

    Of a run without a tree there is how long its faults were felt, unless a tree was asked for.
    """
    known, healed = sources(history), healings(run, history)
    if not known and healed and not (source or times_ms):
        return TreeReport("", (), (), (), (), of_clusters=False, healings=healed)
    if not known:
        raise ResultsError(f"{run.directory} has no tree: no host of {run.run.protocol} ever had a parent")
    if source and source not in known:
        raise ResultsError(f"{run.directory} has no tree of {source!r}: choose from {', '.join(known)}")
    instants = _instants(run, history, times_ms)
    chosen = source or main_source(history, instants[0])
    happened = run.network, run.faults, history, chosen
    of_clusters = any(change.leads is not None for change in history.parents)
    return TreeReport(
        source=chosen,
        others=tuple(other for other in known if other != chosen),
        trees=tuple(_tree_at(run, history, chosen, at_ns, of_clusters=of_clusters) for at_ns in instants),
        reformations=reformations(*happened) if of_clusters else (),
        leader_changes=leader_changes(*happened) if of_clusters else (),
        of_clusters=of_clusters,
        healings=healed,
    )


def main_source(history: History, at_ns: int) -> str:
    """The source whose tree to show first: the first one, or of propagation graphs the root at an instant."""
    roots = [change.source for change in history.parents if change.parent and change.at_ns <= at_ns]
    return roots[-1] if history.graphs and roots else sources(history)[0]


def start_ns(history: History) -> int:
    """The time of the first broadcast, from which the times of a tree are counted."""
    return history.broadcasts[0].at_ns if history.broadcasts else 0


def _instants(run: RunInput, history: History, times_ms: Sequence[float]) -> list[int]:
    began_ns = start_ns(history)
    instants = [began_ns + round(at_ms * 1e6) for at_ms in times_ms] or [history.ended_ns]
    if max(instants) > history.ended_ns:
        wanted, ended = (max(instants) - began_ns) / 1e9, (history.ended_ns - began_ns) / 1e9
        raise ResultsError(f"{run.directory} has no tree at {wanted:g} s: the run ended at {ended:.3f} s")
    return instants


def _tree_at(run: RunInput, history: History, source: str, at_ns: int, *, of_clusters: bool) -> TreeThen:
    state = state_at(run.network, run.faults, history, source, at_ns)
    return TreeThen(
        at_ns=at_ns,
        at_s=(at_ns - start_ns(history)) / 1e9,
        clusters=tuple(_led(state, cluster) for cluster in ground_at(run.network, run.faults, at_ns).clusters()),
        problems=cluster_tree_problems(state.parents, state.clusters, source) if of_clusters else (),
        forest=forest_at(run, history, source, at_ns),
    )


def forest_at(run: RunInput, history: History, root: str, at_ns: int) -> tuple[ForestHost, ...]:
    """The hosts of a propagation graph, each after its parent, and at the end those that are not below the root; empty for other trees."""
    if not history.graphs:
        return ()
    state = state_at(run.network, run.faults, history, root, at_ns)
    names = {number: group.name for number, group in enumerate(run.groups, start=1)}
    latest = {change.host: change for change in history.graphs if change.at_ns <= state.at_ns}
    children: dict[str, list[str]] = {}
    for host in history.hosts:
        children.setdefault(state.parents.get(host, ""), []).append(host)
    found = []
    apart = _apart(root, children, history.hosts)
    waiting = [*((host, state.parents.get(host, ""), 0, "") for host in reversed(apart)), (root, "", 0, "")]
    while waiting:
        host, parent, level, waits_for = waiting.pop()
        change, running = latest.get(host), host not in state.away
        primary_of = tuple(names.get(group, f"group {group}") for group in change.primary_of) if change else ()
        graph, closed = (change.number, change.closed) if change else (0, False)
        found.append(ForestHost(host, parent, level, primary_of, graph, closed, running, waits_for if running else ""))
        above = waits_for if running else host
        below = () if host in apart else children.get(host, ())
        waiting += [(child, host, level + 1, above) for child in reversed(below)]
    return tuple(found)


def _apart(root: str, children: Mapping[str, Sequence[str]], hosts: Sequence[str]) -> list[str]:
    """The hosts that are not below a root."""
    below = [root]
    for host in below:
        below += children.get(host, ())
    reached = frozenset(below)
    return [host for host in hosts if host not in reached]


def _led(state: State, cluster: Cluster) -> LedCluster:
    leading = leaders(state.parents, cluster)
    return LedCluster(
        leaders={host: state.parents.get(host, "") for host in leading},
        members={host: state.parents[host] for host in cluster if host not in leading},
        connected=cluster in state.clusters,
    )
