"""Results of Castbed in a notebook or a script: runs, summaries and tables as frames, and figures to restyle.

    import castbed

    runs = castbed.runs("results")                              # directories of runs, or archives
    runs.summaries()                                            # pandas, a row for each run; also "arrow" and "spark"
    runs.where(protocol="basic").table("deliveries")            # a table of all these runs in one
    runs.figure("cost").savefig("cost.pdf")                     # a figure of matplotlib
    castbed.save(runs.figure("delays"), "delays", "delays.svg", size="12x8cm", title="")

`./castbed python` starts a Python that finds this module; elsewhere the folder of Castbed must be in PYTHONPATH.
"""

from pathlib import Path

from matplotlib.figure import Figure

from analysis.figures.comparison import comparison_rows
from analysis.notebook.figures import save as _save
from analysis.notebook.figures import size_cm
from analysis.notebook.frames import Runs, runs
from runfiles.errors import ResultsError

__all__ = ["ResultsError", "Runs", "comparison_rows", "runs", "save"]


def save(figure: Figure, name: str, path: str | Path, size: str = "", title: str | None = None) -> None:
    """Save a figure as PDF, SVG or PNG, in a size such as `12x8cm`, and with another title or, if that is empty, none."""
    _save(figure, name, Path(path), size_cm(size) if size else None, title)
