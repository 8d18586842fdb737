"""The tree of a run, drawn on the network."""

from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures.tree_report import TreeReport, start_ns
from analysis.judging.history import History
from analysis.judging.parents import ground_at, leaders, parents_at
from runfiles.reading import RunInput
from topologies import drawing


def tree_figure(run: RunInput, history: History, source: str, at_ns: int) -> Figure:
    """The tree at an instant, drawn on the network as it was at that instant."""
    ground, parents = ground_at(run.network, run.faults, at_ns), parents_at(history.parents, source, at_ns)
    tree = drawing.DrawnTree(
        source=source,
        parents=parents,
        leaders=[leader for cluster in ground.clusters() for leader in leaders(parents, cluster)],
        down=ground.down,
        away=[host for host in run.network.hosts if host not in ground.running],
    )
    when = "at the end" if at_ns == history.ended_ns else f"at {(at_ns - start_ns(history)) / 1e9:.3f} s"
    return drawing.tree_figure(run.network, tree, f"The tree of {source} {when}: {run.run.protocol}, {run.run.scenario}")


def tree_name(source: str, tree_ns: int, history: History) -> str:
    """The file name of the picture of a tree."""
    when = "end" if tree_ns == history.ended_ns else f"{(tree_ns - start_ns(history)) / 1e9:g}s"
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
