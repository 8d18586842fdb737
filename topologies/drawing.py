"""Pictures of networks: hosts are squares and switches are circles, as in the first paper; clusters have a coloured background.

Figures are made without pyplot, whose global state leaks figures in long-running programs. The colours are those of the Okabe-Ito palette
and of matplotlib's cividis, which are safe for colour-blind readers; line style and width carry the same information as colour.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Polygon

from topologies.layout import Place, extent, positions
from topologies.network import Link, Network, NetworkError, components

EXPENSIVE = "#D55E00"
CHEAP = "#8A8A8A"
HOST = "#0072B2"
SWITCH = "#FFFFFF"
INK = "#222222"
PALE = "#A6A6A6"
TREE = "#009E73"
LEADER = "#F0E442"
# Tints of the Okabe-Ito colours, without the one that marks expensive links.
PATCHES = ("#DCEBF5", "#DDF1E9", "#FBF3D0", "#F5E3EE", "#E4E4EC", "#E2F3FB")
# Names of more nodes than this are unreadable at any size.
MOST_LABELS = 120
VALUES = "cividis_r"
# The curvatures that an arrow may have, in the order in which they are tried.
BENDS = (0.18, -0.18, 0.3, -0.3, 0.06, -0.06)
# The least angle, in radians, between two arrows at a node at which both end or start.
APART = 0.3
# Width in points of the lines of expensive links: in a picture of the network alone, and in one that shows values or a tree.
EXPENSIVE_WIDTH, EXPENSIVE_UNDER_OTHERS = 2.2, 1.0
# Width in points of the lines with the least and the most value.
NARROWEST, WIDEST = 1.5, 6.0


def draw(
    network: Network,
    axes: Axes,
    link_values: Mapping[str, float] | None = None,
    value_label: str = "value",
    legend: bool = True,
    scale: Normalize | None = None,
) -> None:
    """Draw a network. Links named in `link_values` are coloured, widened and labelled by their values.

    Networks that are drawn side by side share a `scale`; the caller then draws the colour bar.
    """
    values = _checked(network, link_values or {})
    places = positions(network)
    size = _node_size(network, axes)
    axes.set_axis_off()
    axes.set_aspect("equal")
    _draw_clusters(network, axes, places, size, network.links)
    plain = [link for link in network.links if link not in values]
    _draw_links(plain, axes, places, EXPENSIVE_UNDER_OTHERS if values else EXPENSIVE_WIDTH)
    if values:
        own = scale or Normalize(min(0.0, *values.values()), max(values.values()) or 1.0)
        _draw_values(network, axes, places, values, own)
        if scale is None:
            axes.figure.colorbar(ScalarMappable(own, VALUES), ax=axes, label=value_label, shrink=0.6)
    _draw_nodes(axes, places, network.hosts, HOST_LOOK, size)
    _draw_nodes(axes, places, network.switches, SWITCH_LOOK, size)
    _set_limits(axes, places.values())
    if legend:
        _draw_legend(network, axes, values)


@dataclass(frozen=True)
class DrawnTree:
    """A tree of hosts on a network: the parent of each host, the leaders of clusters, and the links and hosts that are down."""

    source: str
    parents: Mapping[str, str]
    leaders: Collection[str]
    down: Collection[str] = field(default=())
    """Links, by name."""
    away: Collection[str] = field(default=())
    """Hosts that do not run."""
    leader: str = "leader of a cluster"
    """The word for leaders in the legend."""


def draw_tree(network: Network, axes: Axes, tree: DrawnTree) -> None:
    """Draw a network with thinner links, and an arrow from each host to its parent."""
    places = positions(network)
    size = _node_size(network, axes)
    axes.set_axis_off()
    axes.set_aspect("equal")
    up = [link for link in network.links if link.name not in tree.down]
    gone = [link for link in network.links if link.name in tree.down]
    _draw_clusters(network, axes, places, size, up)
    _draw_links(up, axes, places, EXPENSIVE_UNDER_OTHERS)
    axes.add_collection(LineCollection(_segments(gone, places), colors=PALE, linewidths=1.4, linestyles=":", zorder=1))
    for look, hosts in _roles(network, tree).items():
        _draw_nodes(axes, places, hosts, look, size)
    _draw_nodes(axes, places, network.switches, SWITCH_LOOK, 0.75 * size)
    # With too many nodes for names there is no room for arrows between nodes either, so nodes are no obstacles then.
    obstacles = places.items() if len(places) <= MOST_LABELS else ()
    arrows: list[_Arc] = []
    for child, parent in tree.parents.items():
        if child not in tree.away:
            others = [place for node, place in obstacles if node not in {child, parent}]
            arrows.append(_clear_arc(places[child], places[parent], others, arrows))
            _draw_arrow(axes, arrows[-1], heavy=child in tree.leaders, size=size)
    # An arrow may bend out of the area of the nodes.
    _set_limits(axes, [*places.values(), *(arc.at(step / 4) for arc in arrows for step in (1, 2, 3))])


def tree_figure(network: Network, tree: DrawnTree, title: str) -> Figure:
    """Make a figure of a tree on a network; its size depends on the network."""
    made = _sized_figure(network)
    made.suptitle(title)
    draw_tree(network, made.add_subplot(), tree)
    made.legend(handles=_tree_handles(network, tree), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return made


def figure(
    network: Network, link_values: Mapping[str, float] | None = None, value_label: str = "value", title: str | None = None
) -> Figure:
    """Make a figure of a network; its size depends on the number of nodes."""
    made = _sized_figure(network, beside=bool(link_values))
    axes = made.add_subplot()
    axes.set_title(network.name if title is None else title)
    draw(network, axes, link_values, value_label)
    return made


def _sized_figure(network: Network, *, beside: bool = False) -> Figure:
    width, height = extent(positions(network).values())
    side = min(16.0, max(5.0, 1.1 * math.sqrt(len(network.hosts) + len(network.switches))))
    stretch = math.sqrt(width / height)
    # One more inch of height for the title and the legend, and one of width for the colour bar of the values.
    return Figure(
        figsize=(max(6.5, side * stretch) + beside, side / stretch + 1), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    )


def save(made: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write a figure as STEM.png and STEM.svg; the same figure always gives the same bytes."""
    png, svg = Path(f"{stem}.png"), Path(f"{stem}.svg")
    with rc_context({"svg.hashsalt": "castbed"}):
        made.savefig(png, dpi=150)
        # The layout is computed once, since it takes as long as drawing.
        made.set_layout_engine("none")
        made.savefig(svg, metadata={"Date": None})
    return png, svg


def _checked(network: Network, link_values: Mapping[str, float]) -> dict[Link, float]:
    named = {link.name: link for link in network.links}
    for name, value in link_values.items():
        if name not in named:
            raise NetworkError(f"there is a value for link {name!r}, which is not a link of network {network.name!r}")
        if not math.isfinite(value):
            raise NetworkError(f"the value of link {name} must be a number, not {value}")
    return {named[name]: value for name, value in link_values.items()}


def _node_size(network: Network, axes: Axes) -> float:
    """The width of a node in points, chosen so that all nodes together cover a small part of the picture."""
    box = axes.get_window_extent()
    area = box.width * box.height * (72 / axes.figure.dpi) ** 2
    return min(17.0, max(2.0, 0.22 * math.sqrt(area / (len(network.hosts) + len(network.switches)))))


def _set_limits(axes: Axes, places: Collection[Place]) -> None:
    """Leave the same margin on every side, wide enough for the outlines of clusters."""
    xs, ys = zip(*places, strict=True)
    margin = 0.08 * max(extent(places))
    axes.set_xlim(min(xs) - margin, max(xs) + margin)
    axes.set_ylim(min(ys) - margin, max(ys) + margin)


def _draw_clusters(network: Network, axes: Axes, places: Mapping[str, Place], size: float, links: Collection[Link]) -> None:
    """Draw a background for each cluster over these links: the hull of its hosts and switches, widened by a round outline."""
    cheap = {link.name for link in links if not link.expensive}
    group_of = components(network, lambda link: link.name in cheap)
    members: dict[int, list[Place]] = {}
    for node, group in group_of.items():
        members.setdefault(group, []).append(places[node])
    clusters = dict.fromkeys(group_of[host] for host in network.hosts)
    for number, group in enumerate(clusters):
        colour = PATCHES[number % len(PATCHES)]
        outline = _hull(members[group])
        closed = len(outline) > 2
        style = {"linewidth": 2.6 * size, "joinstyle": "round", "capstyle": "round", "zorder": 0, "clip_on": False}
        axes.add_patch(Polygon(outline, closed=closed, facecolor=colour, edgecolor=colour, gid="cluster", **style))


def _hull(points: Iterable[Place]) -> list[Place]:
    """The convex hull, by Andrew's monotone chain."""
    ordered = sorted(set(points))
    return [*_half_hull(ordered), *_half_hull(ordered[::-1])]


def _half_hull(ordered: Sequence[Place]) -> list[Place]:
    chain: list[Place] = []
    for x, y in ordered:
        while len(chain) > 1 and (chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) <= (chain[-1][1] - chain[-2][1]) * (
            x - chain[-2][0]
        ):
            chain.pop()
        chain.append((x, y))
    return chain[:-1] or chain


def _draw_links(links: Iterable[Link], axes: Axes, places: Mapping[str, Place], heavy: float) -> None:
    """Draw links without a value: cheap links thin and grey, expensive links dashed, with width `heavy`."""
    links = list(links)
    cheap = [link for link in links if not link.expensive]
    expensive = [link for link in links if link.expensive]
    axes.add_collection(LineCollection(_segments(cheap, places), colors=CHEAP, linewidths=0.9, zorder=1))
    axes.add_collection(
        LineCollection(_segments(expensive, places), colors=EXPENSIVE, linewidths=heavy, linestyles="--", zorder=2)
    )


def _draw_values(
    network: Network, axes: Axes, places: Mapping[str, Place], values: Mapping[Link, float], scale: Normalize
) -> None:
    """Draw the links with a value. Linear scales start at zero, so that twice the value looks like twice as much."""
    links = [link for link in network.links if link in values]
    widths = [NARROWEST + (WIDEST - NARROWEST) * float(scale(values[link])) for link in links]
    colours = [colormaps[VALUES](float(scale(values[link]))) for link in links]
    axes.add_collection(LineCollection(_segments(links, places), colors=colours, linewidths=widths, zorder=2))
    for link, (start, end) in zip(links, _segments(links, places), strict=True):
        # Not in the middle of the link, where the diagonals of a mesh cross.
        middle = (0.6 * start[0] + 0.4 * end[0], 0.6 * start[1] + 0.4 * end[1])
        text = f"{values[link]:.3g}"
        axes.annotate(
            text,
            middle,
            ha="center",
            va="center",
            size=8,
            color=INK,
            zorder=6,
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none"},
        )


def _segments(links: Iterable[Link], places: Mapping[str, Place]) -> list[tuple[Place, Place]]:
    return [(places[link.a], places[link.b]) for link in links]


@dataclass(frozen=True)
class _Look:
    """How a kind of node looks."""

    marker: str
    face: str
    text: str
    edge: str = INK
    heavy: bool = False


HOST_LOOK = _Look("s", HOST, "white")
SWITCH_LOOK = _Look("o", SWITCH, INK)
LEADER_LOOK = _Look("s", LEADER, INK, heavy=True)
SOURCE_LOOK = _Look("s", INK, "white", heavy=True)
AWAY_LOOK = _Look("s", "white", PALE, edge=PALE)


def _draw_nodes(axes: Axes, places: Mapping[str, Place], nodes: Sequence[str], look: _Look, size: float) -> None:
    xs, ys = zip(*(places[node] for node in nodes), strict=True) if nodes else ((), ())
    width = min(1.0, size / 10) * (2 if look.heavy else 1)
    axes.scatter(xs, ys, s=size**2, marker=look.marker, facecolor=look.face, edgecolor=look.edge, linewidth=width, zorder=4)
    if len(places) <= MOST_LABELS:
        for node in nodes:
            axes.annotate(node, places[node], ha="center", va="center", size=0.48 * size, color=look.text, zorder=5)


def _draw_legend(network: Network, axes: Axes, values: Mapping[Link, float]) -> None:
    """Draw the legend. Links with values are explained by the colour bar."""
    hosts = f"{len(network.hosts)} hosts in {len(network.clusters)} clusters"
    handles = [
        Line2D([], [], marker="s", color=HOST, linestyle="", label=hosts),
        Line2D([], [], marker="o", mfc=SWITCH, mec=INK, linestyle="", label=f"{len(network.switches)} switches"),
        Line2D([], [], color=CHEAP, linewidth=0.9, label="cheap link"),
    ]
    if any(link.expensive and link not in values for link in network.links):
        handles.append(
            Line2D(
                [],
                [],
                color=EXPENSIVE,
                linewidth=EXPENSIVE_UNDER_OTHERS if values else EXPENSIVE_WIDTH,
                linestyle="--",
                label="expensive link",
            )
        )
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(handles), frameon=False, fontsize=9)


def _roles(network: Network, tree: DrawnTree) -> dict[_Look, list[str]]:
    """The hosts by their look, ordinary members first."""
    roles: dict[_Look, list[str]] = {HOST_LOOK: [], LEADER_LOOK: [], SOURCE_LOOK: [], AWAY_LOOK: []}
    for host in network.hosts:
        leading = LEADER_LOOK if host in tree.leaders else HOST_LOOK
        roles[AWAY_LOOK if host in tree.away else SOURCE_LOOK if host == tree.source else leading].append(host)
    return roles


@dataclass(frozen=True)
class _Arc:
    """A curved arrow: a parabola, as in matplotlib's `arc3`."""

    start: Place
    end: Place
    bend: float

    @property
    def middle(self) -> Place:
        """The control point of the parabola."""
        (x1, y1), (x2, y2) = self.start, self.end
        return (x1 + x2) / 2 + self.bend * (y2 - y1), (y1 + y2) / 2 - self.bend * (x2 - x1)

    def at(self, t: float) -> Place:
        """The point at a part of the way, from 0 to 1."""
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        (x1, y1), (x, y), (x2, y2) = self.start, self.middle, self.end
        return a * x1 + b * x + c * x2, a * y1 + b * y + c * y2

    def clearance(self, others: Sequence[Place]) -> float:
        """The least distance to any of some nodes."""
        return min((math.dist(self.at(step / 20), other) for step in range(1, 20) for other in others), default=math.inf)

    def angles(self) -> tuple[tuple[Place, float], tuple[Place, float]]:
        """The direction in which the arrow leaves each of its ends."""
        x, y = self.middle
        (x1, y1), (x2, y2) = self.start, self.end
        return (self.start, math.atan2(y - y1, x - x1)), (self.end, math.atan2(y - y2, x - x2))

    def apart(self, arrows: Sequence["_Arc"]) -> float:
        """The least angle between this arrow and any other at an end that both have."""
        taken = [angle for arrow in arrows for angle in arrow.angles()]
        turns = (one - other for place, one in self.angles() for node, other in taken if node == place)
        return min((abs(math.remainder(turn, math.tau)) for turn in turns), default=math.inf)


def _clear_arc(start: Place, end: Place, others: Sequence[Place], arrows: Sequence[_Arc]) -> _Arc:
    """An arrow that passes the other nodes at some distance and merges with no arrow at its ends, if one of the curvatures allows that."""
    room = 0.06 * max(extent([start, end, *others]))
    arcs = [_Arc(start, end, bend) for bend in BENDS]
    clear = [arc for arc in arcs if arc.clearance(others) > room]
    if not clear:
        return max(arcs, key=lambda arc: arc.clearance(others))
    apart = (arc for arc in clear if arc.apart(arrows) > APART)
    return next(apart, None) or max(clear, key=lambda arc: arc.apart(arrows))


def _draw_arrow(axes: Axes, arc: _Arc, *, heavy: bool, size: float) -> None:
    """Draw an arrow from a child to its parent, curved, so that arrows along one line can be told apart; `heavy` for a leader."""
    axes.add_patch(
        FancyArrowPatch(
            arc.start,
            arc.end,
            connectionstyle=f"arc3,rad={arc.bend}",
            arrowstyle="-|>",
            mutation_scale=max(5.0, 0.75 * size),
            shrinkA=0.6 * size,
            shrinkB=0.65 * size,
            color=TREE,
            linewidth=(2.0 if heavy else 1.1) * min(1.0, 0.4 + size / 20),
            zorder=3.5,
            gid="child",
        )
    )


def _tree_handles(network: Network, tree: DrawnTree) -> list[Line2D]:
    """The entries of the legend for everything that the picture shows."""
    roles = _roles(network, tree)
    words = {SOURCE_LOOK: "source", LEADER_LOOK: tree.leader, HOST_LOOK: "other host", AWAY_LOOK: "host that is down"}
    handles = [
        Line2D([], [], ls="", ms=8, marker=look.marker, mfc=look.face, mec=look.edge, mew=2 if look.heavy else 1, label=word)
        for look, word in words.items()
        if roles[look]
    ]
    handles.append(Line2D([], [], color=TREE, linewidth=2.0, marker=">", markevery=[1], label="from a child to its parent"))
    if any(link.expensive for link in network.links):
        handles.append(Line2D([], [], color=EXPENSIVE, linewidth=EXPENSIVE_UNDER_OTHERS, linestyle="--", label="expensive link"))
    if tree.down:
        handles.append(Line2D([], [], color=PALE, linewidth=1.4, linestyle=":", label="link that is down"))
    return handles
