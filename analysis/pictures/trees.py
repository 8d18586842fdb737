"""The tree of a run for people: who led which cluster at an instant, how long it took to form again, and the tree on the network."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table

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
    parents_at,
    reformations,
    sources,
    state_at,
)
from runfiles.errors import ResultsError
from runfiles.reading import RunInput
from topologies import drawing

# Of more problems than this, as while a tree forms, the first tell enough.
MOST_PROBLEMS = 3


class LedCluster(msgspec.Struct, frozen=True):
    """A cluster at an instant: those who lead it and the other hosts, each with its parent."""

    leaders: dict[str, str]
    members: dict[str, str]
    connected: bool
    """Whether it is connected with the source, and so can be in its tree."""


class TreeThen(msgspec.Struct, frozen=True):
    """The tree at an instant, and what keeps it from being a tree of clusters."""

    at_ns: int
    at_s: float
    """Since the first broadcast, as in scenarios."""
    clusters: tuple[LedCluster, ...]
    problems: tuple[str, ...]


class TreeReport(msgspec.Struct, frozen=True):
    """The tree of one source in one run."""

    source: str
    others: tuple[str, ...]
    """Sources that have trees too."""
    trees: tuple[TreeThen, ...]
    reformations: tuple[Reformation, ...]
    leader_changes: tuple[LeaderChange, ...]


def report(run: RunInput, history: History, source: str = "", times_ms: Sequence[float] = ()) -> TreeReport:
    """Look at the tree of a source, by default the first, at times since the first broadcast, by default at the end."""
    known = sources(history)
    if not known:
        raise ResultsError(f"{run.directory} has no tree: no host of {run.run.protocol} ever had a parent")
    if source and source not in known:
        raise ResultsError(f"{run.directory} has no tree of {source!r}: choose from {', '.join(known)}")
    chosen = source or known[0]
    happened = run.network, run.faults, history, chosen
    return TreeReport(
        source=chosen,
        others=tuple(other for other in known if other != chosen),
        trees=tuple(_tree_at(run, history, chosen, at_ns) for at_ns in _instants(run, history, times_ms)),
        reformations=reformations(*happened),
        leader_changes=leader_changes(*happened),
    )


def _start_ns(history: History) -> int:
    return history.broadcasts[0].at_ns if history.broadcasts else 0


def _instants(run: RunInput, history: History, times_ms: Sequence[float]) -> list[int]:
    start_ns = _start_ns(history)
    instants = [start_ns + round(at_ms * 1e6) for at_ms in times_ms] or [history.ended_ns]
    if max(instants) > history.ended_ns:
        wanted, ended = (max(instants) - start_ns) / 1e9, (history.ended_ns - start_ns) / 1e9
        raise ResultsError(f"{run.directory} has no tree at {wanted:g} s: the run ended at {ended:.3f} s")
    return instants


def _tree_at(run: RunInput, history: History, source: str, at_ns: int) -> TreeThen:
    state = state_at(run.network, run.faults, history, source, at_ns)
    return TreeThen(
        at_ns=at_ns,
        at_s=(at_ns - _start_ns(history)) / 1e9,
        clusters=tuple(_led(state, cluster) for cluster in ground_at(run.network, run.faults, at_ns).clusters()),
        problems=cluster_tree_problems(state.parents, state.clusters, source),
    )


def _led(state: State, cluster: Cluster) -> LedCluster:
    leading = leaders(state.parents, cluster)
    return LedCluster(
        leaders={host: state.parents.get(host, "") for host in leading},
        members={host: state.parents[host] for host in cluster if host not in leading},
        connected=cluster in state.clusters,
    )


def tree_table(source: str, tree: TreeThen) -> Table:
    """One row a cluster. A member that is no child of the one leader is told with its parent."""
    more = len(tree.problems) - MOST_PROBLEMS
    told = (*tree.problems[:MOST_PROBLEMS], *([f"{more} more"] if more > 0 else []))
    caption = f"no tree of clusters: {'; '.join(told)}" if told else "a tree of clusters"
    table = _table(f"the tree of {source} at {tree.at_s:.3f} s", caption, ("leader", "its parent", "members", ""))
    for cluster in tree.clusters:
        parents = [parent or ("(the source)" if leader == source else "-") for leader, parent in cluster.leaders.items()]
        only = next(iter(cluster.leaders)) if len(cluster.leaders) == 1 else ""
        members = (host if parent == only else f"{host} (child of {parent})" for host, parent in cluster.members.items())
        table.add_row(
            ", ".join(cluster.leaders) or "-",
            ", ".join(parents) or "-",
            ", ".join(members) or "-",
            "" if cluster.connected else "cut off",
        )
    return table


def reformation_table(found: TreeReport, history: History) -> Table:
    """One row for the first broadcast and one for each fault."""
    table = _table(
        f"how the tree of {found.source} formed",
        "until the next fault, or the end",
        ("at", "what", "formed after", "leaders changed", "parents changed"),
    )
    for column in (0, 2, 3, 4):
        table.columns[column].justify = "right"
    start_ns = _start_ns(history)
    for row in found.reformations:
        took = "did not" if row.took_ns is None else f"{row.took_ns / 1e6:.0f} ms" if row.took_ns else "stood"
        counts = str(row.leader_changes), str(row.parent_changes)
        table.add_row(f"{(row.at_ns - start_ns) / 1e9:.3f} s", row.cause, took, *counts)
    return table


def _table(title: str, caption: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table


def tree_figure(run: RunInput, history: History, source: str, at_ns: int) -> Figure:
    """The tree on the network as it was then."""
    ground, parents = ground_at(run.network, run.faults, at_ns), parents_at(history.parents, source, at_ns)
    tree = drawing.DrawnTree(
        source=source,
        parents=parents,
        leaders=[leader for cluster in ground.clusters() for leader in leaders(parents, cluster)],
        down=ground.down,
        away=[host for host in run.network.hosts if host not in ground.running],
    )
    when = "at the end" if at_ns == history.ended_ns else f"at {(at_ns - _start_ns(history)) / 1e9:.3f} s"
    return drawing.tree_figure(run.network, tree, f"The tree of {source} {when}: {run.run.protocol}, {run.run.scenario}")


def tree_name(source: str, tree_ns: int, history: History) -> str:
    """What the picture of a tree is called."""
    when = "end" if tree_ns == history.ended_ns else f"{(tree_ns - _start_ns(history)) / 1e9:g}s"
    return f"tree-{source}-{when}"


def save_trees(run: RunInput, history: History, found: TreeReport) -> list[Path]:
    """Draw every tree of a report beside the other plots of the run."""
    directory = run.directory / "plots"
    directory.mkdir(exist_ok=True)
    return [
        path
        for tree in found.trees
        for path in drawing.save(
            tree_figure(run, history, found.source, tree.at_ns), directory / tree_name(found.source, tree.at_ns, history)
        )
    ]
