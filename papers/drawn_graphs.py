"""The propagation graphs that the third paper draws, built from its groups by the generator: the same edges, or not.

Ties are broken in the order of `sites`, as the text breaks them. A study of one point for each figure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from analysis.figures.claims import Claim, Sweep
from hostagent.protocols.propagation_graph.generator import generate, make_independent, spread_load
from hostagent.protocols.propagation_graph.graph import PropagationGraph
from papers.paper import Study


class Drawn(msgspec.Struct, frozen=True):
    """A figure of the paper: its groups, and the edges that are drawn."""

    name: str
    groups: dict[str, str]
    sites: str
    edges: str
    says: str = "the edges that are drawn"
    """What the figure shows."""
    way: str = ""
    """How the graph is changed after it was built: independent, or spread over sites with at most three children."""


class Found(msgspec.Struct, frozen=True):
    """Ours beside it."""

    drawn: Drawn
    edges: str
    extra: str
    """The extra sites, by group."""
    past: str
    """The edges that lead past extra sites, by group."""
    busiest: tuple[int, int]
    """The highest load of a site, as built and as changed."""
    deepest: tuple[int, int]
    """The greatest depth of a group, likewise."""


_EIGHT: Final = {
    f"alpha{number}": members for number, members in enumerate(("cd", "abc", "bcde", "def", "ef", "bg", "ch", "dj"), start=1)
}
_TREE: Final = "b-g c-a c-b c-h d-c d-e d-j e-f"
_SQUARE: Final = {"alpha1": "abc", "alpha2": "abd", "alpha3": "acd", "alpha4": "bcd"}
FIGURES: Final = (
    Drawn("Figure 3.1", {"alpha": "abcd", "beta": "cdef"}, "cabdef", "c-a c-b c-d c-e c-f"),
    Drawn("Figure 3.2", _EIGHT, "dceabfghj", _TREE),
    Drawn("Figure 3.2, ninth group", {**_EIGHT, "alpha9": "da"}, "dceabfghj", _TREE, "the same edges, and c as an extra site"),
    Drawn(
        "Figure 3.4",
        {"alpha1": "abde", "alpha2": "bcf", "alpha3": "defg"},
        "bdacefg",
        "b-a b-c b-d d-e d-f d-g",
        "an edge from b to f past the extra site",
        "independent",
    ),
    Drawn(
        "Figure 3.5",
        {"alpha1": "abde", "alpha2": "bcfg", "alpha3": "defgh"},
        "bdacefgh",
        "b-a b-c b-d d-e d-f d-h f-g",
        "an edge from b to f, and g moved beneath f",
        "independent",
    ),
    Drawn("Figure 3.6", _SQUARE, "abcd", "a-b b-c b-d", "that b must stay an extra site", "independent"),
    Drawn(
        "Figure 4.1",
        {"alpha": "abcde", "beta": "bfgh", "gamma": "ab"},
        "abcdefgh",
        "",
        "less load for more depth, without extra sites",
        "spread",
    ),
)
_EXTRA: Final = {"Figure 3.2, ninth group": "c of alpha9", "Figure 3.6": "b of alpha3"}
_PAST: Final = {"Figure 3.4": "b-f of alpha2", "Figure 3.5": "b-f of alpha2"}


def build(drawn: Drawn) -> PropagationGraph:
    """The graph of its groups, before it is changed."""
    return generate({name: tuple(members) for name, members in drawn.groups.items()}, drawn.sites)


def measure(drawn: Drawn) -> Found:
    """Build the graph, and change it as the text does."""
    first = build(drawn)
    graph = {"": lambda: first, "independent": lambda: make_independent(first), "spread": lambda: spread_load(first, 3)}[
        drawn.way
    ]()
    return Found(
        drawn,
        " ".join(sorted(f"{parent}-{site}" for site, parent in graph.parents.items() if parent)),
        ", ".join(f"{site} of {name}" for name in graph.groups for site in graph.extra_sites(name)),
        ", ".join(f"{parent}-{site} of {name}" for (name, site), parent in graph.bypasses.items()),
        (max(first.load.values()), max(graph.load.values())),
        (max(map(first.depth, first.groups)), max(map(graph.depth, graph.groups))),
    )


def conclude(results: Sequence[Found]) -> tuple[list[Claim], list[Sweep]]:
    """Whether each graph is as drawn."""
    by_name: Mapping[str, Found] = {found.drawn.name: found for found in results}
    return [_claim(by_name[drawn.name]) for drawn in FIGURES], []


def _claim(found: Found) -> Claim:
    drawn = found.drawn
    right = found.extra == _EXTRA.get(drawn.name, "") and found.past == _PAST.get(drawn.name, "")
    if drawn.edges:
        right = right and found.edges == drawn.edges
        told = f"{found.edges}; extra sites: {found.extra or 'none'}" + (
            f"; past an extra site: {found.past}" if found.past else ""
        )
    else:
        (before, after), (low, high) = found.busiest, found.deepest
        right = right and after < before and high > low
        told = f"load of the busiest site {before}, then {after}; depth {low}, then {high}; extra sites: {found.extra or 'none'}"
    return Claim(drawn.name, f"{drawn.name}: {drawn.says}", right, told)


def points(quick: bool) -> Sequence[Drawn]:
    """The figures; a first look has all of them too."""
    del quick
    return FIGURES


STUDY: Final = Study(
    "drawn_graphs", "The propagation graphs that the text draws, built from its groups.", points, measure, Found, conclude
)
