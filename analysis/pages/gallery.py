"""The plots of a report with their captions: those that an analysis leaves anyway, or all that compare groups of runs."""

from collections.abc import Callable, Iterator, Sequence
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
from analysis.pictures.space_time import check_message, space_time_figure
from runfiles.errors import ResultsError
from topologies import drawing

# Pictures of more networks than this say little side by side.
MOST_NETWORKS: Final = 4
_OF_A_RUN: Final = {
    "links": "Packets per message on each link between switches, both directions together; the wider and darker, the more.",
    "delays-over-time": "Each delivery is a dot over the time of its broadcast; bands show when which fault was there. Look for what "
    "happens inside a band, and how long after its end the delays are as before.",
    "tree": "Who was whose child at the end: an arrow leads from each host to its parent.",
}


def networks(runs: Sequence[MeasuredRun], directory: Path) -> list[Picture]:
    """The networks of runs, drawn."""
    found = list({run.network.name: run.network for run in runs}.values())[:MOST_NETWORKS]
    stems = [directory / ("network" if len(found) == 1 else f"network-{number}") for number in range(1, len(found) + 1)]
    caption = "Squares are hosts, circles switches; hosts on the same patch reach each other over cheap links. Dashed links are expensive."
    _save(((stem.name, drawing.figure(network, title="")) for stem, network in zip(stems, found, strict=True)), directory)
    return [Picture(stem, network.name, caption, low=True) for stem, network in zip(stems, found, strict=True)]


def of_analysis(groups: Sequence[Group], directory: Path) -> list[Picture]:
    """What an analysis has drawn: the comparison, and beside it the plots of the first run of each group."""
    several = max(len(group.runs) for group in groups) > 1
    stems = (
        (directory / "cost", "Cost per message", cost_caption(several)),
        (directory / "delays", "Delays", delay_caption(several)),
    )
    found = [Picture(stem, title, caption) for stem, title, caption in stems]
    if (directory / "sweep.png").exists():
        found.append(Picture(directory / "sweep", "Sweep", "What the runs of this scenario differ in, and what comes of it."))
    for group in groups[: group_plots.MOST_PANELS]:
        for start, caption in _OF_A_RUN.items():
            seed = f", seed {group.runs[0].summary.seed}" if several else ""
            title = f"{start.replace('-', ' ').capitalize()}: {group.name}{seed}"
            drawn = sorted((group.runs[0].directory / "plots").glob(f"{start}*.png"))[:1]
            found += [Picture(png.with_suffix(""), title, caption, low=True) for png in drawn]
    return found


def cost_caption(several: bool) -> str:
    """What to see in the plot of the costs."""
    told = (
        "Host-to-host packets that crossed at least one expensive link, per message broadcast, by what they "
        "carried. A dashed line is the least possible: the nearer a bar comes, the less is wasted. It is that of messages one by one; "
        "some that share a packet can cost less."
    )
    repeats = " Bars are medians over repeats, split as in the run in the middle; whiskers are 95 % confidence intervals."
    return told + (repeats if several else "")


def delay_caption(several: bool) -> str:
    """What to see in the plot of the delays."""
    told = (
        "How long it took until a share of all deliveries was made. A curve that rises early is fast for most; one "
        "that bends to the right at the top leaves a few hosts waiting; one that ends below 100 % never delivered "
        "the rest."
    )
    return told + (" Lines are medians over repeats, bands go from the lowest to the highest repeat." if several else "")


def compare(
    groups: Sequence[Group], found: Comparison, directory: Path, message: MessageId | None, show: Callable[[str, str], None]
) -> list[Picture]:
    """Draw everything that compares groups; what the runs have nothing for is left out."""
    check_message(groups, message)
    pictures = []
    for name, picture, make in _pictures(groups, found, directory, message):
        show("drawing", name)
        _save([(name, make())], directory)
        pictures.append(picture)
    return pictures


def _pictures(
    groups: Sequence[Group], found: Comparison, directory: Path, message: MessageId | None
) -> Iterator[tuple[str, Picture, Callable[[], Figure]]]:
    several = max(len(group.runs) for group in groups) > 1
    by_name = {group.name: group.summaries for group in groups}
    left_out = len(groups) - group_plots.MOST_PANELS
    more = f" There is no room for {left_out} more groups." if left_out > 0 else ""

    def picture(name: str, title: str, caption: str, *, wide: bool = False) -> Picture:
        return Picture(directory / name, title, caption, wide or len(groups) > 5)

    cost = cost_caption(several)
    if len({group.size for group in groups}) == 1 < len(groups) and (best := found.best("expensive_packets_per_message")):
        cost += f" Lowest here: {' and '.join(group.name for group in best)}."
    yield "cost", picture("cost", "Cost per message", cost), lambda: plots.cost_figure(by_name)
    links = (
        "Packets per message on each link between switches, medians over repeats, all on one scale; the wider and "
        f"darker, the more. Dark links near the source carry the same message again and again.{more}"
    )
    yield "links", picture("links", "Cost per link", links, wide=True), lambda: group_plots.links_figure(groups)
    yield "delays", Picture(directory / "delays", "Delays", delay_caption(several)), lambda: plots.delay_figure(by_name)
    if any(summary.messages for summaries in by_name.values() for summary in summaries):
        over_time = (
            "How much of all that was to be delivered had been, by when; the thin line is what had been broadcast. A "
            "curve below that line is behind; shaded times have faults in them."
        ) + (" Bands go from the lowest to the highest repeat." if several else "")
        yield (
            "over-time",
            Picture(directory / "over-time", "Delivered over time", over_time),
            lambda: group_plots.over_time_figure(groups),
        )
    load = (
        "Each host a dot: datagrams that it sent and received. Dots close together share the load; a diamond far "
        "above the line is a host that does the work of the others."
    )
    yield "load", picture("load", "Load", load), lambda: group_plots.load_figure(groups)
    if group_plots.differ_in_size(groups):
        size = (
            "Cost per message where the network grows and nothing else changes. A line as steep as the dotted one "
            "costs each new cluster one packet; a steeper one does not scale."
        )
        yield "size", Picture(directory / "size", "Cost against size", size), lambda: group_plots.size_figure(groups)
    if any(summaries[0].delivered_share for summaries in by_name.values()):
        space = (
            "One message in the first run of each group: hosts from top to bottom, clusters a little apart; packets "
            "about it go from host to host, dots are deliveries. Packets that several messages share are drawn for the "
            f"first of them.{more}"
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
