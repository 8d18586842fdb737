"""The propagation graphs of the third paper's text, node by node, and what must hold of every graph."""

import itertools
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.protocols.propagation_graph.generator import METHODS, generate, make_independent, spread_load
from hostagent.protocols.propagation_graph.graph import PropagationGraph, check
from scenarios.groups import random_groups
from tests.hostagent import brute_force

FIGURE_3_2 = {
    f"alpha{number}": tuple(members)
    for number, members in enumerate(("cd", "abc", "bcde", "def", "ef", "bg", "ch", "dj"), start=1)
}
# The text chooses d over c, c over b and e over f.
ORDER_3_2 = "dceabfghj"


def named(**groups: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(members) for name, members in groups.items()}


def edges(graph: PropagationGraph) -> set[str]:
    return {f"{parent}-{site}" for site, parent in graph.parents.items() if parent}


def holding(graph: PropagationGraph) -> set[str]:
    return {name for name, problem in check(graph).items() if not problem}


def test_figure_3_1():
    graph = generate(named(alpha="abcd", beta="cdef"), "cabdef")
    assert edges(graph) == {"c-a", "c-b", "c-d", "c-e", "c-f"}
    assert {graph.primary("alpha"), graph.primary("beta")} == {"c"}
    assert graph.receivers("c", "alpha") == ("a", "b", "d")
    assert graph.receivers("c", "beta") == ("d", "e", "f")


def test_figure_3_2():
    graph = generate(FIGURE_3_2, ORDER_3_2)
    assert graph.roots == ("d",)
    assert edges(graph) == {"d-c", "d-e", "d-j", "c-a", "c-b", "c-h", "b-g", "e-f"}
    assert {group: graph.primary(group) for group in FIGURE_3_2} == dict(
        zip(FIGURE_3_2, ("d", "c", "d", "d", "e", "b", "c", "d"), strict=True)
    )
    assert [group for group, route in graph.routes.items() if "g" in route] == ["alpha6"], "g only receives messages of alpha6"
    assert holding(graph) == {"PG1", "PG2", "PG3", "PG4", "one order"}


def test_figure_3_2_with_a_ninth_group_is_the_same_tree_with_an_extra_site():
    graph = generate(FIGURE_3_2 | {"alpha9": ("d", "a")}, ORDER_3_2)
    assert edges(graph) == edges(generate(FIGURE_3_2, ORDER_3_2))
    assert graph.extra_sites("alpha9") == ("c",)
    assert check(graph)["PG4"] == "c is an extra site of alpha9"
    assert graph.depth("alpha9") == 2


FIGURE_3_4 = named(alpha1="abde", alpha2="bcf", alpha3="defg")


def test_figure_3_4_adds_an_edge_past_the_extra_site():
    graph = generate(FIGURE_3_4, "bdacefg")
    assert edges(graph) == {"b-a", "b-c", "b-d", "d-e", "d-f", "d-g"}
    assert graph.extra_sites("alpha2") == ("d",)
    better = make_independent(graph)
    assert edges(better) == edges(graph)
    assert better.bypasses == {("alpha2", "f"): "b"}
    assert holding(better) == {"PG1", "PG2", "PG3", "PG4", "one order"}
    assert better.merge_sites("alpha2", "alpha3") == {"f": "f"}


def test_figure_3_5_also_moves_a_subtree():
    groups = named(alpha1="abde", alpha2="bcfg", alpha3="defgh")
    graph = generate(groups, "bdacefgh")
    assert edges(graph) == {"b-a", "b-c", "b-d", "d-e", "d-f", "d-g", "d-h"}
    better = make_independent(graph)
    assert edges(better) == {"b-a", "b-c", "b-d", "d-e", "d-f", "f-g", "d-h"}
    assert better.bypasses == {("alpha2", "f"): "b"}
    assert better.merge_sites("alpha2", "alpha3") == {"f": "f", "g": "f"}
    assert holding(better) == {"PG1", "PG2", "PG3", "PG4", "one order"}


def test_figure_3_6_cannot_be_made_independent():
    graph = generate(named(alpha1="abc", alpha2="abd", alpha3="acd", alpha4="bcd"), "abcd")
    assert edges(graph) == {"a-b", "b-c", "b-d"}
    assert graph.extra_sites("alpha3") == ("b",)
    assert make_independent(graph) == graph


def test_the_graph_of_figure_3_6_b_has_no_one_order():
    groups = named(alpha1="abc", alpha2="abd", alpha3="acd", alpha4="bcd")
    tempting = PropagationGraph(groups, {"a": "", "b": "a", "c": "b", "d": "c"}, {("alpha3", "c"): "a"})
    assert "alpha1 and alpha3 are merged at several sites" in next(tempting.one_order())


def test_figure_4_1_trades_load_for_depth_without_extra_sites():
    groups = named(alpha="abcde", beta="bfgh", gamma="ab")
    graph = generate(groups, "abcdefgh")
    assert edges(graph) == {f"b-{site}" for site in "acdefgh"}
    spread = spread_load(graph, most_children=3)
    assert max(spread.load.values()) < max(graph.load.values())
    assert max(map(spread.depth, groups)) > max(map(graph.depth, groups))
    assert holding(spread) == {"PG1", "PG2", "PG3", "PG4", "one order"}


@st.composite
def group_sets(draw: st.DrawFn) -> tuple[dict[str, tuple[str, ...]], list[str], dict[str, tuple[int, int]]]:
    """Groups, sites, and the sites' places on a grid."""
    sites = [f"h{number}" for number in range(draw(st.integers(2, 14)))]
    members = st.lists(st.sampled_from(sites), min_size=1, max_size=6, unique=True).map(tuple)
    groups = {f"g{number}": group for number, group in enumerate(draw(st.lists(members, min_size=1, max_size=9)))}
    return groups, sites, {site: divmod(number, 4) for number, site in enumerate(sites)}


@given(group_sets(), st.sampled_from(METHODS), st.integers(0, 5))
def test_every_method_gives_a_graph_with_one_order(case, method, seed):
    groups, sites, place = case
    graph = generate(
        groups, sites, method, lambda a, b: sum(abs(one - two) for one, two in zip(place[a], place[b], strict=True)), seed
    )
    assert graph.parents.keys() == set(sites)
    assert {"PG1", "PG2", "one order"} <= holding(graph)
    if method in {"heuristic-1", "heuristic-2"}:
        assert "PG3" in holding(graph)
    for group, members in groups.items():
        packets = 1 + sum(len(graph.receivers(site, group)) for site in graph.routes[group])
        assert packets == len(members) + len(graph.extra_sites(group)), "N = n + e"
    assert sum(graph.load.values()) == 2 * sum(len(route) for route in graph.routes.values()) - len(groups)


@given(group_sets())
def test_more_independence_and_less_load_keep_one_order(case):
    groups, sites, _ = case
    graph = generate(groups, sites)
    for changed in (make_independent(graph), spread_load(graph, 2)):
        assert {"PG1", "PG2", "PG3", "one order"} <= holding(changed)
        assert sum(len(changed.extra_sites(group)) for group in groups) <= sum(len(graph.extra_sites(group)) for group in groups)


@given(group_sets())
def test_messages_that_follow_the_graph_are_delivered_in_one_order_whatever_the_links_delay(case):
    """Message passing of section 3.4 in miniature: every edge keeps its order, and edges run at random speeds."""
    groups, sites, _ = case
    for graph in (generate(groups, sites), make_independent(generate(groups, sites))):
        delivered = pass_messages(graph, Random(len(groups)))
        for one, other in itertools.combinations(delivered.values(), 2):
            common = [message for message in one if message in other]
            assert common == [message for message in other if message in one]


def pass_messages(graph: PropagationGraph, random: Random) -> dict[str, list[tuple[str, int]]]:
    """Three messages to each group; each site takes the next message of a random incoming edge."""
    queues: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for number, group in itertools.product(range(3), graph.groups):
        queues.setdefault((f"source of {group}", graph.primary(group)), []).append((group, number))
    delivered: dict[str, list[tuple[str, int]]] = {site: [] for site in graph.parents}
    while waiting := sorted(edge for edge, queue in queues.items() if queue):
        edge = random.choice(waiting)
        message, site = queues[edge].pop(0), edge[1]
        if site in graph.groups[message[0]]:
            delivered[site].append(message)
        for receiver in graph.receivers(site, message[0]):
            queues.setdefault((site, receiver), []).append(message)
    return delivered


def test_heuristic_2_breaks_ties_by_distance_and_heuristic_3_looks_at_distance_first():
    groups = named(alpha="abcd", beta="bcx", gamma="bcy", delta="cd", epsilon="bz", root1="a", root2="a", root3="a")
    far = {"b": 5.0, "c": 2.0, "d": 1.0}
    trees = [
        edges(generate(groups, "abcdxyz", method, lambda one, other: far.get(other, 9.0) if one == "a" else 1.0))
        for method in METHODS[:3]
    ]
    assert ["a-b" in tree for tree in trees] == [True, False, False], "b and c are in as many groups; b is listed first"
    assert ["a-c" in tree for tree in trees] == [False, True, False], "c is nearer"
    assert ["a-d" in tree for tree in trees] == [False, False, True], "d is nearest, and in fewer groups"


@pytest.mark.parametrize("hundred", range(2))
def test_heuristic_1_is_the_appendix_and_all_graphs_have_pg1_and_pg2_by_brute_force(hundred):
    """A short version of `python -m tests.hostagent.brute_force`."""
    for seed in range(50 * hundred, 50 * hundred + 50):
        brute_force.compare(seed)


def test_the_brute_force_check_finds_what_is_wrong():
    groups = named(alpha="ab", beta="bc")
    apart = PropagationGraph(groups, {"a": "", "b": "a", "c": "b"}, {("alpha", "b"): "c"})
    assert "PG1" in next(brute_force.problems(apart))


def test_a_site_above_all_members_is_left_out_where_bypasses_leave_it_one_edge():
    """Otherwise an extra site would pass on messages that it neither merges nor splits."""
    graph = PropagationGraph(named(alpha="bc"), {"r": "", "b": "r", "x": "r", "c": "x"}, {("alpha", "c"): "b"})
    assert graph.primary("alpha") == "b"
    assert graph.extra_sites("alpha") == ()


def test_a_thousand_sites_with_40_groups_of_40_take_well_below_a_second():
    sites = [f"h{number}" for number in range(1000)]
    groups = {group.name: group.members for group in random_groups(sites, 40, 40, seed=7)}
    began_s = time.process_time()
    graph = generate(groups, sites)
    assert {"PG1", "PG2", "PG3", "one order"} <= holding(graph)
    assert time.process_time() - began_s < 0.8


GRID = {f"h{number}": divmod(number, 5) for number in range(25)}


def manhattan(one: str, other: str) -> int:
    return abs(GRID[one][0] - GRID[other][0]) + abs(GRID[one][1] - GRID[other][1])


@pytest.mark.parametrize("method", ["minimum-spanning-tree", "shortest-path-tree"])
def test_trees_over_the_network_join_neighbours_on_a_grid(method):
    graph = generate({"g": ("h12", "h0", "h24"), "f": ("h12", "h4")}, list(GRID), method, manhattan)
    assert graph.roots == ("h12",)
    assert len(graph.children("h12")) == 4, "the root has as many children as possible"
    assert all(manhattan(site, parent) == 1 for site, parent in graph.parents.items() if parent)


def test_every_way_in_a_shortest_path_tree_is_a_shortest_one():
    graph = generate({"g": ("h12", "h0"), "f": ("h12",)}, list(GRID), "shortest-path-tree", manhattan)
    assert all(len(graph.ancestors(site)) - 1 == manhattan(site, "h12") for site in GRID)
