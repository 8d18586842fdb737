"""Plots that compare groups of runs: packets on each link, deliveries over time, the load of hosts, and cost against network size."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group
from analysis.figures.statistics import Estimate, estimate
from analysis.judging.fault_windows import Window, windows
from analysis.pictures.plots import FAULT, INK, MOST_INSIDE, SPREAD, Look, carried, looks, name_bars, plain, room, sized, wrapped
from topologies import drawing

# More panels than this are too small to read on a page.
MOST_PANELS: Final = 12
# Instants at which the delivered share is computed: a point for every few pixels.
INSTANTS: Final = 240
# Faults whose starts, and whose ends, differ by less than this are shaded as one.
SAME_NS: Final = 500_000_000


def _protocols(groups: Sequence[Group]) -> dict[str, str]:
    return {group.name: group.summaries[0].protocol for group in groups}


def panels(groups: Sequence[Group]) -> Sequence[Group]:
    """The first groups, as many as a figure with one panel for each group has room for."""
    return groups[:MOST_PANELS]


def links_figure(groups: Sequence[Group]) -> Figure:
    """Packets on each link between switches, medians over repeats, drawn on the network of each group with one scale for all."""
    shown = panels(groups)
    values = [_carried(group) for group in shown]
    scale = _value_scale([value for links in values for value in links.values()])
    rows, columns = grid(len(shown))
    size = 4.1
    figure = Figure(figsize=(size * columns + 1, size * rows + 0.5), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    used = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, group, links in zip(used, shown, values, strict=False):
        drawing.draw(group.runs[0].network, axes, links, legend=False, scale=scale)
        axes.set_title(wrapped(group.name, 34), fontsize=11)
    for axes in used[len(shown) :]:
        axes.set_axis_off()
    label = "packets per message, both directions" + (" (logarithmic)" if isinstance(scale, LogNorm) else "")
    figure.colorbar(ScalarMappable(scale, drawing.VALUES), ax=used, label=label, shrink=0.6, format="{x:g}")
    return figure


def grid(count: int) -> tuple[int, int]:
    """Rows and columns for `count` panels: up to three in a row."""
    columns = min(count, 2 if count == 4 else 3)
    return math.ceil(count / columns), columns


def _carried(group: Group) -> dict[str, float]:
    """Packets per message on each link: the median over repeats."""
    repeats = [carried(run.summary, run.network) for run in group.runs]
    return {link: median(repeat[link] for repeat in repeats) for link in repeats[0]}


def _value_scale(values: Sequence[float]) -> Normalize:
    """A linear scale from zero, or a logarithmic one if values differ greatly; that draws zero like the least value above zero."""
    most, least = max(values, default=1.0) or 1.0, min((value for value in values if value > 0), default=1.0)
    middle = median(value for value in values if value > 0) if any(values) else most
    return LogNorm(least, most, clip=True) if most > SPREAD / 3 * middle else Normalize(0.0, most)


def over_time_figure(groups: Sequence[Group]) -> Figure:
    """The share delivered over time: median and range of the repeats, with the faults shaded."""
    streams = {group.name: [_stream(run) for run in group.runs] for group in groups}
    found = {group.name: _windows(group.runs[0], streams[group.name][0].start_ns) for group in groups}
    alike = _are_alike(list(found.values()))
    rows = 1 if alike else len(panels(groups))
    # Names of faults are inside, at the bottom; so the legend is beside them.
    beside = not alike or any(found.values()) or len(groups) > MOST_INSIDE
    figure = Figure(figsize=(9.8 if beside else 7.6, 4.2 if alike else 0.9 + 1.7 * rows), layout="constrained")
    every = figure.subplots(rows, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    end_ns = max(stream.end_ns - stream.start_ns for some in streams.values() for stream in some)
    times = np.linspace(0, 1.04 * end_ns / 1e9, INSTANTS)
    for number, (name, look) in enumerate(looks(_protocols(groups)).items()):
        if alike or number < rows:
            _draw_share(every[0 if alike else number], name, [stream.delivered(times) for stream in streams[name]], look, times)
    for axes, name in zip(every, found, strict=False):
        axes.plot(times, streams[name][0].broadcast(times), color=INK, linewidth=0.9, label="broadcast so far", zorder=1)
        _shade(axes, found[name], times[-1] / 2)
        plain(axes)
        place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if beside else {"loc": "lower right"}
        axes.legend(**place, frameon=False, fontsize=9)
    every[0].set_ylim(0, 104)
    every[-1].set_xlabel("seconds since the first broadcast")
    every[rows // 2].set_ylabel("delivered, % of all messages times hosts")
    every[0].set_title("Delivered by when", fontsize=11, loc="left")
    return figure


class Stream(NamedTuple):
    """When the messages of a run were broadcast and delivered, each in the order of time."""

    start_ns: int
    broadcast_ns: Any
    delivered_ns: Any
    others: int
    """The number of hosts to which each message is due."""

    @property
    def end_ns(self) -> int:
        """The time of the last broadcast or delivery."""
        return int(max([self.start_ns, *self.broadcast_ns[-1:], *self.delivered_ns[-1:]]))

    def broadcast(self, times: Any) -> Any:
        """The share of messages broadcast by each instant, in per cent."""
        return 100 * self._until(self.broadcast_ns, times) / max(len(self.broadcast_ns), 1)

    def delivered(self, times: Any) -> Any:
        """The share of all pairs of a message and a host that were delivered by each instant, in per cent."""
        return 100 * self._until(self.delivered_ns, times) / max(len(self.broadcast_ns) * self.others, 1)

    def _until(self, happened_ns: Any, times: Any) -> Any:
        return np.searchsorted(happened_ns, self.start_ns + times * 1e9, "right")


def _stream(run: MeasuredRun) -> Stream:
    table = run.table("deliveries")
    messages = table.group_by(["origin", "sequence"]).aggregate([("broadcast_ns", "min")])
    broadcast = messages["broadcast_ns_min"].to_numpy()
    if len(broadcast) < run.summary.messages:
        # A message that no other host delivered is in the event logs only.
        broadcast = np.array(list(run.history.broadcast_at.values()))
    start_ns = int(broadcast.min()) if len(broadcast) else run.input.run.started_ns
    return Stream(start_ns, np.sort(broadcast), np.sort(table["delivered_ns"].to_numpy()), len(run.network.hosts) - 1)


def _draw_share(axes: Axes, name: str, shares: Any, look: Look, times: Any) -> None:
    """The line of a group, and the band of its repeats."""
    if len(shares) > 1:
        axes.fill_between(times, np.min(shares, axis=0), np.max(shares, axis=0), color=look.colour, alpha=0.18, linewidth=0)
    axes.plot(times, np.median(shares, axis=0), color=look.colour, linestyle=look.style, linewidth=1.6, label=name)


def _windows(run: MeasuredRun, start_ns: int) -> list[Window]:
    """The faults of a run, in nanoseconds since its first broadcast."""
    found = windows(run.input.faults, run.input.run.ended_ns)
    return [Window(window.label, window.start_ns - start_ns, window.end_ns - start_ns) for window in found]


def _are_alike(found: Sequence[Sequence[Window]]) -> bool:
    """Whether all groups had the same faults at about the same times, so that one shading serves all."""
    first = found[0]
    return all(
        one.label == other.label and max(abs(one.start_ns - other.start_ns), abs(one.end_ns - other.end_ns)) < SAME_NS
        for some in found
        for one, other in zip_longest(first, some, fillvalue=Window("", 0, 0))
    )


def _shade(axes: Axes, found: Sequence[Window], middle_s: float) -> None:
    """Shade each fault from its start to its end, or draw a line if it has no duration; name the first of each kind, towards the middle."""
    told: set[str] = set()
    for window in found:
        start, end = window.start_ns / 1e9, window.end_ns / 1e9
        if end > start:
            axes.axvspan(start, end, facecolor=FAULT, alpha=0.18, hatch="///", edgecolor="white", linewidth=0, zorder=0)
        else:
            axes.axvline(start, color=FAULT, linewidth=1.2, zorder=0)
        if window.label not in told and len(told) < 4:
            side, away = ("left", 3) if start <= middle_s else ("right", -3)
            axes.annotate(
                window.label, (start, 0.0), (away, 3 + 11 * len(told)), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=8, color=INK, ha=side,
            )  # fmt: skip
            told.add(window.label)


def load_figure(groups: Sequence[Group]) -> Figure:
    """Datagrams sent and received: a dot for each host, medians over repeats, and the busiest host with its confidence interval."""
    figure, axes = sized(max(4.5, 1.6 + room(len(groups)) * len(groups)))
    styles = looks(_protocols(groups))
    every: list[float] = []
    for place, group in enumerate(groups):
        look, hosts = styles[group.name], sorted(_loads(group).values())
        every += hosts
        # Hosts of about the same load are drawn side by side, always in the same order.
        spread = 0.28 * np.sin(2.4 * np.arange(len(hosts)))
        axes.scatter(place + spread, hosts, s=11, color=look.colour, alpha=0.55, linewidths=0, zorder=3)
        axes.hlines(median(hosts), place - 0.32, place + 0.32, color=INK, linewidth=1.4, zorder=4)
        busiest = estimate([float(run.summary.load_max) for run in group.runs])
        axes.errorbar(
            [place], [busiest.median], _reach([busiest]), color=INK, marker="D", markersize=6, mfc="white", capsize=4, zorder=5
        )
        top = max(busiest.median, busiest.high or 0.0)
        axes.annotate(f"{busiest.median:,.0f}", (place, top), (0, 8), textcoords="offset points", ha="center", fontsize=9)
        every += [busiest.median, top]
    _upwards(axes, every)
    name_bars(axes, [group.name for group in groups])
    axes.set_xlim(-0.6, len(groups) - 0.25)
    axes.set_ylabel("datagrams sent and received")
    axes.set_title("Load of each host", fontsize=11, loc="left")
    handles = [
        Line2D([], [], ls="", marker="o", ms=4, color="#777777", label="a host"),
        Line2D([], [], color=INK, lw=1.4, label="median host"),
        Line2D([], [], ls="", marker="D", ms=6, color=INK, mfc="white", label="busiest host"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _loads(group: Group) -> dict[str, float]:
    """The load of each host: the median over repeats."""
    counters = [run.input.counters for run in group.runs]
    hosts = group.runs[0].network.hosts
    return {
        host: median(found.get(host, {}).get("sent", 0) + found.get(host, {}).get("received", 0) for found in counters)
        for host in hosts
    }


def _reach(estimates: Sequence[Estimate]) -> list[list[float]] | None:
    """How far the intervals reach below and above the medians; None without intervals."""
    if any(found.low is None or found.high is None for found in estimates):
        return None
    return [
        [found.median - (found.low or 0.0) for found in estimates],
        [(found.high or 0.0) - found.median for found in estimates],
    ]


def _upwards(axes: Axes, values: Sequence[float]) -> None:
    """Start the vertical axis at zero, or make it logarithmic if values differ too much."""
    if values and min(values) > 0 and max(values) > SPREAD * min(values):
        axes.set_yscale("log")
        axes.set_ylim(0.7 * min(values), 2 * max(values))
    else:
        axes.set_ylim(0, 1.12 * max(values, default=1) or 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:,.4g}")


def differ_in_size(groups: Sequence[Group]) -> bool:
    """Whether some groups differ in the size of their network alone."""
    sizes: dict[str, set[tuple[int, int]]] = {}
    for group in groups:
        sizes.setdefault(group.line, set()).add(group.size)
    return any(len(some) > 1 for some in sizes.values())


def size_figure(groups: Sequence[Group]) -> Figure:
    """Cost against the number of hosts, or of clusters if all networks have as many hosts. Groups on one line differ in size alone."""
    hosts = {len(group.runs[0].network.hosts) for group in groups}
    by_hosts = len(hosts) > 1

    def size(group: Group) -> int:
        network = group.runs[0].network
        return len(network.hosts if by_hosts else network.clusters)

    figure, axes = sized(6.8)
    every: list[float] = []
    for name, look in looks({group.line: group.summaries[0].protocol for group in groups}).items():
        line = sorted((group for group in groups if group.line == name), key=size)
        found = [estimate([run.cost.expensive_packets_per_message or 0.0 for run in group.summaries]) for group in line]
        every += [estimated.median for estimated in found]
        for group, estimated in zip(line, found, strict=True):
            axes.errorbar([size(group)], [estimated.median], _reach([estimated]), color=look.colour, capsize=4, linewidth=1.2)
        xs, ys = [size(group) for group in line], [estimated.median for estimated in found]
        axes.plot(xs, ys, color=look.colour, linestyle=look.style, marker=look.marker, markersize=6, linewidth=1.6, label=name)
    bounds = _bounds(groups, size)
    to_all = all(group.summaries[0].cost.lower_bound == group.runs[0].network.lower_bound for group in groups)
    least = f"least possible with\none packet a message{': k - 1' if to_all else ''}"
    axes.plot(list(bounds), list(bounds.values()), color=INK, linestyle=(0, (1, 1)), linewidth=1.2, label=least)
    _upwards(axes, [*every, *bounds.values()])
    axes.set_xticks(sorted(bounds))
    what = "hosts" if by_hosts else "clusters"
    axes.set_xlabel(what)
    axes.set_ylabel("packets per message")
    axes.set_title(f"Packets that crossed an expensive link, by the number of {what}", fontsize=11, loc="left")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _bounds(groups: Sequence[Group], size: Callable[[Group], int]) -> Mapping[int, float]:
    """The least possible cost at each size; the lowest one if several networks have the same size."""
    found: dict[int, float] = {}
    for group in sorted(groups, key=size):
        bound = float(group.summaries[0].cost.lower_bound)
        found[size(group)] = min(bound, found.get(size(group), bound))
    return found
