"""Grids, clusters and the figures of the first paper."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import SHAPES, Cost, Link, NetworkError, clusters, figure_3_1, figure_3_2, grid, lan


def expensive(network):
    return [link.name for link in network.links if link.expensive]


def test_a_grid_joins_neighbouring_switches_by_expensive_links():
    network = grid(2, 3, 2)
    assert expensive(network) == ["s1-s2", "s1-s4", "s2-s3", "s2-s5", "s3-s6", "s4-s5", "s5-s6"]
    assert network.clusters == tuple((f"h{n}", f"h{n + 1}") for n in range(1, 12, 2))
    assert network.access_switch("h3") == "s2"


def test_a_lan_has_one_switch_whose_links_to_hosts_have_the_properties():
    network = lan(3, bandwidth_mbit=10.0, loss=0.02)
    assert [(link.name, link.bandwidth_mbit, link.loss, link.expensive) for link in network.links] == [
        (f"h{number}-s1", 10.0, 0.02, False) for number in (1, 2, 3)
    ]
    assert network.clusters == (("h1", "h2", "h3"),)


PAIRS = {
    "line": ["s1-s2", "s2-s3", "s3-s4", "s4-s5"],
    "ring": ["s1-s2", "s2-s3", "s3-s4", "s4-s5", "s5-s1"],
    "star": ["s1-s2", "s1-s3", "s1-s4", "s1-s5"],
    "tree": ["s1-s2", "s1-s3", "s2-s4", "s2-s5"],
    "mesh": ["s1-s2", "s1-s3", "s1-s4", "s1-s5", "s2-s3", "s2-s4", "s2-s5", "s3-s4", "s3-s5", "s4-s5"],
    "grid": ["s1-s2", "s1-s4", "s2-s3", "s2-s5", "s4-s5"],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_five_clusters_are_joined_in_the_shape_asked_for(shape):
    assert expensive(clusters(5, 1, shape)) == PAIRS[shape]


def test_a_ring_of_two_has_one_link():
    assert expensive(clusters(2, 1, "ring")) == ["s1-s2"]


def test_hosts_and_expensive_links_are_dealt_over_the_switches_of_a_cluster():
    network = clusters(3, 3, "line", switches_per_cluster=2)
    assert [network.access_switch(host) for host in network.hosts[:3]] == ["s1", "s2", "s1"]
    assert [link.name for link in network.links if not link.expensive and link.a[0] == "s"] == ["s1-s2", "s3-s4", "s5-s6"]
    assert expensive(network) == ["s1-s3", "s4-s5"]


@given(st.integers(1, 12), st.integers(2, 5), st.sampled_from(list(SHAPES)), st.integers(1, 4))
@settings(deadline=None)
def test_there_are_k_clusters_of_the_size_asked_for_and_every_node_has_a_place_of_its_own(k, size, shape, switches):
    network = clusters(k, size, shape, switches)
    assert [len(cluster) for cluster in network.clusters] == [size] * k
    assert network.positions.keys() == {*network.hosts, *network.switches}
    places = list(network.positions.values())
    assert min(math.dist(one, other) for i, one in enumerate(places) for other in places[:i]) > 0.01


def test_expensive_links_are_10_mbit_and_unimpaired_unless_told_otherwise():
    assert grid(1, 2).link("s1", "s2") == Link("s1", "s2", Cost.EXPENSIVE, 10.0)
    properties = {"bandwidth_mbit": None, "delay_ms": 20.0, "jitter_ms": 1.0, "loss": 0.1, "queue_packets": 7}
    for network in (grid(1, 2, **properties), clusters(2, 1, "star", **properties)):
        assert network.link("s1", "s2") == Link("s1", "s2", Cost.EXPENSIVE, **properties)


def test_access_links_are_cheap_and_unlimited():
    assert grid(1, 2).link("h1", "s1") == Link("h1", "s1")


def test_figure_3_1_has_a_server_without_a_host_in_the_centre():
    network = figure_3_1(delay_ms=5.0)
    assert [link.name for link in network.links] == ["h1-s1", "h2-s2", "h3-s3", "s1-s4", "s2-s4", "s3-s4"]
    assert network.clusters == (("h1",), ("h2",), ("h3",))
    assert network.link("s1", "s4").delay_ms == 5.0


def test_figure_3_2_is_a_tree_of_six_clusters():
    network = figure_3_2()
    assert expensive(network) == ["s1-s2", "s1-s3", "s2-s4", "s2-s5", "s3-s6"]
    assert [len(cluster) for cluster in network.clusters] == [3, 2, 3, 2, 2, 2]


def test_repairing_the_path_of_figure_3_2_joins_clusters_c_and_l():
    c, l_ = ("h6", "h7", "h8"), ("h11", "h12")
    assert {c, l_} <= set(figure_3_2().clusters)
    assert c + l_ in figure_3_2(repaired=True).clusters
    assert not figure_3_2(repaired=True).link("s3", "s5").expensive


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: grid(0, 2), "rows must be at least 1, not 0"),
        (lambda: grid(2, -1), "cols must be at least 1, not -1"),
        (lambda: grid(2, 2, 0), "hosts_per_switch must be at least 1, not 0"),
        (lambda: clusters(0, 1, "line"), "k must be at least 1, not 0"),
        (lambda: clusters(2, 0, "line"), "size must be at least 1, not 0"),
        (lambda: clusters(2, 1, "line", 0), "switches_per_cluster must be at least 1, not 0"),
        (
            lambda: clusters(2, 1, "torus"),
            "there is no shape 'torus': choose one of line, ring, star, tree, mesh, grid",
        ),
        (
            lambda: grid(10**6, 10**6),
            "rows=1000000, cols=1000000, hosts_per_switch=1 is too large: a network has at most 65535 hosts",
        ),
        (lambda: grid(1, 1, 1), "network 'grid-1x1x1': a broadcast needs at least two hosts"),
    ],
)
def test_bad_sizes_and_shapes_are_refused_with_a_sentence(build, sentence):
    with pytest.raises(NetworkError) as error:
        build()
    assert str(error.value) == sentence
