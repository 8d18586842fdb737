"""The figures of a report, drawn from summaries: PNG to look at, SVG to print. Colours are of the Okabe-Ito palette."""

from collections.abc import Iterable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.claims import Sweep
from analysis.summary import Summary, described
from topologies import drawing
from topologies.network import Network

INK = "#222222"
PURPOSES = {"data": ("#0072B2", ""), "repair": ("#E69F00", "//"), "control": ("#999999", "..")}
"""Colour and hatch of each purpose, so that the parts are told apart in print without colour too."""
LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#E69F00", "-"),
    ("#56B4E9", "--"),
    (INK, ":"),
)


def cost_figure(summaries: Sequence[Summary]) -> Figure:
    """Cost per label, stacked by purpose, with the lower bound where it is the same for all; the mean over runs of the same label."""
    runs = _by_label(summaries)
    figure, axes = _figure(max(4.5, 1.6 + 1.2 * len(runs)))
    bottom = np.zeros(len(runs))
    for purpose, (colour, hatch) in PURPOSES.items():
        heights = np.array([_mean_cost(same, purpose) for same in runs.values()])
        axes.bar(list(runs), heights, 0.55, bottom, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8, label=purpose)
        bottom += heights
    for place, total in enumerate(bottom):
        axes.annotate(f"{total:.4g}", (place, total), (0, 3), textcoords="offset points", ha="center", color=INK)
    bounds = {summary.cost.lower_bound for summary in summaries}
    for bound in bounds if len(bounds) == 1 else ():
        axes.axhline(bound, color=INK, linestyle="--", linewidth=1.2, label=f"least possible:\nk - 1 = {bound}")
    axes.set_xlim(-0.6, len(runs) - 0.4)
    axes.set_ylim(0, 1.12 * max(bottom.max(), *bounds, 1))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("packets per message")
    _title(axes, "Packets that crossed an expensive link", summaries)
    # From top to bottom as in the stack.
    figure.legend(*(part[::-1] for part in axes.get_legend_handles_labels()), loc="outside right center", frameon=False)
    return figure


def delay_figure(summaries: Sequence[Summary]) -> Figure:
    """The share of deliveries made within a time, one curve a run; it ends at the share that was delivered at all."""
    figure, axes = _figure(6.4)
    looks = dict(zip(_by_label(summaries), cycle(LINES), strict=False))
    labelled = set()
    for summary in summaries:
        quantiles = summary.delay_ms.quantiles
        share = np.linspace(0, 100 * (summary.delivered_share or 0), len(quantiles))
        colour, style = looks[summary.label]
        label = "_" + summary.label if summary.label in labelled else summary.label
        labelled.add(summary.label)
        axes.plot(quantiles, share, color=colour, linestyle=style, linewidth=1.8, label=label, drawstyle="steps-post")
    axes.set_ylim(0, 103)
    _scale(axes, [delay for summary in summaries for delay in summary.delay_ms.quantiles])
    axes.set_xlabel("milliseconds since the broadcast")
    axes.set_ylabel("delivered, % of messages times hosts")
    _title(axes, "Time to deliver a message at another host", summaries)
    axes.legend(loc="lower right", frameon=False)
    return figure


def link_figure(summary: Summary, network: Network) -> Figure:
    """What each link between switches carried, both directions together, on the network."""
    carried = {link.name: 0.0 for link in network.links if not (network.is_host(link.a) or network.is_host(link.b))}
    for cost in summary.link_costs:
        if cost.link in carried:
            carried[cost.link] += cost.packets / max(summary.messages, 1)
    title = f"Packets per message on each link: {summary.label}, {summary.scenario}"
    return drawing.figure(network, carried, "packets per message, both directions", title)


def sweep_figure(sweep: Sweep) -> Figure:
    """What several runs cost or achieve against what they differ in, one line a name."""
    figure, axes = _figure(6.4)
    for (name, points), (colour, style) in zip(sweep.lines.items(), cycle(LINES), strict=False):
        xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
        axes.plot(xs, ys, color=colour, linestyle=style, linewidth=1.8, marker="o", markersize=5, label=name)
        for x, y, word in points:
            axes.annotate(word, (x, y), (5, 5), textcoords="offset points", fontsize=9, color=colour)
    every = [point for points in sweep.lines.values() for point in points]
    _scale(axes, [x for x, _, _ in every])
    if min(y for _, y, _ in every) > 0 and max(y for _, y, _ in every) > 30 * min(y for _, y, _ in every):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.1, y=0.1)
    axes.set_xlabel(sweep.x)
    axes.set_ylabel(sweep.y)
    axes.set_title(sweep.title, fontsize=11, loc="left")
    if len(sweep.lines) > 1:
        axes.legend(loc="best", frameon=False)
    return figure


def save(figures: Iterable[tuple[str, Figure]], directory: Path) -> list[Path]:
    """Write figures by name as PNG and SVG."""
    directory.mkdir(parents=True, exist_ok=True)
    return [path for name, figure in figures for path in drawing.save(figure, directory / name)]


def _by_label(summaries: Iterable[Summary]) -> dict[str, list[Summary]]:
    runs: dict[str, list[Summary]] = {}
    for summary in summaries:
        runs.setdefault(summary.label, []).append(summary)
    return runs


def _mean_cost(summaries: Iterable[Summary], purpose: str) -> float:
    return fmean(getattr(summary.cost, f"expensive_{purpose}_packets_per_message") or 0.0 for summary in summaries)


def _figure(width: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _scale(axes: Axes, delays: Sequence[float]) -> None:
    """From zero, unless repairs take so much longer than first copies that only a logarithmic scale shows both."""
    if delays and min(delays) > 0 and max(delays) > 30 * min(delays):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.set_xlim(0, 1.05 * max(delays, default=1) or 1)


def _title(axes: Axes, what: str, summaries: Sequence[Summary]) -> None:
    axes.set_title(f"{what}\n{described(summaries)}", fontsize=11, loc="left")
