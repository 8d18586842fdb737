"""The plots of one run, by name."""

from collections.abc import Callable, Iterator
from functools import partial

from matplotlib.figure import Figure

from analysis.figures.summary import Summary
from analysis.figures.trees.tree_report import main_source
from analysis.judging.history import History
from analysis.judging.parents import sources
from analysis.pictures import plots
from analysis.pictures.fault_plots import delays_over_time_figure
from analysis.pictures.trees import forest_name, run_forest_figure, tree_figure, tree_name
from runfiles.reading import RunInput


def run_figures(run: RunInput, history: History, summary: Summary) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The plots of a run, each made when it is called, with the tree of the first source; `castbed tree` draws those of other sources."""
    yield "links", partial(plots.link_figure, summary, run.network)
    yield "delays", partial(plots.delay_figure, {summary.label: [summary]})
    if run.faults:
        yield "delays-over-time", partial(delays_over_time_figure, run, history)
    if sources(history):
        which = main_source(history, history.ended_ns), history.ended_ns
        yield tree_name(*which, history), partial(tree_figure, run, history, *which)
        if history.graphs:
            yield forest_name(*which, history), partial(run_forest_figure, run, history, *which)
