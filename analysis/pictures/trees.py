"""The tree of a run, drawn on the network."""

from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures.trees.tree_report import TreeReport, forest_at, start_ns
from analysis.judging.history import History
from analysis.judging.parents import ground_at, leaders, parents_at
from analysis.pictures.forests import forest_figure
from analysis.pictures.plots import called
from runfiles.reading import RunInput
from topologies import drawing


def tree_figure(run: RunInput, history: History, source: str, at_ns: int) -> Figure:
    """The tree at an instant, drawn on the network as it was at that instant."""
    ground, parents = ground_at(run.network, run.faults, at_ns), parents_at(history.parents, source, at_ns)
    primaries = [host.host for host in forest_at(run, history, source, at_ns) if host.primary_of]
    tree = drawing.DrawnTree(
        source="" if primaries else source,
        parents=parents,
        leaders=primaries or [leader for cluster in ground.clusters() for leader in leaders(parents, cluster)],
        down=ground.down,
        away=[host for host in run.network.hosts if host not in ground.running],
        **({"leader": "primary destination"} if primaries else {}),
    )
    return drawing.tree_figure(run.network, tree, f"The tree of {source} {_when(at_ns, history)}: {called(run)}")


def run_forest_figure(run: RunInput, history: History, root: str, at_ns: int) -> Figure:
    """A propagation graph at an instant without the network, each host with the groups that it is the primary destination of."""
    hosts = forest_at(run, history, root, at_ns)
    notes = {host.host: ", ".join(host.primary_of) for host in hosts if host.primary_of}
    parents = {host.host: host.parent for host in hosts}
    title = f"The propagation graph {_when(at_ns, history)}\n{called(run)}"
    return forest_figure(parents, notes, (), title, [host.host for host in hosts if not host.running])


def _when(at_ns: int, history: History) -> str:
    return "at the end" if at_ns == history.ended_ns else f"at {(at_ns - start_ns(history)) / 1e9:.3f} s"


def tree_name(source: str, tree_ns: int, history: History) -> str:
    """The file name of the picture of a tree."""
    when = "end" if tree_ns == history.ended_ns else f"{(tree_ns - start_ns(history)) / 1e9:g}s"
    return f"tree-{source}-{when}"


def forest_name(source: str, tree_ns: int, history: History) -> str:
    """The file name of the picture of a propagation graph without its network."""
    return tree_name(source, tree_ns, history).replace("tree", "forest", 1)


def save_trees(run: RunInput, history: History, found: TreeReport) -> list[Path]:
    """Draw every tree of a report beside the other plots of the run."""
    directory = run.directory / "plots"
    directory.mkdir(exist_ok=True)
    paths: list[Path] = []
    for tree in found.trees:
        which = found.source, tree.at_ns
        paths += drawing.save(tree_figure(run, history, *which), directory / tree_name(*which, history))
        if tree.forest:
            paths += drawing.save(run_forest_figure(run, history, *which), directory / forest_name(*which, history))
    return paths
