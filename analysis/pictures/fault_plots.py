"""How delays change around faults: a dot for every delivery at the time of its broadcast, and below the dots the faults over time."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from analysis.judging.fault_windows import Window, windows
from analysis.judging.history import History
from analysis.pictures.plots import DELIVERY, FAULT, INK, LEAST_MS, called, decades, plain, told_delay
from runfiles.reading import RunInput

MISSING: Final = "#D55E00"
# More kinds of faults than this would leave no room for the delays.
MOST_LANES: Final = 10
# With more dots than this, the SVG holds a bitmap instead of shapes.
MOST_SHAPES: Final = 5000


def delays_over_time_figure(run: RunInput, history: History) -> Figure:
    """The delay of each delivery at a host other than the origin, with the faults of the run."""
    start_ns = history.broadcasts[0].at_ns if history.broadcasts else run.run.started_ns
    lanes = _lanes(windows(run.faults, history.ended_ns))
    figure = Figure(figsize=(8.0, 4.2 + 0.24 * len(lanes)), layout="constrained")
    delays, faults = figure.subplots(2, 1, sharex=True, height_ratios=[3.6, 0.24 * len(lanes) + 0.1])
    _draw_delays(delays, history, start_ns)
    _draw_faults(faults, delays, lanes, start_ns)
    faults.set_xlabel("seconds since the first broadcast")
    title = f"Delay of each delivery, and the faults: {called(run)}"
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def _lanes(found: Sequence[Window]) -> dict[str, list[Window]]:
    """The windows by label, in the order of time. If there are too many labels, the last lane holds the rest."""
    lanes: dict[str, list[Window]] = {}
    for window in found:
        lanes.setdefault(window.label, []).append(window)
    if len(lanes) <= MOST_LANES:
        return lanes
    labels = list(lanes)
    rest = [window for label in labels[MOST_LANES - 1 :] for window in lanes[label]]
    return {label: lanes[label] for label in labels[: MOST_LANES - 1]} | {f"{len(labels) - MOST_LANES + 1} more": rest}


def _draw_delays(axes: Axes, history: History, start_ns: int) -> None:
    broadcast_at, delivered = history.broadcast_at, _first_deliveries(history)
    pairs = [(broadcast_at[message], at_ns) for (message, _), at_ns in delivered.items() if message in broadcast_at]
    seconds = np.array([(sent_ns - start_ns) / 1e9 for sent_ns, _ in pairs])
    delays = np.array([(at_ns - sent_ns) / 1e6 for sent_ns, at_ns in pairs])
    delays = np.maximum(delays, LEAST_MS)
    axes.scatter(seconds, delays, s=7, color=DELIVERY, alpha=0.5, linewidths=0, rasterized=len(pairs) > MOST_SHAPES, zorder=3)
    handles = [Line2D([], [], ls="", marker="o", ms=4, color=DELIVERY, label="a delivery")]
    if missing := _missing(history, delivered):
        xs = [(broadcast_at[message] - start_ns) / 1e9 for message in missing]
        axes.scatter(
            xs, [1.0] * len(xs), s=22, marker="x", color=MISSING, transform=axes.get_xaxis_transform(), clip_on=False, zorder=4
        )
        handles.append(Line2D([], [], ls="", marker="x", ms=5, color=MISSING, label="not delivered everywhere by the end"))
    axes.set_yscale("log")
    axes.set_ylim(*decades(delays.tolist()))
    axes.yaxis.set_major_formatter(told_delay)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("milliseconds since the broadcast\n(logarithmic)")
    plain(axes)
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False, fontsize=9)


def _first_deliveries(history: History) -> Mapping[tuple[tuple[str, int], str], int]:
    """The time of the first delivery of each message at each host other than its origin."""
    first: dict[tuple[tuple[str, int], str], int] = {}
    for delivery in history.deliveries:
        if delivery.host != delivery.origin:
            first.setdefault((delivery.message, delivery.host), delivery.at_ns)
    return first


def _missing(history: History, delivered: Mapping[tuple[tuple[str, int], str], int]) -> list[tuple[str, int]]:
    """The messages that at least one host did not deliver."""
    times: dict[tuple[str, int], int] = dict.fromkeys(history.broadcast_at, 0)
    for message, _ in delivered:
        times[message] = times.get(message, 0) + 1
    return [message for message in history.broadcast_at if times[message] < len(history.hosts) - 1]


def _draw_faults(axes: Axes, above: Axes, lanes: Mapping[str, Sequence[Window]], start_ns: int) -> None:
    """Draw a lane for each label, and bands of the same times behind the delays. A fault without duration is a diamond and a line."""
    for number, found in enumerate(lanes.values()):
        for window in found:
            start, end = (window.start_ns - start_ns) / 1e9, (window.end_ns - start_ns) / 1e9
            if end > start:
                axes.barh(number, end - start, left=start, height=0.62, color=FAULT, edgecolor=INK, linewidth=0.6)
                above.axvspan(start, end, color=FAULT, alpha=0.15, linewidth=0, zorder=0)
            else:
                axes.plot([start], [number], marker="d", color=FAULT, markeredgecolor=INK, markeredgewidth=0.6, linestyle="")
                above.axvline(start, color=FAULT, linewidth=1.0, zorder=0)
    axes.set_yticks(range(len(lanes)), labels=list(lanes), fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
