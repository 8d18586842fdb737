"""Every figure of runs by name, as matplotlib objects, and how one is saved for a paper: its size, its title, its format."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import Collection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.text import Text

from analysis.figures.comparison import compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.pages.gallery import comparison_figures
from analysis.pictures.of_run import run_figures
from runfiles.errors import ResultsError
from topologies import drawing

FORMATS: Final = (".pdf", ".svg", ".png")
# Figures whose panels have the names of groups as titles, which stay.
_OF_PANELS: Final = ("links", "space-time")
_CENTIMETRES: Final = {"cm": 1.0, "mm": 0.1, "in": 2.54}
_LARGEST_CM: Final = 200.0
# Text that is smaller than this part of its own size cannot be read.
_LEAST_SHRUNK: Final = 0.5


def figures(runs: Sequence[MeasuredRun], by: str = "label") -> dict[str, Callable[[], Figure]]:
    """The figures of some runs, each made when it is called: those that compare them, and those of each run as `LABEL/NAME`.

    Runs of one label are told apart by the seed: `LABEL/SEED/NAME`. Of a single run, the names alone do too.
    """
    groups = grouped(runs, by)
    found = {name: make for name, _, make in comparison_figures(groups, compared(groups, by), Path(), None)}
    for number, network in enumerate({run.network.name: run.network for run in runs}.values(), start=1):
        found["network" if number == 1 else f"network-{number}"] = partial(drawing.figure, network)
    labels = [run.label for run in runs]
    for run in runs:
        place = run.label if labels.count(run.label) == 1 else f"{run.label}/{run.summary.seed}"
        for name, make in run_figures(run.input, run.history, run.summary):
            found[f"{place}/{name}"] = make
            if len(runs) == 1:
                found[name] = make
    return found


def figure(runs: Sequence[MeasuredRun], name: str, by: str = "label") -> Figure:
    """One figure by its name."""
    known = figures(runs, by)
    if name not in known:
        raise ResultsError(f"these runs have no figure {name!r}: choose from {', '.join(known)}")
    return known[name]()


def save(made: Figure, name: str, path: Path, size_cm: tuple[float, float] | None = None, title: str | None = None) -> None:
    """Save the figure of a name as PDF, SVG or PNG. Without a title, or with another one, if `title` is empty or given."""
    if path.suffix not in FORMATS:
        raise ResultsError(f"cannot save {path}: the name must end in {', '.join(FORMATS)}")
    if size_cm:
        width, height = (side / 2.54 for side in size_cm)
        own_width, own_height = made.get_size_inches()
        _shrink(made, max(_LEAST_SHRUNK, min(1.0, width / own_width, height / own_height)))
        made.set_size_inches(width, height)
    if title is not None:
        _set_title(made, name, title)
    # The same figure gives the same file.
    metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}[path.suffix]
    try:
        with rc_context({"svg.hashsalt": "castbed", "pdf.fonttype": 42}):
            made.savefig(path, dpi=300, metadata=metadata)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from error


def _shrink(made: Figure, factor: float) -> None:
    """Make everything whose size is in points as much smaller as the figure gets, so that it covers no more of it than before."""
    if factor == 1.0:
        return
    labels = {axis: axis.get_ticklabels() for axes in made.axes for axis in (axes.xaxis, axes.yaxis)}
    sizes = {axis: float(texts[0].get_fontsize()) for axis, texts in labels.items() if texts}
    for text in made.findobj(Text):
        text.set_fontsize(factor * float(text.get_fontsize()))
    for axis, size in sizes.items():
        # Labels of ticks are made anew when the figure is drawn.
        axis.set_tick_params(labelsize=factor * size)
    for line in made.findobj(Line2D):
        line.set_linewidth(factor * line.get_linewidth())
        line.set_markersize(factor * line.get_markersize())
    for patch in made.findobj(Patch):
        patch.set_linewidth(factor * patch.get_linewidth())
    for arrow in made.findobj(FancyArrowPatch):
        arrow.set_mutation_scale(factor * arrow.get_mutation_scale())
        arrow.shrinkA, arrow.shrinkB = factor * arrow.shrinkA, factor * arrow.shrinkB
    for some in made.findobj(Collection):
        some.set_linewidth([factor * width for width in np.atleast_1d(some.get_linewidth())])
    for dots in made.findobj(PathCollection):
        dots.set_sizes([factor**2 * area for area in dots.get_sizes()])


def _set_title(made: Figure, name: str, title: str) -> None:
    if made.get_suptitle() or (name.rpartition("/")[2] in _OF_PANELS and len(made.axes) > 2):
        made.suptitle(title)
        return
    first = made.axes[0]
    for place in ("left", "center"):
        if first.get_title(loc=place):
            first.set_title(title, loc=place)


def size_cm(text: str) -> tuple[float, float]:
    """Width and height in centimetres from text such as `12x8`, `12x8cm`, `120x80mm` or `5x3in`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)(cm|mm|in)?", text)
    if not found:
        raise ValueError(f"{text!r} is no size: write width and height, such as 12x8cm or 5x3in")
    width, height = (float(number) * _CENTIMETRES[found[3] or "cm"] for number in found.groups()[:2])
    if not 1 <= min(width, height) <= max(width, height) <= _LARGEST_CM:
        raise ValueError(f"{text!r} is no size for a picture: each side has 1 to {_LARGEST_CM:g} cm")
    return width, height
