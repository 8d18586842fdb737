"""The least that any protocol has to pay, by the destinations of messages. Clusters c0 = {h1, h2}, c1 = {h3, h4}, ... in a line."""

import pytest

from analysis.figures.lower_bounds import lower_bounds
from analysis.judging.history import BroadcastEvent, History
from topologies import clusters, grid

LINE = clusters(4, 2, "line")


def bounds(*sent, network=LINE, multicasts=False, messages=None):
    """The bounds of messages, each an origin and its destinations."""
    broadcasts = (BroadcastEvent(0, origin, sequence, to=to) for sequence, (origin, *to) in enumerate(sent))
    broadcasts = tuple(each._replace(to=tuple(each.to) or None) for each in broadcasts)
    return lower_bounds(network, History(network.hosts, broadcasts, (), 0), multicasts=multicasts, messages=messages)


@pytest.mark.parametrize("network", [LINE, grid(3, 3), clusters(5, 3, "ring")])
def test_messages_for_everybody_cost_k_minus_1_and_stay_whole_numbers(network):
    least = network.lower_bound
    for found in (bounds(("h1",), ("h2",), network=network), bounds(network=network)):
        assert found == (least, least)
        assert all(isinstance(bound, int) for bound in found)
    assert bounds(("h1",), network=network, multicasts=True) == (1, least), "one datagram reaches all clusters"


def test_only_the_clusters_of_the_destinations_count():
    assert bounds(("h1", "h1", "h2")) == (0, 0)
    assert bounds(("h1", "h3", "h4")) == (1, 1)
    assert bounds(("h1", "h2", "h3", "h5")) == (2, 2)
    assert bounds(("h1", "h1", "h2"), multicasts=True) == (0, 0)


def test_a_packet_to_a_far_cluster_crosses_several_links():
    assert bounds(("h1", "h7")) == (1, 3)
    assert bounds(("h1", "h7"), multicasts=True) == (1, 3)


def test_the_bound_of_a_run_is_the_mean_over_its_messages():
    assert bounds(("h1",), ("h1", "h3")) == (2, 2)
    assert bounds(("h1", "h2"), ("h1", "h3")) == (0.5, 0.5)
    assert bounds(("h1", "h2"), ("h1", "h3"), messages={("h1", 1)}) == (1, 1)
