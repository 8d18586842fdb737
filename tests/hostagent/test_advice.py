"""Advice: what hosts are told of the network before the start, and that it is enough for groups that change."""

from itertools import combinations

import pytest

from hostagent.contract.advice import Surroundings
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.propagation_graph.distances import distances_text, read_distances
from hostagent.protocols.propagation_graph.generator import BLIND, METHODS, generate, joined
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from tests.hostagent.world import World
from topologies import clusters, grid
from topologies.paths import distance


def distances(network):
    return lambda one, other: distance(network, one, other)


@pytest.mark.parametrize(
    "network", [grid(3, 4, 1), clusters(3, 3, "ring"), clusters(1, 3, "star")], ids=lambda network: network.name
)
def test_distances_are_the_same_after_being_written_and_read(network):
    far = distances(network)
    read = read_distances(distances_text(network.hosts, far), network.hosts)
    for one, other in combinations(network.hosts, 2):
        assert read(one, other) == read(other, one) == far(one, other)
    assert read(network.hosts[0], network.hosts[0]) == 0


def test_the_distances_of_a_large_grid_are_a_short_text():
    network = grid(10, 10, 1)
    assert len(distances_text(network.hosts, distances(network))) < 2000


@pytest.mark.parametrize("text", ["nonsense", "1.0 2.0|", "1.0|AAAA", "x|eJwDAAAAAAE=", "1.0|eJxjYGBgYGBgYGAAAAAHAAE="])
def test_other_texts_are_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match="these are not the distances between 4 hosts"):
        read_distances(text, ("h1", "h2", "h3", "h4"))


def test_a_protocol_gives_advice_only_where_it_needs_it_and_keeps_what_was_recorded():
    network = clusters(2, 2, "line")
    about = Surroundings(network.hosts, {}, distances(network))
    advised = {method: PropagationGraph.advised({"graph": method}, about) for method in METHODS}
    assert {method for method, parameters in advised.items() if "advice" not in parameters} == BLIND
    recorded = {"graph": "heuristic-2", "advice": "as recorded"}
    assert PropagationGraph.advised(recorded, about) == recorded
    assert all(core.advised({}, about) == {} for core in PROTOCOLS.values())


@pytest.mark.parametrize("method", METHODS)
def test_all_hosts_compute_the_graph_of_the_groups_of_the_moment(method):
    network, groups = grid(2, 3, 1), {1: ("h1", "h2", "h6"), 2: ("h2", "h4")}
    about = Surroundings(network.hosts, groups, distances(network))
    parameters = PropagationGraph.advised({"graph": method}, about)
    world = World(PropagationGraph, 6, groups=groups, **parameters)
    world["h5"].life.join(2)
    world["h5"].carry_out()
    world.settle()
    now = {"1": groups[1], "2": ("h2", "h4", "h5")}
    forest = joined(generate(now, network.hosts, method, distances(network)).parents)
    assert [world[host].core._place.tree.parents for host in world.hosts] == [forest] * 6
    world.broadcast("h1", to=2)
    world.settle()
    assert [host for host in world.hosts if world.delivered(host)] == ["h2", "h4", "h5"]
