"""A forest of hosts without its network, each tree from its root downwards: used for propagation graphs."""

from collections.abc import Collection, Mapping

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from topologies.drawing import EXPENSIVE, HOST, INK, LEADER, MOST_LABELS, TREE

# Inches for the width of a site and for the height of a level.
SITE_WIDTH, LEVEL_HEIGHT = 0.55, 0.95
WIDEST = 24.0
Place = tuple[float, float]


def forest_figure(
    parents: Mapping[str, str],
    notes: Mapping[str, str],
    bypasses: Collection[tuple[str, str, str]],
    title: str,
    away: Collection[str] = (),
) -> Figure:
    """Draw a forest: every site with its children below it, the sites with a note in another colour with the note beside them.

    A `bypass` is an edge that is not in the forest: its label, who sends and who receives. Sites that are `away` do not run.
    """
    drawn = {site: parent for site, parent in parents.items() if parent or site in parents.values() or site in notes}
    places = _places(drawn)
    width = max((x for x, _ in places.values()), default=0.0) + 1
    depth = max((-y for _, y in places.values()), default=0.0) + 1
    made = Figure(figsize=(min(WIDEST, max(5.0, SITE_WIDTH * width)), max(2.5, LEVEL_HEIGHT * depth + 1.2)), layout="constrained")
    axes = made.add_subplot()
    axes.set_title(title)
    axes.set_axis_off()
    axes.set_xlim(-0.7, width - 0.3)
    axes.set_ylim(-depth + 0.4, 0.6)
    size = min(16.0, 0.75 * 72 * min(WIDEST, SITE_WIDTH * width) / width)
    for site, parent in drawn.items():
        if parent:
            axes.add_patch(_arrow(places[parent], places[site], size, TREE, bend=0.0))
    for label, sender, receiver in bypasses:
        axes.add_patch(_arrow(places[sender], places[receiver], size, EXPENSIVE, bend=0.35))
        (x1, y1), (x2, y2) = places[sender], places[receiver]
        axes.annotate(label, ((x1 + x2) / 2, (y1 + y2) / 2), size=7, color=EXPENSIVE, ha="left")
    for site, place in places.items():
        face, ink = ("white", "grey") if site in away else (LEADER, INK) if site in notes else (HOST, "white")
        axes.scatter(*place, s=size**2, marker="s", facecolor=face, edgecolor=INK, linewidth=0.8, zorder=3)
        if len(places) <= MOST_LABELS:
            axes.annotate(site, place, ha="center", va="center", size=0.45 * size, color=ink, zorder=4)
            beside = 0.65 * size, 0.35 * size
            axes.annotate(notes.get(site, ""), place, beside, textcoords="offset points", size=7, color=INK, zorder=4)
    _add_legend(made, bypasses=bool(bypasses), away=bool(away))
    return made


def _places(parents: Mapping[str, str]) -> dict[str, Place]:
    """Leaves side by side, every other site above the middle of its children. Without recursion, as trees can be deep."""
    children: dict[str, list[str]] = {}
    for site, parent in parents.items():
        children.setdefault(parent, []).append(site)
    level, order = {"": -1}, []
    waiting = [""]
    while waiting:
        site = waiting.pop()
        order.append(site)
        for child in reversed(children.get(site, ())):
            level[child] = level[site] + 1
            waiting.append(child)
    across: dict[str, float] = {}
    leaves = 0
    for site in order:
        if site not in children:
            across[site] = leaves
            leaves += 1
    for site in reversed(order):
        if site in children:
            across[site] = sum(across[child] for child in children[site]) / len(children[site])
    return {site: (across[site], -float(level[site])) for site in order[1:]}


def _arrow(start: Place, end: Place, size: float, colour: str, bend: float) -> FancyArrowPatch:
    return FancyArrowPatch(
        start,
        end,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=max(5.0, 0.6 * size),
        shrinkA=0.5 * size,
        shrinkB=0.55 * size,
        color=colour,
        linewidth=1.2,
        linestyle="--" if bend else "-",
        zorder=2,
    )


def _add_legend(made: Figure, *, bypasses: bool, away: bool) -> None:
    handles = [
        Line2D([], [], ls="", marker="s", ms=8, mfc=LEADER, mec=INK, label="primary destination"),
        Line2D([], [], ls="", marker="s", ms=8, mfc=HOST, mec=INK, label="other site"),
        Line2D([], [], color=TREE, marker=">", markevery=[1], label="messages travel down"),
    ]
    if away:
        handles.append(Line2D([], [], ls="", marker="s", ms=8, mfc="white", mec=INK, label="down"))
    if bypasses:
        handles.append(Line2D([], [], color=EXPENSIVE, ls="--", label="of one group, past the sites between"))
    made.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3), frameon=False, fontsize=9)
