"""The experiments of the third paper's chapter 4 with random groups: what its Graphs 4.1 to 4.14 show, as averages over several draws."""

import math
from collections import Counter
from functools import cache
from itertools import pairwise
from statistics import mean
from typing import NamedTuple

import pytest

from hostagent.protocols.propagation_graph.generator import METHODS, generate
from scenarios.groups import random_groups

SITES = (20, 50, 100, 200, 400)
HEURISTICS, TREES = METHODS[:3], METHODS[4:]
DRAWS = range(1, 7)


class Figures(NamedTuple):
    """Averages over draws and, except for loads, over the groups of each."""

    depth: float
    extra: float
    load: float
    """Messages that the busiest site sends and receives if one is sent to each group."""
    centralised_load: float
    two_phase_load: float
    """At the busiest receiver."""
    distance: float
    """The physical length of the way from the primary destination to the member furthest away, on a square grid."""


@cache
def experiment(sites: int, groups: int, size: int, method: str) -> Figures:
    names = [f"h{number}" for number in range(sites)]
    side = math.isqrt(sites - 1) + 1
    place = {name: divmod(number, side) for number, name in enumerate(names)}

    def far(one, other):
        return abs(place[one][0] - place[other][0]) + abs(place[one][1] - place[other][1])

    rows = []
    for draw in DRAWS:
        drawn = {group.name: group.members for group in random_groups(names, groups, size, draw)}
        graph = generate(drawn, names, method, far, draw)
        ways = {name: [graph.path(name, member) for member in members] for name, members in drawn.items()}
        memberships = Counter(member for members in drawn.values() for member in members)
        rows.append(
            Figures(
                depth=mean(graph.depth(name) for name in drawn),
                extra=mean(len(graph.extra_sites(name)) for name in drawn),
                load=max(graph.load.values()),
                centralised_load=groups * (size + 1),
                two_phase_load=3 * max(memberships.values()),
                distance=mean(max(sum(far(*hop) for hop in pairwise(way)) for way in some) for some in ways.values()),
            )
        )
    return Figures(*map(mean, zip(*rows, strict=True)))


def over_sites(method: str, groups: int = 20) -> list[Figures]:
    return [experiment(sites, groups, 5, method) for sites in SITES]


@pytest.mark.parametrize("groups", [20, 40])
def test_depth_and_extra_sites_are_small_rise_with_the_sites_and_fall_again(groups):
    """Graphs 4.1 and 4.3: with ever more sites, groups of five hardly intersect, and the trees are short again."""
    for figure in ("depth", "extra"):
        curve = [getattr(figures, figure) for figures in over_sites("heuristic-1", groups)]
        peak = curve.index(max(curve))
        assert peak < len(curve) - 1
        assert curve[-1] < curve[peak] / 2
    assert experiment(400, groups, 5, "heuristic-1").depth < 2.5


def test_depth_rises_and_falls_with_the_size_of_groups_too():
    """Graph 4.2, read from right to left: large groups intersect so often that the trees are bushy."""
    curve = [experiment(100, 20, size, "heuristic-1").depth for size in (2, 5, 10, 40)]
    assert curve[0] < max(curve)
    assert curve[-1] < max(curve)


def test_the_load_is_between_centralised_and_two_phase():
    """Graphs 4.4 and 4.5."""
    for figures in over_sites("heuristic-1"):
        assert figures.two_phase_load < figures.load < figures.centralised_load


@pytest.mark.parametrize("groups", [20, 40])
def test_heuristic_1_beats_random_graphs(groups):
    """Graphs 4.6 and 4.7."""
    for ours, random in zip(over_sites("heuristic-1", groups), over_sites("random", groups), strict=True):
        assert ours.depth < random.depth


def test_on_a_grid_heuristic_2_is_as_good_as_1_and_3_is_better():
    """Graphs 4.8 to 4.11, where II is slightly better than I; here it is within a few per cent on either side."""
    one, two, three = (mean(figures.distance for figures in over_sites(method)) for method in HEURISTICS)
    assert two < 1.03 * one
    assert three < 0.9 * two


def test_a_minimum_spanning_tree_is_good_for_few_sites_and_ever_deeper_for_many():
    """Graphs 4.8 to 4.11."""
    tree, third = over_sites("minimum-spanning-tree"), over_sites("heuristic-3")
    depths = [figures.depth for figures in tree]
    assert depths == sorted(depths)
    assert tree[0].distance < third[0].distance
    assert tree[-1].distance > third[-1].distance


def test_a_shortest_path_tree_has_the_shortest_ways_up_to_200_sites():
    """Graphs 4.12 and 4.13."""
    for place, _ in enumerate(SITES[:-1]):
        shortest = over_sites("shortest-path-tree")[place].distance
        assert shortest < over_sites("minimum-spanning-tree")[place].distance
        assert shortest < over_sites("heuristic-3")[place].distance


def test_both_trees_have_many_more_extra_sites():
    """Graph 4.14."""
    for place, _ in enumerate(SITES):
        fewest = min(over_sites(method)[place].extra for method in TREES)
        assert fewest > 1.5 * max(over_sites(method)[place].extra for method in HEURISTICS)
