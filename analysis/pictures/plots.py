"""Plots of the figures of runs, saved as PNG and SVG. The colours are those of the Okabe-Ito palette.

Plots that compare take groups of repeats by name, and show the median and the range or interval of each group.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from analysis.books import FOREIGN, GUEST
from analysis.figures.claims import Sweep
from analysis.figures.comparison import crossings_differ
from analysis.figures.statistics import estimate
from analysis.figures.summary import Summary, described
from runfiles.reading import RunInput
from topologies import drawing
from topologies.network import Network

INK = "#222222"
DELIVERY, FAULT = "#0072B2", "#E69F00"
PURPOSES = {"data": ("#0072B2", ""), "repair": ("#E69F00", "//"), "control": ("#999999", "..")}
GUEST_STYLE = ("#009E73", "xx")
"""Colour and hatch of each purpose, and of the packets of guests, whose purposes nobody knows.

The hatch tells purposes apart in print without colour."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
STYLES, MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v")
# A bar that is this many times lower than the highest one is too small to read.
TOO_LOW = 10
SPREAD = 30
"""If the greatest value is more than this many times the least, the scale is logarithmic."""

MOST_INSIDE = 4
"""The names of more lines than this would cover the lines themselves, and are written beside the plot."""

LEAST_MS = 0.01
"""The start of a logarithmic scale of delays: shorter delays, also zero, are drawn here."""

Groups = Mapping[str, Sequence[Summary]]


KNOWN = (
    *("best-effort", "basic", "cluster-tree", "lazy-reliable", "eager-reliable", "uniform", "fan"),
    *("sequencer", "two-phase", "timestamp", "token-site", "trans-total", "counter", "totem"),
    *("propagation-graph", "spo", "optimistic"),
)
"""Protocols with a colour of their own, the same in every plot of every page. Those that are often compared have different ones."""
WAYS = ("heuristic-1", "heuristic-2", "heuristic-3", "minimum-spanning-tree", "shortest-path-tree", "random")
"""Ways to build a propagation graph, which have a colour of their own as well."""


class Look(NamedTuple):
    """How a group is drawn: the same in every plot of a page."""

    colour: str
    style: Any
    marker: str


def looks(protocols: Mapping[str, str]) -> dict[str, Look]:
    """A look for each group, given the protocol of each: groups of one protocol have its colour, and differ in style and marker.

    A known protocol has the same colour in every plot. Where all groups are of one protocol, each has a colour of its own.
    """
    if len(protocols) > 1 and len({*protocols.values()}) == 1:
        return {name: _look(place) for place, name in enumerate(protocols)}
    known = {name: place for place, name in enumerate((*KNOWN, *WAYS))}
    places = {protocol: known[protocol] for protocol in protocols.values() if protocol in known}
    free = (place for place in count() if place % len(COLOURS) not in {taken % len(COLOURS) for taken in places.values()})
    others = dict.fromkeys(protocol for protocol in protocols.values() if protocol not in places)
    # Where known protocols use up all colours, the others share them.
    crowded = len({place % len(COLOURS) for place in places.values()}) == len(COLOURS)
    places |= dict(zip(others, count(len(known)) if crowded else free, strict=False))
    seen: Counter[str] = Counter()
    found = {}
    for name, protocol in protocols.items():
        colour, style, marker = _look(places[protocol])
        if number := seen[protocol]:
            first = places[protocol]
            style, marker = STYLES[(first + number) % len(STYLES)], MARKERS[(first + number) % len(MARKERS)]
        seen[protocol] += 1
        found[name] = Look(colour, style, marker)
    return found


def _look(place: int) -> Look:
    """The look at a place. The first 140 differ, as the numbers of colours, styles and markers have no common factor."""
    return Look(COLOURS[place % len(COLOURS)], STYLES[place % len(STYLES)], MARKERS[place % len(MARKERS)])


def protocols_of(groups: Groups) -> dict[str, str]:
    """The protocol of each group."""
    return {name: summaries[0].protocol for name, summaries in groups.items()}


def cost_figure(groups: Groups) -> Figure:
    """Cost of each group, stacked by purpose, with the lower bound. A second panel enlarges low bars.

    Medians of parts do not add up to the median of their sum, so the parts are those of the median run, or the mean of the two median runs.
    """
    parts = {name: _middle_parts(summaries) for name, summaries in groups.items()}
    totals = {name: sum(found.values()) for name, found in parts.items()}
    low = [name for name, total in totals.items() if total * TOO_LOW < max(totals.values())]
    low = low if any(totals[name] for name in low) else []
    panels = [list(groups), *([low] if low else [])]
    widths = [max(3.0, 0.4 + room(len(names)) * len(names)) for names in panels]
    figure = Figure(figsize=(max(4.5, sum(widths) + 1.6), 4.2), layout="constrained")
    every = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for axes, names in zip(every, panels, strict=True):
        plain(axes)
        _draw_stacks(axes, {name: parts[name] for name in names}, groups)
        bounds = [groups[name][0].cost.lower_bound for name in names]
        _draw_bounds(axes, bounds, {groups[name][0].clusters - 1 for name in names})
        crossings = _draw_crossings(axes, [groups[name] for name in names])
        highest = max(*(_top(groups[name]) for name in names), *bounds, *crossings, 1)
        axes.set_ylim(0, 1.16 * highest)
        if room(len(names)) >= 0.5:
            marks = crossings or [0.0] * len(names)
            for place, (name, mark) in enumerate(zip(names, marks, strict=True)):
                # Above the interval, and above the mark of the crossings where that is in the way.
                top = _top(groups[name])
                _write_above(axes, place, mark if 0 <= mark - top < 0.12 * highest else top, totals[name])
    every[0].set_ylabel("packets per message")
    _title(every[0], "Packets that crossed an expensive link", groups)
    if low:
        every[1].set_title("Low bars, enlarged\n", fontsize=11, loc="left")
    # From top to bottom as in the stack.
    figure.legend(*(part[::-1] for part in every[0].get_legend_handles_labels()), loc="outside right center", frameon=False)
    return figure


def _draw_bounds(axes: Axes, bounds: Sequence[float], to_all: set[int]) -> None:
    """The lower bound: one line if it is the same for all bars, else a line across each bar. `to_all` is k - 1 of the networks."""
    if len(set(bounds)) == 1:
        word = f"k - 1 = {bounds[0]:g}" if to_all == {bounds[0]} else f"{bounds[0]:.3g}"
        axes.axhline(
            bounds[0], color=INK, linestyle="--", linewidth=1.2, label=f"least possible with\none packet a message:\n{word}"
        )
    else:
        places, word = np.arange(len(bounds)), "\nk - 1" if to_all == {*bounds} else ""
        label = f"least possible with\none packet a message{f':{word}' if word else ''}"
        axes.hlines(bounds, places - 0.4, places + 0.4, color=INK, linestyle="--", linewidth=1.2, label=label)


def _draw_crossings(axes: Axes, groups: Sequence[Sequence[Summary]]) -> list[float]:
    """A mark for the median number of crossings of each group, where crossings differ from packets; the heights of the marks."""
    if not any(crossings_differ(summary) for summaries in groups for summary in summaries):
        return []
    heights = [median(summary.cost.expensive_crossings_per_message or 0.0 for summary in summaries) for summaries in groups]
    label = "crossings of\nexpensive links"
    axes.plot(range(len(heights)), heights, "D", color=INK, markerfacecolor="white", markersize=5, label=label)
    return heights


def _middle_parts(summaries: Sequence[Summary]) -> dict[str, float]:
    """The cost by purpose of the median run, or the mean of the two median runs."""
    ordered = sorted(summaries, key=_total)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    parts = {
        purpose: fmean(getattr(summary.cost, f"expensive_{purpose}_packets_per_message") or 0.0 for summary in middle)
        for purpose in PURPOSES
    }
    return parts | {GUEST: fmean(_total(summary) if summary.books.guest else 0.0 for summary in middle)}


def _total(summary: Summary) -> float:
    return summary.cost.expensive_packets_per_message or 0.0


def _top(summaries: Sequence[Summary]) -> float:
    found = estimate([_total(summary) for summary in summaries])
    return found.median if found.high is None else max(found.median, found.high)


def _draw_stacks(axes: Axes, parts: Mapping[str, Mapping[str, float]], groups: Groups) -> None:
    """A bar for each group, with the confidence interval of its height."""
    bottom = np.zeros(len(parts))
    guests = {GUEST: GUEST_STYLE} if any(found[GUEST] for found in parts.values()) else {}
    for purpose, (colour, hatch) in (PURPOSES | guests).items():
        heights = np.array([found[purpose] for found in parts.values()])
        axes.bar(
            range(len(parts)), heights, 0.55, bottom, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8, label=purpose
        )
        bottom += heights
    for place, (name, total) in enumerate(zip(parts, bottom, strict=True)):
        found = estimate([_total(summary) for summary in groups[name]])
        if found.low is not None and found.high is not None:
            # Rounding can put the sum of the parts slightly outside the interval.
            reach = [[max(0.0, total - found.low)], [max(0.0, found.high - total)]]
            axes.errorbar([place], [total], reach, color=INK, capsize=4, linewidth=1.2)
    name_bars(axes, parts)
    axes.set_xlim(-0.6, len(parts) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _write_above(axes: Axes, place: float, height: float, value: float) -> None:
    """Write a value above a place; lines behind it are covered."""
    axes.annotate(
        f"{value:,.2f}" if value < 1000 else f"{value:,.0f}", (place, height), (0, 5), textcoords="offset points", ha="center", va="bottom",
        color=INK, bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85}, zorder=6,
    )  # fmt: skip


def room(count: int) -> float:
    """Inches for each of `count` bars, so that a plot is no wider than a landscape page."""
    return min(1.15, 12 / count)


def name_bars(axes: Axes, names: Collection[str]) -> None:
    """Write names under bars: broken into lines, or rotated if there are many."""
    if room(len(names)) < 0.8:
        axes.set_xticks(range(len(names)), list(names), rotation=90, fontsize=8)
    else:
        broken = [name.replace("-", "-\n") if len(name) > 12 else name for name in names]
        axes.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in broken])


def delay_figure(groups: Groups) -> Figure:
    """The share of deliveries made within a time: for each group the median of its repeats, and a band from the least to the greatest.

    A curve ends at the share that was delivered at all.
    """
    beside = len(groups) > MOST_INSIDE
    figure, axes = sized(8.8 if beside else 6.4)
    shares = np.linspace(0, 100, 201)
    delays = {name: np.array([_delays_at(shares, summary) for summary in summaries]) for name, summaries in groups.items()}
    shown = [float(delay) for found in delays.values() for delay in found[np.isfinite(found)]]
    delays, shown = {name: np.maximum(found, LEAST_MS) for name, found in delays.items()}, [max(d, LEAST_MS) for d in shown]
    for name, look in looks(protocols_of(groups)).items():
        middle = np.median(delays[name], axis=0)
        there = np.isfinite(middle)
        if len(delays[name]) > 1 and there.any():
            # Where a repeat never delivered this share, the band continues beyond the edge.
            least, most = (np.minimum(edge, 10 * max(shown)) for edge in (delays[name].min(axis=0), delays[name].max(axis=0)))
            axes.fill_betweenx(shares[there], least[there], most[there], color=look.colour, alpha=0.18, linewidth=0)
        axes.plot(middle[there], shares[there], color=look.colour, linestyle=look.style, linewidth=1.8, label=name)
    axes.set_ylim(0, 103)
    axes.set_xscale("log")
    axes.set_xlim(*decades(shown))
    axes.xaxis.set_major_formatter(told_delay)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("milliseconds since the broadcast (logarithmic)")
    axes.set_ylabel("delivered, % of messages times hosts")
    _title(axes, "Time to deliver a message at another host", groups)
    if beside:
        figure.legend(loc="outside right center", frameon=False, fontsize=9)
    else:
        axes.legend(loc="lower right", frameon=False)
    return figure


def decades(delays: Sequence[float]) -> tuple[float, float]:
    """The ends of a logarithmic scale of delays: powers of ten, so that plots side by side are easily compared."""
    least, most = max(min(delays, default=LEAST_MS), LEAST_MS), max(max(delays, default=1.0), LEAST_MS)
    low, high = 10 ** math.floor(math.log10(least) + 1e-9), 10 ** math.ceil(math.log10(most) - 1e-9)
    # The least delay is drawn at the edge, so there is some room beside it.
    return 0.8 * low, float(high if high > low else 10 * low)


def told_delay(delay: float, _: object = None) -> str:
    """A delay at an axis; the least stands for all shorter ones."""
    return f"{delay:,g}" if delay > 1.001 * LEAST_MS else f"≤ {LEAST_MS:g}"


def _delays_at(shares: Any, summary: Summary) -> Any:
    """The delay within which each share of all pairs of a message and a host was delivered; infinite if it never was."""
    quantiles, delivered = summary.delay_ms.quantiles, 100 * (summary.delivered_share or 0.0)
    if not quantiles or not delivered:
        return np.full(len(shares), np.inf)
    return np.interp(shares, np.linspace(0, delivered, len(quantiles)), quantiles, right=np.inf)


def carried(summary: Summary, network: Network) -> dict[str, float]:
    """Packets per message on each link between switches, both directions added."""
    found = {link.name: 0.0 for link in network.links if not (network.is_host(link.a) or network.is_host(link.b))}
    for cost in summary.link_costs:
        if cost.link in found and cost.purpose != FOREIGN:
            found[cost.link] += cost.packets / max(summary.messages, 1)
    return found


def link_figure(summary: Summary, network: Network) -> Figure:
    """Packets per message on each link between switches, drawn on the network."""
    title = f"Packets per message on each link\n{summary.label}, {summary.scenario}, seed {summary.seed}"
    return drawing.figure(network, carried(summary, network), "packets per message, both directions", title)


def called(run: RunInput) -> str:
    """What to call a run in the title of a plot: what distinguishes it from the other runs of its scenario."""
    return f"{run.run.label or run.run.protocol}, {run.run.scenario}, seed {run.run.seed}"


def sweep_figure(sweep: Sweep, others: Sequence[Sweep] = (), width: float = 6.4) -> Figure:
    """A sweep: results of runs against the setting in which they differ, one line for each name; bars if the setting is no number.

    A sweep of one setting only has a row for each name. Of the `others` beside it, those of the same unit share its scale.
    """
    # A small plot has no room for names.
    beneath = len(sweep.lines) > (MOST_INSIDE if width > 6 else 1) and not sweep.ticks and not _one_setting(sweep)
    columns = 1 if max(map(len, sweep.lines)) > 4.6 * width else 2
    figure, axes = sized(width, 0.63 * width + (0.22 * math.ceil(len(sweep.lines) / columns) if beneath else 0))
    same = [other for other in others if other.y == sweep.y]
    values = [y for each in (sweep, *same) for points in each.lines.values() for _, y, _ in points]
    values += [end for each in (sweep, *same) for some in each.intervals.values() for interval in some for end in interval]
    logarithmic = not sweep.ticks and not sweep.linear and 0 < SPREAD * min(values) < max(values)
    ends = (min(values) / 2, 2 * max(values)) if logarithmic else (0.0, 1.12 * max(values) or 1.0)
    if _one_setting(sweep):
        _draw_rows(axes, sweep, ends, logarithmic=logarithmic)
        return figure
    for place, name in enumerate(sweep.lines):
        (_draw_bars if sweep.ticks else _draw_line)(axes, sweep, name, place)
    settings = [x for points in sweep.lines.values() for x, _, _ in points]
    if sweep.ticks:
        axes.set_xticks(range(len(sweep.ticks)), [tick.replace("-", "-\n") for tick in sweep.ticks])
    elif sweep.linear:
        axes.set_xlim(0, 1.05 * max(settings))
    else:
        scale(axes, settings)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.02 if sweep.ticks else 0.1, y=0.1)
    # Bars leave no room for the legend, but above them.
    axes.set_ylim(*((0, 1.25 * max(values)) if sweep.ticks else ends))
    axes.set_xlabel(sweep.x)
    axes.set_ylabel(wrapped(f"{sweep.y} (logarithmic)" if logarithmic else sweep.y, 36))
    axes.set_title(wrapped(sweep.title, int(10 * width)), fontsize=11, loc="left")
    if beneath:
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    elif len(sweep.lines) > 1:
        axes.legend(loc="upper left" if sweep.ticks else "best", ncols=2 if sweep.ticks else 1, frameon=False)
    return figure


def _one_setting(sweep: Sweep) -> bool:
    """Whether several lines would be single points above each other."""
    single = all(len(points) == 1 for points in sweep.lines.values())
    settings = {x for points in sweep.lines.values() for x, _, _ in points}
    return len(sweep.lines) > 1 and single and len(settings) == 1 and not sweep.ticks


def _draw_rows(axes: Axes, sweep: Sweep, ends: tuple[float, float], *, logarithmic: bool) -> None:
    """A row for each name, with its value at one setting, which the title tells."""
    ((setting, _, _), *_) = next(iter(sweep.lines.values()))
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    for row, (name, look) in enumerate(looks({name: name for name in sweep.lines}).items()):
        ((_, value, _),) = sweep.lines[name]
        low, high = sweep.intervals.get(name, [(value, value)])[0]
        axes.errorbar([value], [row], xerr=[[value - low], [high - value]], color=look.colour, marker=look.marker, capsize=4)
        axes.annotate(
            f"{value:.4g}", (value, row), (0, 7), textcoords="offset points", ha="center", fontsize=9, color=look.colour
        )
    axes.set_yticks(range(len(sweep.lines)), list(sweep.lines))
    axes.set_ylim(len(sweep.lines) - 0.5, -0.7)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(*ends)
    axes.set_xlabel(f"{sweep.y} (logarithmic)" if logarithmic else sweep.y)
    axes.set_title(f"{sweep.title}\n{sweep.x}: {setting:g}", fontsize=11, loc="right")


def _draw_line(axes: Axes, sweep: Sweep, name: str, place: int) -> None:
    points, (colour, style, marker) = sweep.lines[name], list(looks({name: name for name in sweep.lines}).values())[place]
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    axes.plot(xs, ys, color=colour, linestyle=style, linewidth=1.8, marker=marker, markersize=5, label=name)
    _draw_intervals(axes, sweep, name, xs, colour)
    for x, y, word in points:
        if word:
            box = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85}
            axes.annotate(word, (x, y), (0, 8), textcoords="offset points", ha="center", fontsize=9, color=colour, bbox=box)


def _draw_bars(axes: Axes, sweep: Sweep, name: str, place: int) -> None:
    """The bars of a name, beside those of other names."""
    points, (colour, _, _) = sweep.lines[name], list(looks({name: name for name in sweep.lines}).values())[place]
    width = 0.8 / len(sweep.lines)
    xs = [x + (place - (len(sweep.lines) - 1) / 2) * width for x, _, _ in points]
    bars = axes.bar(xs, [y for _, y, _ in points], 0.92 * width, color=colour, label=name)
    _draw_intervals(axes, sweep, name, xs, "black")
    axes.bar_label(bars, [word for _, _, word in points], padding=2, fontsize=9)


def _draw_intervals(axes: Axes, sweep: Sweep, name: str, xs: list[float], colour: str) -> None:
    """The confidence intervals of the points of a name, at these places."""
    ys = [y for _, y, _ in sweep.lines[name]]
    if reaches := [(y - low, high - y) for y, (low, high) in zip(ys, sweep.intervals.get(name, ()), strict=False)]:
        axes.errorbar(xs, ys, list(zip(*reaches, strict=True)), fmt="none", ecolor=colour, capsize=4, linewidth=1.2)


def save(figures: Iterable[tuple[str, Figure]], directory: Path) -> list[Path]:
    """Write figures by name as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures for path in drawing.save(figure, directory / name)]


def sized(width: float, height: float = 4.0) -> tuple[Figure, Axes]:
    """A figure of this size with one plot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    plain(axes)
    return figure, axes


def plain(axes: Axes) -> None:
    """Remove the frame, and draw horizontal grid lines behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def scale(axes: Axes, delays: Sequence[float]) -> None:
    """Start the horizontal axis at zero, or make it logarithmic if delays differ too much, as those of repairs do."""
    if delays and min(delays) > 0 and max(delays) > SPREAD * min(delays):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.set_xlim(0, 1.05 * max(delays, default=1) or 1)


def wrapped(name: str, most: int) -> str:
    """A name in lines of at most so many letters, for the title of a panel."""
    return textwrap.fill(name, most)


def _title(axes: Axes, what: str, groups: Groups) -> None:
    every = [summary for summaries in groups.values() for summary in summaries]
    axes.set_title(f"{what}\n{described(every)}", fontsize=11, loc="left")
