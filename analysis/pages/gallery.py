"""The plots of a report with their captions: those that every analysis draws, or all that compare groups of runs."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from analysis.figures.comparison import Comparison
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group
from analysis.judging.history import MessageId
from analysis.pages.report import Picture
from analysis.pictures import plots
from analysis.pictures import repeat_plots as group_plots
from analysis.pictures.curves import curve_figure, curve_name, curves
from analysis.pictures.space_time import check_message, space_time_figure
from runfiles.errors import ResultsError
from topologies import drawing

# More pictures of networks than this do not help the reader.
MOST_NETWORKS: Final = 4
_OF_A_RUN: Final = {
    "links": "Packets per message on each link between switches, both directions added. Wider and darker lines carry more packets.",
    "delays-over-time": "Each dot is one delivery: its delay, at the time of its broadcast. Shaded bands show when a fault was active. "
    "Look at the delays inside a band, and at how long they stay high after its end.",
    "tree": "The tree at the end of the run: each arrow points from a host to its parent.",
    "forest": "The propagation graph at the end of the run: messages travel down. Beside a primary destination are the groups "
    "whose messages sources send to it.",
}


def networks(runs: Sequence[MeasuredRun], directory: Path) -> list[Picture]:
    """Draw the networks of runs."""
    found = list({run.network.name: run.network for run in runs}.values())[:MOST_NETWORKS]
    stems = [directory / ("network" if len(found) == 1 else f"network-{number}") for number in range(1, len(found) + 1)]
    caption = (
        "Squares are hosts, circles are switches. Hosts on the same coloured area reach each other over cheap links; dashed links are "
        "expensive."
    )
    _save(((stem.name, drawing.figure(network, title="")) for stem, network in zip(stems, found, strict=True)), directory)
    return [Picture(stem, network.name, caption, low=True) for stem, network in zip(stems, found, strict=True)]


def of_analysis(groups: Sequence[Group], directory: Path) -> list[Picture]:
    """The plots that the analysis has drawn: the comparison, and those of the first run of each group."""
    several = max(len(group.runs) for group in groups) > 1
    stems = (
        (directory / "cost", "Cost per message", cost_caption(several)),
        (directory / "delays", "Delays", delay_caption(several)),
    )
    wide = len(groups) > plots.MOST_INSIDE
    found = [Picture(stem, title, caption, wide) for stem, title, caption in stems]
    found += [
        Picture(
            drawn.with_suffix(""),
            "Sweep",
            "The runs of this scenario: the horizontal axis shows in what they differ, the vertical axis the result.",
        )
        for drawn in sorted(directory.glob("sweep*.png"))
    ]
    for group in groups[: group_plots.MOST_PANELS]:
        for start, caption in _OF_A_RUN.items():
            seed = f", seed {group.runs[0].summary.seed}" if several else ""
            title = f"{start.replace('-', ' ').capitalize()}: {group.name}{seed}"
            drawn = sorted((group.runs[0].directory / "plots").glob(f"{start}*.png"))[:1]
            found += [Picture(png.with_suffix(""), title, caption, low=True) for png in drawn]
    return found


def cost_caption(several: bool) -> str:
    """The caption of the plot of costs; `several` means that groups have repeats."""
    caption = (
        "Packets between hosts that crossed at least one expensive link, per message broadcast, by purpose. The dashed line is the "
        "least possible number, k - 1, if every message has packets of its own; messages that share packets can cost less. Packets "
        "that were lost before their first expensive link are not counted, nor is what is not of the run, such as ICMP. "
        "Of a guest, all packets count that arrive with the cost bit, for whatever purpose."
    )
    repeats = " Bars are medians over repeats, split by purpose as in the median run; whiskers are 95 % confidence intervals."
    return caption + (repeats if several else "")


def delay_caption(several: bool) -> str:
    """The caption of the plot of delays; `several` means that groups have repeats."""
    caption = (
        "The share of all deliveries that were made within a given time after the broadcast. Where a curve rises early, most "
        "deliveries are fast; where it bends to the right near the top, a few take much longer; where it ends below 100 %, the "
        "remaining deliveries were never made."
    )
    return caption + (" Lines are medians over repeats; bands reach from the lowest to the highest repeat." if several else "")


def compare(
    groups: Sequence[Group], found: Comparison, directory: Path, message: MessageId | None, show: Callable[[str, str], None]
) -> list[Picture]:
    """Draw every plot that compares groups, except those for which the runs have no data."""
    check_message(groups, message)
    pictures = []
    for name, picture, make in comparison_figures(groups, found, directory, message):
        show("drawing", name)
        _save([(name, make())], directory)
        pictures.append(picture)
    return pictures


def comparison_figures(
    groups: Sequence[Group], found: Comparison, directory: Path, message: MessageId | None
) -> Iterator[tuple[str, Picture, Callable[[], Figure]]]:
    """Every plot that compares groups: its name, its caption for a page, and the function that draws it."""
    several = max(len(group.runs) for group in groups) > 1
    by_name = {group.name: group.summaries for group in groups}
    left_out = len(groups) - group_plots.MOST_PANELS
    more = f" {left_out} more groups are not drawn." if left_out > 0 else ""

    def picture(name: str, title: str, caption: str, *, wide: bool = False) -> Picture:
        return Picture(directory / name, title, caption, wide or len(groups) > 5)

    for curve in curves(groups, found):
        name = curve_name(curve)
        caption = f"How the figures change with {curve.key}, with a line for each protocol. Points are medians over repeats"
        whiskers = "; whiskers are 95 % confidence intervals." if several else "."
        yield name, Picture(directory / name, f"Against {curve.key}", caption + whiskers, True), partial(curve_figure, curve)
    yield "cost", picture("cost", "Cost per message", cost_caption(several)), lambda: plots.cost_figure(by_name)
    links = (
        f"Packets per message on each link between switches{', medians over repeats' if several else ''}. Wider and darker lines carry "
        f"more packets; the scale is the same for all groups.{more}"
    )
    yield "links", picture("links", "Cost per link", links, wide=True), lambda: group_plots.links_figure(groups)
    yield (
        "delays",
        Picture(directory / "delays", "Delays", delay_caption(several), len(groups) > plots.MOST_INSIDE),
        lambda: plots.delay_figure(by_name),
    )
    if any(summary.messages for summaries in by_name.values() for summary in summaries):
        over_time = (
            "Deliveries made so far, as a share of all deliveries due. The thin line is the share of messages broadcast so far: the "
            "further a curve lies below it, the later the deliveries. Faults were active in the shaded times."
        ) + (" Bands reach from the lowest to the highest repeat." if several else "")
        yield (
            "over-time",
            Picture(directory / "over-time", "Delivered over time", over_time, wide=True),
            lambda: group_plots.over_time_figure(groups),
        )
    load = (
        "Each dot is one host: the datagrams that it sent and received. The line is the median host, the diamond the busiest one. The "
        "closer the dots, the more evenly the hosts share the load."
    )
    yield "load", picture("load", "Load", load), lambda: group_plots.load_figure(groups)
    if group_plots.differ_in_size(groups):
        size = (
            "Cost per message as the network grows and nothing else changes. The dotted line is the least possible, k - 1 for k clusters; "
            "the distance to it is what the protocol spends beyond that."
        )
        yield "size", Picture(directory / "size", "Cost against size", size), lambda: group_plots.size_figure(groups)
    if any(summaries[0].delivered_share for summaries in by_name.values()):
        space = (
            "One message in the first run of each group. Hosts are listed from top to bottom, with a gap between clusters. Lines are "
            "packets from host to host, dots are deliveries. A packet that carries several messages is drawn for the first of them "
            f"only.{more}"
        )
        yield (
            "space-time",
            picture("space-time", "One message in space and time", space, wide=True),
            lambda: space_time_figure(groups, message),
        )


def _save(figures: "Sequence[tuple[str, Figure]] | Iterator[tuple[str, Figure]]", directory: Path) -> None:
    try:
        plots.save(figures, directory)
    except OSError as error:
        raise ResultsError(f"plots cannot be written to {directory}: {error.strerror}") from error
