"""Routes: the fewest expensive links first, the fewest hops second, ties to the switch listed first."""

from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import SHAPES, Cost, Link, Network, clusters, next_hops, path


def names(links):
    return [link.name for link in links]


def detour(direct_cost):
    """A direct link s1-s2 and a cheap way around it over s3."""
    links = (Link("h1", "s1"), Link("h2", "s2"), Link("s1", "s2", direct_cost), Link("s1", "s3"), Link("s3", "s2"))
    return Network("detour", ("h1", "h2"), ("s1", "s2", "s3"), links)


def test_a_longer_cheap_path_beats_a_short_expensive_one():
    assert names(path(detour(Cost.EXPENSIVE), "h1", "h2")) == ["h1-s1", "s1-s3", "s3-s2", "h2-s2"]


def test_among_equally_cheap_paths_the_shorter_wins():
    assert names(path(detour(Cost.CHEAP), "h1", "h2")) == ["h1-s1", "s1-s2", "h2-s2"]


def test_a_tie_goes_to_the_switch_listed_first():
    ring = clusters(4, 1, "ring")
    assert next_hops(ring, "s3")["s1"] == "s2"
    assert next_hops(ring, "s1")["s3"] == "s2"


def test_unusable_links_are_avoided_and_unreachable_switches_left_out():
    ring = clusters(4, 1, "ring")
    assert next_hops(ring, "s1", lambda link: link.name != "s1-s2") == {"s4": "s1", "s3": "s4", "s2": "s3"}
    assert next_hops(ring, "s1", lambda link: "s3" not in {link.a, link.b}) == {"s2": "s1", "s4": "s1"}


@given(st.integers(1, 8), st.integers(2, 3), st.sampled_from(list(SHAPES)), st.integers(1, 3))
@settings(deadline=None)
def test_every_path_leads_from_source_to_destination_without_visiting_a_node_twice(k, size, shape, switches):
    network = clusters(k, size, shape, switches)
    for destination in network.hosts[1:]:
        node, visited = "h1", {"h1"}
        for link in path(network, "h1", destination):
            node = link.other(node)
            assert node not in visited
            visited.add(node)
        assert node == destination
