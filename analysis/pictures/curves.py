"""Curves over a setting that runs differ in: cost, delays and deliveries, with a line for each protocol and intervals over repeats."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.comparison import Compared, Comparison
from analysis.figures.repeats import Group, differing, facets
from analysis.pictures.plots import Look, decades, looks, plain, told_delay, wrapped
from topologies import units

_FIGURES: Final = {
    "expensive_packets_per_message": "expensive packets per message",
    "delay_ms_last_p50": "delay to the last host, ms (log.)",
    "delay_ms_p99": "99th percentile of the delay, ms (log.)",
    "delivered_share": "delivered, %",
}
# Facts that are no settings, or that a picture of their own shows.
_NO_SETTINGS: Final = frozenset(("label", "protocol", "scenario", "engine", "network", "hosts", "clusters", "seed", "faults"))
_MACHINE: Final = frozenset(("datapath", "shaping"))
# More curves than this are better drawn one by one.
MOST_CURVES: Final = 4


class Curve(NamedTuple):
    """The groups of each line at each value of a key, in the order of the values."""

    key: str
    ticks: dict[float, str]
    """The values as numbers, and as they were written."""
    lines: dict[str, dict[float, Compared]]
    protocols: dict[str, str]


def curves(groups: Sequence[Group], found: Comparison) -> list[Curve]:
    """A curve for each key of which some protocol has several values, all of them numbers."""
    facts = [facets(group.runs[0]) for group in groups]
    # A parameter of one protocol, which runs of the others do not have, is no difference.
    of_protocol = [[one for one in facts if one["protocol"] == name] for name in dict.fromkeys(one["protocol"] for one in facts)]
    keys = [
        key for key in dict.fromkeys(key for some in of_protocol for key in differing(some)) if key not in _NO_SETTINGS | _MACHINE
    ]
    made = [_curve(key, [other for other in keys if other != key], groups, found, facts) for key in keys]
    return [curve for curve in made if curve][:MOST_CURVES]


def _curve(
    key: str, others: Sequence[str], groups: Sequence[Group], found: Comparison, facts: Sequence[Mapping[str, str]]
) -> Curve | None:
    ticks: dict[float, str] = {}
    lines: dict[str, dict[float, Compared]] = {}
    protocols: dict[str, str] = {}
    for group, compared, known in zip(groups, found.groups, facts, strict=True):
        value = known.get(key)
        if value is None:
            continue
        if (place := number_of(value)) is None:
            return None
        name = ", ".join([known["protocol"], *(f"{other} {known[other]}" for other in others if other in known)])
        ticks[place] = value
        # Two groups at one place differ in something without a name, such as the times of faults: no curve shows that.
        if lines.setdefault(name, {}).setdefault(place, compared) is not compared:
            return None
        protocols[name] = group.summaries[0].protocol
    if all(len(points) < 2 for points in lines.values()):
        return None
    return Curve(key, dict(sorted(ticks.items())), {name: dict(sorted(lines[name].items())) for name in lines}, protocols)


def number_of(text: str) -> float | None:
    """A value as a number in the unit that Castbed counts in: `5%`, `20ms`, `10mbit`, `3`; None for other text."""
    readers: tuple[Callable[[str], float], ...] = (float, units.share, units.time_ms, units.bandwidth_mbit)
    for read in readers:
        with suppress(ValueError):
            return read(text)
    return None


def curve_figure(curve: Curve) -> Figure:
    """A panel for each figure: the median of each group, with its interval."""
    figure = Figure(figsize=(9.4, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    styles = looks(curve.protocols)
    for axes, name in zip(panels.flat, _FIGURES, strict=True):
        for line, points in curve.lines.items():
            _draw(axes, name, line, points, styles[line])
        _finish(axes, name, curve)
    for axes in panels[1]:
        axes.set_xlabel(curve.key)
    figure.suptitle(f"Against {curve.key}", fontsize=11, x=0.01, ha="left")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, [wrapped(label, 34) for label in labels], loc="outside right center", frameon=False, fontsize=9)
    return figure


def _draw(axes: Axes, figure: str, name: str, points: Mapping[float, Compared], look: Look) -> None:
    factor = 100.0 if figure == "delivered_share" else 1.0
    found = {place: group.estimates[figure] for place, group in points.items() if figure in group.estimates}
    heights = [factor * estimate.median for estimate in found.values()]
    axes.plot(
        list(found), heights, color=look.colour, linestyle=look.style, marker=look.marker, markersize=5, linewidth=1.6, label=name
    )
    for place, estimate in found.items():
        if estimate.low is not None and estimate.high is not None:
            reach = [[factor * (estimate.median - estimate.low)], [factor * (estimate.high - estimate.median)]]
            axes.errorbar([place], [factor * estimate.median], reach, color=look.colour, capsize=4, linewidth=1.2)


def _finish(axes: Axes, figure: str, curve: Curve) -> None:
    plain(axes)
    if figure.startswith("delay"):
        found = [points[place].estimates.get(figure) for points in curve.lines.values() for place in points]
        reached = [value for one in found if one for value in (one.median, one.low, one.high) if value]
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(*decades(reached))
        axes.yaxis.set_major_formatter(told_delay)
    elif figure == "delivered_share":
        # Small differences are not blown up: less than a tenth is a small part of the picture.
        axes.set_ylim(min(90.0, axes.get_ylim()[0]), 100.5)
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(_FIGURES[figure], fontsize=10, loc="left")
    places = list(curve.ticks)
    if places[0] > 0 and places[-1] > 30 * places[0]:
        axes.set_xscale("log")
    axes.set_xticks(places, list(curve.ticks.values()), fontsize=8)
    axes.minorticks_off()


def curve_name(curve: Curve) -> str:
    """The file name of a curve."""
    return f"against-{re.sub(r'[^A-Za-z0-9_]+', '-', curve.key)}"
