"""The experiments of the third paper's chapter 4: propagation graphs of random groups, as its Graphs 4.1 to 4.14 show them.

A point is a number of sites, groups and members, and a way to build the graph. Groups are drawn and graphs are built until the mean of each
figure that a graph of the paper shows is known with 95 % confidence within the half-width that the paper states: 10 % of the mean, and 0.5
for the extra sites of heuristics. Where the paper is silent, the number of groups is 20 (Graph 4.4) and that of sites 200 (Graph 4.2).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Final, Literal

import msgspec

from analysis.figures.claims import Claim, Sweep
from hostagent.protocols.propagation_graph.generator import METHODS, Method, generate
from papers.paper import Study
from scenarios.groups import random_groups

SITES: Final = (20, 30, 50, 100, 150, 200, 300, 400, 600, 800, 1000)
SIZES: Final = (5, 10, 15, 20, 30, 40)
QUICK_SITES: Final = (20, 30, 50, 100, 200, 400)
HEURISTICS: Final = METHODS[:3]
TREES: Final = METHODS[4:]
# Draws are added in steps until the intervals are narrow enough. Thirty are enough for means to be normal.
STEP: Final = 30
MOST_DRAWS: Final = 3000
QUICK_DRAWS: Final = 24
NORMAL_95: Final = 1.96
RELATIVE: Final = 0.1
EXTRA_SITES: Final = 0.5
# Of sparse groups, a site is in half a group on average, or in less.
SPARSE: Final = 0.5
EARLY: Final = "10 groups"
"""Of so few groups of five the peak is at 20 sites or below, where the horizontal axis begins; the paper does not say that it drew them."""
SMALL: Final = 5
SMALL_DEPTH: Final = 2.5

FigureName = Literal["depth", "extra", "load", "centralised", "two_phase", "distance"]
FIGURES: Final[Mapping[FigureName, str]] = {
    "depth": "mean depth of a group",
    "extra": "mean extra sites of a group",
    "load": "messages at the busiest site",
    "distance": "mean length of the physical path",
}


class Point(msgspec.Struct, frozen=True):
    """A point of the experiment; `draws` is the number of draws of a first look, and 0 for as many as the intervals need."""

    sites: int
    groups: int
    size: int
    method: Method
    draws: int = 0

    @property
    def key(self) -> str:
        """A name for it."""
        return f"{self.method}-{self.groups}x{self.size}-of-{self.sites}" + (f"-{self.draws}-draws" if self.draws else "")


class Mean(msgspec.Struct, frozen=True):
    """The mean over draws, and the half-width of its 95 % confidence interval."""

    mean: float
    half: float


class Measured(msgspec.Struct, frozen=True):
    """The result of a point."""

    point: Point
    draws: int
    figures: dict[FigureName, Mean]


def measure(point: Point) -> Measured:
    """Draw groups and build graphs until the figures are known well enough."""
    rows: list[dict[FigureName, float]] = []
    while True:
        rows += [_draw(point, seed) for seed in range(len(rows) + 1, len(rows) + 1 + (point.draws or STEP))]
        found = {name: _mean([row[name] for row in rows]) for name in rows[0]}
        if point.draws or len(rows) >= MOST_DRAWS or all(_is_known(point, name, value) for name, value in found.items()):
            return Measured(point, len(rows), found)


def _mean(values: Sequence[float]) -> Mean:
    return Mean(fmean(values), NORMAL_95 * stdev(values) / math.sqrt(len(values)))


def _is_known(point: Point, name: FigureName, value: Mean) -> bool:
    """Whether the interval is as narrow as in the paper. The extra sites of trees are many, and have a relative one."""
    if name == "extra" and point.method not in TREES:
        return value.half <= EXTRA_SITES
    return value.half <= RELATIVE * value.mean


def _draw(point: Point, seed: int) -> dict[FigureName, float]:
    """One draw of groups, and the graph of it. Sites are on a square grid whose links cost 1 each."""
    names = [f"h{number}" for number in range(point.sites)]
    side = math.isqrt(point.sites - 1) + 1
    place = {name: divmod(number, side) for number, name in enumerate(names)}

    def far(one: str, other: str) -> int:
        return abs(place[one][0] - place[other][0]) + abs(place[one][1] - place[other][1])

    drawn = {group.name: group.members for group in random_groups(names, point.groups, point.size, seed)}
    graph = generate(drawn, names, point.method, far, seed)
    ways = {name: [graph.path(name, member) for member in members] for name, members in drawn.items()}
    memberships = Counter(member for members in drawn.values() for member in members)
    return {
        "depth": fmean(max(map(len, some)) - 1 for some in ways.values()),
        "extra": fmean(len(graph.extra_sites(name)) for name in drawn),
        "load": max(graph.load.values()),
        # One message to each group: the central site gets it and sends it to all members.
        "centralised": point.groups * (point.size + 1),
        # At the busiest receiver: the message, its own priority, and the final one.
        "two_phase": 3 * max(memberships.values()),
        "distance": fmean(max(sum(far(*hop) for hop in pairwise(way)) for way in some) for some in ways.values()),
    }


class Line(msgspec.Struct, frozen=True):
    """A line of a graph: its points, by what is on the horizontal axis, and the figure on the vertical one."""

    name: str
    groups: int
    method: Method
    figure: FigureName
    size: int = 5
    """The members of a group, where the horizontal axis has the sites."""
    sites: int = 200
    """The sites, where it has the size of groups."""


class Graph(msgspec.Struct, frozen=True):
    """A graph of the paper."""

    name: str
    title: str
    over: Literal["sites", "size"]
    lines: tuple[Line, ...]


def _methods(figure: FigureName, groups: int, *methods: Method) -> tuple[Line, ...]:
    return tuple(Line(method, groups, method, figure) for method in methods)


def _loads(groups: int) -> tuple[Line, ...]:
    names: Mapping[FigureName, str] = {"load": "propagation graph", "centralised": "centralised", "two_phase": "two-phase"}
    return tuple(Line(name, groups, "heuristic-1", figure) for figure, name in names.items())


def _counts(figure: FigureName, *groups: int) -> tuple[Line, ...]:
    return tuple(Line(f"{number} groups", number, "heuristic-1", figure) for number in groups)


_ONE, _TWO, _THREE = HEURISTICS
_SPANNING, _SHORTEST = TREES
GRAPHS: Final = (
    Graph("Graph 4.1", "Depth against sites, groups of 5", "sites", _counts("depth", 10, 20, 40)),
    Graph("Graph 4.2", "Depth against the size of groups, 200 sites", "size", _counts("depth", 10, 20, 40)),
    Graph("Graph 4.3", "Extra sites against sites, groups of 5", "sites", _counts("extra", 10, 20, 40)),
    Graph("Graph 4.4", "Highest load against sites, 20 groups of 5", "sites", _loads(20)),
    Graph("Graph 4.5", "Highest load against the size of groups, 200 sites, 20 groups", "size", _loads(20)),
    Graph("Graph 4.6", "Heuristic I and random graphs, 20 groups of 5", "sites", _methods("depth", 20, _ONE, "random")),
    Graph("Graph 4.7", "Heuristic I and random graphs, 40 groups of 5", "sites", _methods("depth", 40, _ONE, "random")),
    Graph("Graph 4.8", "Heuristics I and II on a grid, 20 groups of 5", "sites", _methods("distance", 20, _ONE, _TWO, _SPANNING)),
    Graph("Graph 4.9", "Heuristics I and II on a grid, 40 groups of 5", "sites", _methods("distance", 40, _ONE, _TWO, _SPANNING)),
    Graph(
        "Graph 4.10",
        "Heuristics II and III on a grid, 20 groups of 5",
        "sites",
        _methods("distance", 20, _TWO, _THREE, _SPANNING),
    ),
    Graph(
        "Graph 4.11",
        "Heuristics II and III on a grid, 40 groups of 5",
        "sites",
        _methods("distance", 40, _TWO, _THREE, _SPANNING),
    ),
    Graph("Graph 4.12", "Shortest-path trees on a grid, 20 groups of 5", "sites", _methods("distance", 20, _THREE, *TREES)),
    Graph("Graph 4.13", "Shortest-path trees on a grid, 40 groups of 5", "sites", _methods("distance", 40, _THREE, *TREES)),
    Graph("Graph 4.14", "Extra sites on a grid, 20 groups of 5", "sites", _methods("extra", 20, *HEURISTICS, *TREES)),
)


def points(quick: bool) -> list[Point]:
    """Every point of every graph, once. The longest ones come first, so that no worker is left with one at the end."""
    draws, sites = (QUICK_DRAWS, QUICK_SITES) if quick else (0, SITES)
    found = [
        Point(
            *(line.sites if graph.over == "size" else x, line.groups, x if graph.over == "size" else line.size),
            line.method,
            draws,
        )
        for graph in GRAPHS
        for line in graph.lines
        for x in (SIZES if graph.over == "size" else sites)
    ]
    return sorted(set(found), key=lambda point: (-point.sites * (point.method in TREES), -point.sites * point.groups, point.key))


Curve = list[tuple[int, Mean]]


def _curves(graph: Graph, results: Mapping[tuple[int, int, int, str], Measured]) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for line in graph.lines:
        for (sites, groups, size, method), found in sorted(results.items()):
            fixed = sites == line.sites if graph.over == "size" else size == line.size
            if fixed and (groups, method) == (line.groups, line.method):
                curves.setdefault(line.name, []).append((size if graph.over == "size" else sites, found.figures[line.figure]))
    return curves


def conclude(results: Sequence[Measured]) -> tuple[list[Claim], list[Sweep]]:
    """What the graphs show, and the graphs."""
    by_key: dict[tuple[int, int, int, str], Measured] = {
        (found.point.sites, found.point.groups, found.point.size, found.point.method): found for found in results
    }
    curves = {graph.name: _curves(graph, by_key) for graph in GRAPHS}
    claims = [claim for graph in GRAPHS for claim in SHAPES[graph.name](graph.name, curves[graph.name])]
    return [*claims, _known(results), *_sparse(results), _trees_are_shorter(curves)], [
        _sweep(graph, curves[graph.name]) for graph in GRAPHS
    ]


def _sweep(graph: Graph, curves: Mapping[str, Curve]) -> Sweep:
    return Sweep(
        title=graph.title,
        x="sites" if graph.over == "sites" else "sites in a group",
        y=FIGURES["load" if graph.lines[0].figure in {"load", "centralised", "two_phase"} else graph.lines[0].figure],
        lines={name: [(float(x), value.mean, "") for x, value in curve] for name, curve in curves.items()},
        intervals={
            name: [(value.mean - value.half, value.mean + value.half) for _, value in curve] for name, curve in curves.items()
        },
        name=graph.name,
        linear=True,
    )


def _told(curve: Curve) -> str:
    return ", ".join(f"{value.mean:.3g}" for _, value in curve)


def _axis(curve: Curve) -> str:
    return "/".join(str(x) for x, _ in curve)


def _rise_and_fall(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    for line, curve in curves.items():
        peak = max(curve, key=lambda item: item[1].mean)
        low = peak[1].mean - peak[1].half
        rises, falls = (curve[place][1].mean + curve[place][1].half < low for place in (0, -1))
        figure = f"{_told(curve)} for {_axis(curve)}"
        if line == EARLY and name in {"Graph 4.1", "Graph 4.3"}:
            yield Claim(name, f"{line}: it falls", falls, figure)
        else:
            yield Claim(name, f"{line}: it rises and falls again", rises and falls, figure)


def _between(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    ours, above, below = (curves[line] for line in ("propagation graph", "centralised", "two-phase"))
    inside = [low.mean < it.mean < high.mean for (_, it), (_, high), (_, low) in zip(ours, above, below, strict=True)]
    told = f"graph {_told(ours)}; centralised {_told(above)}; two-phase {_told(below)}; for {_axis(ours)}"
    yield Claim(name, "the load is between those of two-phase and centralised", all(inside), told)
    if name == "Graph 4.4":
        falls = ours[-1][1].mean + ours[-1][1].half < max(value.mean for _, value in ours)
        yield Claim(name, "the load is low in the end, where trees are sparse", falls, _told(ours))


def _below(low: str, high: str, text: str) -> Callable[[str, Mapping[str, Curve]], Iterator[Claim]]:
    """The claim that one line is below another at every point."""

    def shape(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
        pairs = list(zip(curves[low], curves[high], strict=True))
        below = [one.mean < other.mean for (_, one), (_, other) in pairs]
        told = f"{low} {_told(curves[low])}; {high} {_told(curves[high])}; for {_axis(curves[low])}"
        yield Claim(name, text, all(below), f"at {sum(below)} of {len(below)} points: {told}")

    return shape


def _two_and_spanning(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    one, two = (fmean(value.mean for _, value in curves[line]) for line in (_ONE, _TWO))
    yield Claim(name, "Heuristic II is slightly better than I", two < one, f"{two:.2f} and {one:.2f} on average over the points")
    tree = curves[_SPANNING]
    few = [tree[place][1].mean < curves[_TWO][place][1].mean for place in (0, 1)]
    yield Claim(
        name, "for few sites the minimum spanning tree does very well", all(few), f"{_told(tree[:2])} for {_axis(tree[:2])}"
    )
    means = [value.mean for _, value in tree]
    yield Claim(name, "its paths always grow with the sites", means == sorted(means), _told(tree))
    if name == "Graph 4.8":
        text = "those of both heuristics decrease for a while, as trees break up"
        told = "; ".join(f"{line} {_told(curves[line])}" for line in (_ONE, _TWO))
        yield Claim(name, text, all(_decreases(curves[line]) for line in (_ONE, _TWO)), f"{told}; for {_axis(tree)}")


def _decreases(curve: Curve) -> bool:
    """Whether some later point is lower than an earlier one."""
    return any(later.mean < earlier.mean for (_, earlier), (_, later) in pairwise(curve))


def _third(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    two, three = (fmean(value.mean for _, value in curves[line]) for line in (_TWO, _THREE))
    below = sum(it.mean < other.mean for (_, it), (_, other) in zip(curves[_THREE], curves[_TWO], strict=True))
    figure = f"{three:.2f} and {two:.2f} on average over the points, and better at {below} of {len(curves[_TWO])}"
    yield Claim(name, "Heuristic III is better than II", three < two, figure)
    beaten = [tree.mean < it.mean for (_, tree), (_, it) in zip(curves[_SPANNING], curves[_THREE], strict=True)]
    text = "Heuristic III cannot beat the minimum spanning tree in some cases"
    yield Claim(name, text, any(beaten) and not all(beaten), f"the tree is better at {sum(beaten)} of {len(beaten)} points")


def _shortest(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    others = [curves[line] for line in (_THREE, _SPANNING)]
    best = [all(it.mean < other[place][1].mean for other in others) for place, (_, it) in enumerate(curves[_SHORTEST])]
    told = "; ".join(f"{line} {_told(curve)}" for line, curve in curves.items())
    text = "usually, at more than half of the points, the shortest-path tree has the shortest paths"
    yield Claim(name, text, 2 * sum(best) > len(best), f"at {sum(best)} of {len(best)} points: {told}")


def _many_more(name: str, curves: Mapping[str, Curve]) -> Iterator[Claim]:
    least = [
        min(curves[tree][place][1].mean for tree in TREES) / max(curves[line][place][1].mean for line in HEURISTICS)
        for place, _ in enumerate(curves[_ONE])
        if max(curves[line][place][1].mean for line in HEURISTICS) > 0
    ]
    figure = f"{min(least):.1f} times as many at least, {max(least):.0f} at most"
    yield Claim(
        name, "both trees have many more extra sites than the heuristics: half as many again at least", min(least) > 1.5, figure
    )


def _known(results: Sequence[Measured]) -> Claim:
    wide = [found for found in results if not all(_is_known(found.point, name, value) for name, value in found.figures.items())]
    draws = [found.draws for found in results]
    told = " to ".join(dict.fromkeys(f"{number}" for number in (min(draws), max(draws))))
    text = "every mean is known with 95 % confidence within the half-width that the paper states"
    figure = f"{len(results) - len(wide)} of {len(results)} points, with {told} draws each"
    if wide and any(found.point.draws for found in results):
        return Claim("confidence", text, None, f"{figure}; this is a first look with few draws")
    return Claim("confidence", text, not wide, figure)


def _sparse(results: Sequence[Measured]) -> Iterator[Claim]:
    """Section 4.1.1: small groups among many sites have small graphs."""
    sparse = [
        found
        for found in results
        if (found.point.method, found.point.size) == (_ONE, SMALL) and found.point.groups * SMALL <= SPARSE * found.point.sites
    ]
    depth, extra = (max(found.figures[name].mean for found in sparse) for name in ("depth", "extra"))
    text = (
        f"groups of {SMALL}, and a site in at most {SPARSE:g} of them on average: the depth is close to 2, with few extra sites"
    )
    yield Claim("4.1.1", text, depth <= SMALL_DEPTH and extra <= 1, f"depth {depth:.2f} and {extra:.2f} extra sites at most")


def _trees_are_shorter(curves: Mapping[str, Mapping[str, Curve]]) -> Claim:
    """Section 4.5 sums up that all heuristics have longer paths than both trees."""
    worse, number = 0, 0
    for graph in ("Graph 4.8", "Graph 4.9", "Graph 4.12", "Graph 4.13"):
        for line in set(HEURISTICS) & {*curves[graph]}:
            for tree in set(TREES) & {*curves[graph]}:
                pairs = list(zip(curves[graph][line], curves[graph][tree], strict=True))
                worse += sum(it.mean > other.mean for (_, it), (_, other) in pairs)
                number += len(pairs)
    text = "all heuristics have longer paths than minimum spanning and shortest-path trees"
    return Claim("4.5", text, worse == number, f"at {worse} of {number} points")


_RANDOM = _below(_ONE, "random", "Heuristic I yields better trees than random choices")
SHAPES: Final[Mapping[str, Callable[[str, Mapping[str, Curve]], Iterator[Claim]]]] = {
    **dict.fromkeys(("Graph 4.1", "Graph 4.2", "Graph 4.3"), _rise_and_fall),
    **dict.fromkeys(("Graph 4.4", "Graph 4.5"), _between),
    **dict.fromkeys(("Graph 4.6", "Graph 4.7"), _RANDOM),
    **dict.fromkeys(("Graph 4.8", "Graph 4.9"), _two_and_spanning),
    **dict.fromkeys(("Graph 4.10", "Graph 4.11"), _third),
    **dict.fromkeys(("Graph 4.12", "Graph 4.13"), _shortest),
    "Graph 4.14": _many_more,
}
"""What the paper says of each graph, as tests."""

STUDY: Final = Study(
    "chapter_4", "Propagation graphs of groups that are drawn at random (chapter 4)", points, measure, Measured, conclude
)
