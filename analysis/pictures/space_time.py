"""Space-time diagrams of one message: each host is a horizontal line, each packet about the message a stroke from host to host.

A packet is drawn if its header names the message. A header of several messages names the first one, so a delivery may lack a stroke.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group
from analysis.judging.history import MessageId, TokenChange
from analysis.pictures.plots import DELIVERY, INK, wrapped
from analysis.pictures.repeat_plots import grid, panels
from runfiles.errors import ResultsError
from topologies.network import group_name

EXPENSIVE: Final = "#D55E00"
TOKEN: Final = "#CC79A7"  # noqa: S105 - a colour, no secret
# The same for text, dark enough to read.
GENERATION: Final = "#8A3A66"
CHEAP: Final = "#777777"
STYLES: Final[dict[str, Any]] = {"data": "-", "repair": (0, (5, 2)), "control": (0, (1, 1.6))}
_LOOKS: Final = {False: (CHEAP, 0.7), True: (EXPENSIVE, 0.9)}
# With more strokes than this, control packets are left out; if there are still more, strokes are thin lines without heads.
MOST_STROKES: Final = 300
# The width of a letter of a small label, as a part of a panel's width.
LABEL: Final = 0.014
# A panel ends at the last delivery that is shown, times this factor.
AFTER: Final = 1.2
# If the last delivery takes this many times longer than nine tenths of all deliveries, the panel ends with those nine tenths.
TOO_LATE: Final = 5


class Stroke(NamedTuple):
    """A packet: its sender and destination, when it was first and last seen on any link (in nanoseconds), and whether it arrived."""

    sender: str
    destination: str
    start: float
    end: float
    purpose: str
    expensive: bool
    arrived: bool

    def since(self, start_ns: int) -> "Stroke":
        """The same stroke with times in milliseconds since the broadcast."""
        return self._replace(start=(self.start - start_ns) / 1e6, end=(self.end - start_ns) / 1e6)


def parse_message(text: str) -> MessageId:
    """A message as users write it: `h1:5` is the fifth message of h1."""
    origin, colon, sequence = text.rpartition(":")
    if not colon or not origin or not sequence.isdigit():
        raise ResultsError(f"{text!r} is no message: write its origin and its number, such as h1:5")
    return origin, int(sequence)


def chosen_message(run: MeasuredRun, asked: MessageId | None) -> MessageId | None:
    """The message asked for, or one at two thirds of the stream; None if no host other than the origin delivered it."""
    deliveries = run.table("deliveries")
    times = deliveries.group_by(["origin", "sequence"]).aggregate([("broadcast_ns", "min")]).sort_by("broadcast_ns_min")
    known = list(zip(times["origin"].to_pylist(), times["sequence"].to_pylist(), strict=True))
    if asked is not None:
        return asked if asked in known else None
    return known[2 * len(known) // 3] if known else None


def check_message(groups: Sequence[Group], asked: MessageId | None) -> None:
    """Refuse a message that was delivered in none of the runs."""
    if asked is not None and not any(chosen_message(group.runs[0], asked) for group in panels(groups)):
        raise ResultsError(f"no run has a message {asked[0]}:{asked[1]} that was delivered: choose another one with --message")


def space_time_figure(groups: Sequence[Group], asked: MessageId | None = None) -> Figure:
    """A panel for each group: how one message spread in the first run of the group."""
    shown = panels(groups)
    messages = [chosen_message(group.runs[0], asked) for group in shown]
    rows, columns = grid(len(shown))
    hosts = max(len(group.runs[0].network.hosts) for group in shown)
    figure = Figure(figsize=(4.3 * columns + 0.4, rows * min(7.0, 1.5 + 0.11 * hosts) + 0.6), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False)
    for number, axes in enumerate(every.flat):
        if number < len(shown) and (message := messages[number]):
            _draw(axes, shown[number], message)
        else:
            axes.set_axis_off()
    figure.supxlabel("milliseconds since the broadcast; every panel has a scale of its own", fontsize=10)
    figure.legend(
        handles=list(
            _handles(
                has_token=any(group.runs[0].history.tokens for group in shown),
                has_commits=any(group.runs[0].history.commits for group in shown),
            )
        ),
        loc="outside upper center",
        ncols=6,
        frameon=False,
        fontsize=9,
    )
    return figure


def _draw(axes: Axes, group: Group, message: MessageId) -> None:
    run = group.runs[0]
    deliveries = _about(run.table("deliveries"), message)
    start_ns = deliveries["broadcast_ns"][0].as_py()
    times = [(at_ns - start_ns) / 1e6 for at_ns in deliveries["delivered_ns"].to_pylist()]
    end_ms = AFTER * _horizon(times)
    height = _heights(run)
    every = [stroke.since(start_ns) for stroke in strokes(run.table("packets"), message, run.input.members)]
    shown = [stroke for stroke in every if stroke.start <= end_ms]
    control = sum(stroke.purpose == "control" for stroke in shown)
    if crowded := len(shown) > MOST_STROKES:
        shown = [stroke for stroke in shown if stroke.purpose != "control"]
    axes.hlines(list(height.values()), 0, 1, transform=axes.get_yaxis_transform(), color="#DDDDDD", linewidth=0.6, zorder=0)
    draw_tokens(axes, run, start_ns, end_ms, height)
    draw_commits(axes, run, start_ns, end_ms, height)
    (_draw_strokes if len(shown) > MOST_STROKES else _draw_arrows)(axes, shown, height)
    lost = [stroke for stroke in shown if not stroke.arrived]
    axes.scatter(
        [s.end for s in lost], [height[s.destination] for s in lost], s=18, marker="x", color=INK, linewidths=1, zorder=4
    )
    axes.scatter(times, [height[host] for host in deliveries["host"].to_pylist()], s=12, color=DELIVERY, zorder=5, linewidths=0)
    axes.scatter([0], [height[message[0]]], s=45, marker="*", color=INK, zorder=6)
    late = sum(at_ms > end_ms for at_ms in times)
    told = {
        f"deliver{'ies' if late > 1 else 'y'} later, up to {max(times):.0f} ms": late,
        "control packets not drawn": control if crowded else 0,
        "packets sent later": len(every) - sum(s.start <= end_ms for s in every),
    }
    _label(axes, group, message, height, ", ".join(f"{number} {what}" for what, number in told.items() if number))
    axes.set_xlim(-0.03 * end_ms, end_ms or 1)


def draw_tokens(axes: Axes, run: MeasuredRun, start_ns: int, end_ms: float, height: dict[str, float]) -> None:
    """Draw, for a protocol with a token, who had it when, with its generation where that is new."""
    generations: set[int] = set()
    for host, generation, since_ms, until_ms in _turns(run.history.tokens, start_ns, end_ms):
        if until_ms < 0 or since_ms > end_ms:
            continue
        axes.hlines([height[host]], since_ms, until_ms, color=TOKEN, linewidth=3, zorder=1, clip_on=True)
        if generation not in generations:
            told = "generation " * (not generations) + str(generation)
            # Arrows may cross the label.
            behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
            place = max(since_ms, 0), height[host] - 0.25
            axes.annotate(told, place, fontsize=6.5, color=GENERATION, va="bottom", zorder=7, bbox=behind)
        generations.add(generation)


def _turns(changes: Iterable[TokenChange], start_ns: int, end_ms: float) -> list[tuple[str, int, float, float]]:
    """Host, generation, begin and end of each turn in milliseconds, in the order in which they began; the last one may have no end."""
    turns: list[tuple[str, int, float, float]] = []
    begun: dict[str, tuple[int, float]] = {}
    for change in changes:
        at_ms = (change.at_ns - start_ns) / 1e6
        if before := begun.pop(change.host, None):
            turns.append((change.host, *before, at_ms))
        if change.held:
            begun[change.host] = change.generation, at_ms
    turns += [(host, *before, end_ms) for host, before in begun.items()]
    return sorted(turns, key=itemgetter(2))


def draw_commits(axes: Axes, run: MeasuredRun, start_ns: int, end_ms: float, height: dict[str, float]) -> None:
    """Draw when hosts committed something; the last message is written below where the first host has committed it."""
    marks = [(mark, (mark.at_ns - start_ns) / 1e6) for mark in run.history.commits]
    there = [(mark, at_ms) for mark, at_ms in marks if 0 <= at_ms <= end_ms]
    axes.scatter([at for _, at in there], [height[mark.host] for mark, _ in there], s=20, marker="|", color=DELIVERY, zorder=3)
    first: dict[MessageId, float] = {}
    for mark, at_ms in there:
        first.setdefault(mark.message, at_ms)
    # Of messages that are committed at once, the last one is told; labels that would touch the one before are left out.
    free_ms = -1.0
    for at_ms, (origin, sequence) in {at_ms: message for message, at_ms in first.items()}.items():
        if at_ms >= free_ms:
            text = f"{origin}:{sequence}"
            place = at_ms, max(height.values()) + 0.9
            # Labels at the edge end there.
            axes.annotate(text, place, fontsize=6.5, color=DELIVERY, ha="right" if at_ms > 0.9 * end_ms else "center", zorder=7)
            free_ms = at_ms + LABEL * (len(text) + 1) * end_ms


def _horizon(times_ms: Sequence[float]) -> float:
    """The last delivery time to show: that of all deliveries, or of nine tenths of them if the last one is far later."""
    most = sorted(times_ms)[math.ceil(0.9 * len(times_ms)) - 1]
    return most if max(times_ms) > TOO_LATE * most > 0 else max(times_ms)


def _draw_arrows(axes: Axes, shown: Sequence[Stroke], height: dict[str, float]) -> None:
    for stroke in shown:
        colour, width = _LOOKS[stroke.expensive]
        start, end = (stroke.start, height[stroke.sender]), (stroke.end, height[stroke.destination])
        arrow = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=5,
            shrinkA=0,
            shrinkB=0,
            color=colour,
            linewidth=width,
            zorder=2,
            alpha=0.9,
        )
        arrow.set_linestyle(STYLES[stroke.purpose])
        axes.add_patch(arrow)


def _draw_strokes(axes: Axes, shown: Sequence[Stroke], height: dict[str, float]) -> None:
    """Draw very many strokes as thin transparent lines, which an SVG holds as a bitmap."""
    for expensive, (colour, _) in _LOOKS.items():
        lines = [[(s.start, height[s.sender]), (s.end, height[s.destination])] for s in shown if s.expensive == expensive]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.5, alpha=0.3, rasterized=True, zorder=2))


def _label(axes: Axes, group: Group, message: MessageId, height: dict[str, float], more: str) -> None:
    seed = f", seed {group.runs[0].summary.seed}" if len(group.runs) > 1 else ""
    # A panel has room for about 46 letters; longer lines would run into the next panel.
    title = wrapped(f"{group.name}: {message[0]}:{message[1]}{seed}", 46) + f"\n{wrapped(more, 46)}" * bool(more)
    axes.set_title(title, fontsize=10, loc="left")
    every = max(1, len(height) // 16)
    some = list(height)[::every]
    axes.set_yticks([height[host] for host in some], some, fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(height.values()) + 1, -1)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _heights(run: MeasuredRun) -> dict[str, float]:
    """The vertical position of each host, with a gap between clusters."""
    places: dict[str, float] = {}
    at = 0.0
    for cluster in run.network.clusters:
        for host in cluster:
            places[host] = at
            at += 1
        at += 0.5
    return places


def strokes(packets: pa.Table, message: MessageId, members: Mapping[int, Sequence[str]]) -> list[Stroke]:
    """Every host-to-host packet about a message, from its first to its last sighting; of a packet to a group, each copy for a member."""
    seen = _about(packets, message)
    seen = seen.filter(pc.and_(seen["packet"].is_valid(), seen["destination"].is_valid()))
    groups = {group_name(number): hosts for number, hosts in members.items()}
    to_group = pc.is_in(seen["destination"], value_set=pa.array(list(groups), pa.string()))
    found = [*_whole(seen.filter(pc.invert(to_group))), *_copies(seen.filter(to_group), groups)]
    return sorted(found, key=lambda stroke: stroke.start)


def _whole(seen: pa.Table) -> Iterator[Stroke]:
    """The packets from host to host."""
    seen = seen.append_column("arrived", pc.equal(seen["target"], seen["destination"]))
    found = seen.group_by(["sender", "packet", "destination", "purpose"]).aggregate(
        [("at_ns", "min"), ("at_ns", "max"), ("expensive", "any"), ("arrived", "any")]
    )
    columns = ("sender", "destination", "at_ns_min", "at_ns_max", "purpose", "expensive_any", "arrived_any")
    return (Stroke(*(row[name] for name in columns)) for row in found.to_pylist())


def _copies(seen: pa.Table, groups: Mapping[str, Sequence[str]]) -> Iterator[Stroke]:
    """The copies of packets to groups. A copy that arrived is marked if it crossed an expensive link; a lost one ends with its packet."""
    packets: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in seen.to_pylist():
        packets.setdefault((row["sender"], row["packet"]), []).append(row)
    for (sender, _), rows in packets.items():
        start, last = (choose(row["at_ns"] for row in rows) for choose in (min, max))
        into = {row["target"]: row for row in rows}
        for host in groups[rows[0]["destination"]]:
            if host != sender:
                copy = into.get(host)
                end, marked = (copy["at_ns"], copy["dscp"] != 0) if copy else (last, False)
                yield Stroke(sender, host, start, end, rows[0]["purpose"], marked, copy is not None)


def _about(table: pa.Table, message: MessageId) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["origin"], message[0]), pc.equal(table["sequence"], message[1])))


def _handles(*, has_token: bool, has_commits: bool) -> Iterator[Line2D]:
    yield Line2D([], [], ls="", marker="*", ms=8, color=INK, label="broadcast")
    yield Line2D([], [], ls="", marker="o", ms=4, color=DELIVERY, label="delivery")
    if has_token:
        yield Line2D([], [], color=TOKEN, lw=3, label="has the token of this generation")
    if has_commits:
        yield Line2D([], [], ls="", marker="|", ms=6, color=DELIVERY, label="commits up to the message below")
    yield Line2D([], [], color=EXPENSIVE, lw=1.2, label="crossed an expensive link")
    yield Line2D([], [], color=CHEAP, lw=0.8, label="cheap links only")
    for purpose, style in STYLES.items():
        yield Line2D([], [], color=INK, lw=1, ls=style, label=purpose)
    yield Line2D([], [], ls="", marker="x", ms=5, color=INK, label="lost")
