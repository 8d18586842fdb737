"""The tree of a run in figures: the leaders of clusters at an instant, and how long the tree took to form again."""

from collections.abc import Sequence

import msgspec

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


class TreeThen(msgspec.Struct, frozen=True):
    """The tree at an instant, and the reasons why it is no tree of clusters; there are none if it is not meant to be one."""

    at_ns: int
    at_s: float
    """Since the first broadcast, as in scenarios."""
    clusters: tuple[LedCluster, ...]
    problems: tuple[str, ...]


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


def report(run: RunInput, history: History, source: str = "", times_ms: Sequence[float] = ()) -> TreeReport:
    """The tree of a source, by default the first one, at some times since the first broadcast, by default at the end."""
    known = sources(history)
    if not known:
        raise ResultsError(f"{run.directory} has no tree: no host of {run.run.protocol} ever had a parent")
    if source and source not in known:
        raise ResultsError(f"{run.directory} has no tree of {source!r}: choose from {', '.join(known)}")
    chosen = source or known[0]
    happened = run.network, run.faults, history, chosen
    of_clusters = any(change.leads is not None for change in history.parents)
    instants = _instants(run, history, times_ms)
    return TreeReport(
        source=chosen,
        others=tuple(other for other in known if other != chosen),
        trees=tuple(_tree_at(run, history, chosen, at_ns, of_clusters=of_clusters) for at_ns in instants),
        reformations=reformations(*happened) if of_clusters else (),
        leader_changes=leader_changes(*happened) if of_clusters else (),
        of_clusters=of_clusters,
    )


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
    )


def _led(state: State, cluster: Cluster) -> LedCluster:
    leading = leaders(state.parents, cluster)
    return LedCluster(
        leaders={host: state.parents.get(host, "") for host in leading},
        members={host: state.parents[host] for host in cluster if host not in leading},
        connected=cluster in state.clusters,
    )
