"""The routes, tried on switches made of dictionaries and compared with another way to find the shortest paths."""

import itertools

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.routes import Changes, Flow, Port, arp_reply, changes, every_port, routes
from hostagent.contract.wire import COST_DSCP
from tests.controller.fakes import FakeSwitches
from topologies.builders import clusters, figure_3_1, figure_3_2, grid
from topologies.network import Cost, Link, Network, group_address

# More than any path has hops, so that one expensive link outweighs them all.
EXPENSIVE_WEIGHT = 1000


@st.composite
def random_networks(draw: st.DrawFn) -> Network:
    """A random tree of switches with more links thrown in, of both costs, and hosts anywhere."""
    switches = [f"s{number}" for number in range(draw(st.integers(1, 7)))]
    pairs = {(draw(st.sampled_from(switches[:number])), switches[number]) for number in range(1, len(switches))}
    possible = list(itertools.combinations(switches, 2))
    pairs |= draw(st.sets(st.sampled_from(possible))) if possible else set()
    trunks = [Link(a, b, draw(st.sampled_from(Cost))) for a, b in sorted(pairs)]
    homes = draw(st.lists(st.sampled_from(switches), min_size=2, max_size=6))
    hosts = [f"h{number}" for number in range(len(homes))]
    access = [Link(host, home) for host, home in zip(hosts, homes, strict=True)]
    return Network("random", tuple(hosts), tuple(switches), tuple(draw(st.permutations(trunks + access))))


NETWORKS = st.one_of(
    random_networks(),
    st.builds(grid, st.integers(1, 4), st.integers(2, 4)),
    st.builds(clusters, st.integers(2, 5), st.integers(2, 3), st.sampled_from(["line", "ring", "mesh"]), st.integers(1, 2)),
    st.sampled_from([figure_3_1(), figure_3_2(), figure_3_2(repaired=True)]),
)


@st.composite
def port_states(draw: st.DrawFn, count: int) -> tuple[Network, list[frozenset[Port]]]:
    """A network and what becomes of its ports, step by step."""
    network = draw(NETWORKS)
    ports = sorted(every_port(network))
    few_down = st.sets(st.sampled_from(ports), max_size=max(1, len(ports) // 3))
    return network, [every_port(network) - draw(few_down) for _ in range(count)]


def usable_graph(network: Network, up: frozenset[Port]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((*network.hosts, *network.switches))
    for link in network.links:
        ends = [(link.a, link.b), (link.b, link.a)]
        if all((here, network.ports[here][there]) in up for here, there in ends if here in network.ports):
            graph.add_edge(link.a, link.b, weight=EXPENSIVE_WEIGHT * link.expensive + 1)
    return graph


@given(port_states(1))
def test_packets_take_the_cheapest_then_shortest_path_and_arrive_whenever_there_is_one(case):
    network, [up] = case
    graph = usable_graph(network, up)
    switches = FakeSwitches(network, up, routes(network, up))
    for source, destination in itertools.permutations(network.hosts, 2):
        walk = switches.walk(source, destination)
        assert walk.arrived == nx.has_path(graph, source, destination)
        if walk.arrived:
            best = nx.shortest_path_length(graph, source, destination, weight="weight")
            assert nx.path_weight(graph, walk.nodes, "weight") == best
            assert walk.dscp == (COST_DSCP if best >= EXPENSIVE_WEIGHT else 0)


@given(port_states(4))
def test_changes_alone_keep_the_tables_as_if_computed_from_scratch(case):
    network, steps = case
    now = routes(network, every_port(network))
    switches = FakeSwitches(network, every_port(network), now)
    for up in steps:
        before, now = now, routes(network, up, now)
        switches.apply(changes(before, now))
        assert now == routes(network, up)
        assert switches.tables == FakeSwitches(network, up, now).tables


@given(port_states(2))
def test_only_flows_that_differ_are_sent(case):
    before, after = (routes(case[0], up) for up in case[1])
    todo = changes(before, after)
    assert set(todo.add) == set(after) - set(before)
    gone = {(flow.switch, flow.address) for flow in before} - {(flow.switch, flow.address) for flow in after}
    assert {(flow.switch, flow.address) for flow in todo.delete} == gone
    assert len(todo.delete) == len(gone)
    assert len(todo.add) == len(set(todo.add))


@st.composite
def groups_of(draw: st.DrawFn, network: Network) -> dict[int, tuple[str, ...]]:
    """Some groups of some hosts, none empty."""
    members = st.lists(st.sampled_from(network.hosts), min_size=1, unique=True).map(tuple)
    return dict(enumerate(draw(st.lists(members, min_size=1, max_size=3)), start=1))


@given(port_states(1), st.data())
def test_a_packet_for_a_group_reaches_every_member_that_can_be_reached_once_and_nobody_else(case, data):
    network, [up] = case
    groups, graph = data.draw(groups_of(network)), usable_graph(network, up)
    switches = FakeSwitches(network, up, routes(network, up, groups=groups))
    for (number, members), source in itertools.product(groups.items(), network.hosts):
        copies, crossings = switches.multicast(source, group_address(number))
        assert sorted(copy.host for copy in copies) == sorted(
            host for host in members if host != source and nx.has_path(graph, source, host)
        )
        assert len({frozenset(crossing) for crossing in crossings}) == len(crossings), "a link was crossed twice"


@given(port_states(1), st.data())
def test_exactly_the_copies_that_crossed_an_expensive_link_are_marked(case, data):
    network, [up] = case
    groups = data.draw(groups_of(network))
    switches = FakeSwitches(network, up, routes(network, up, groups=groups))
    for number, source in itertools.product(groups, network.hosts):
        copies, crossings = switches.multicast(source, group_address(number))
        tree = nx.Graph(crossings)
        tree.add_node(network.access_switch(source))
        for copy in copies:
            way = nx.shortest_path(tree, network.access_switch(source), network.access_switch(copy.host))
            paid = any(network.link(a, b).expensive for a, b in itertools.pairwise(way))
            assert copy.dscp == (COST_DSCP if paid else 0)


@given(NETWORKS)
def test_a_packet_for_everybody_crosses_one_expensive_link_for_each_further_cluster(network):
    switches = FakeSwitches(network, every_port(network), routes(network, every_port(network), groups={0: network.hosts}))
    joined = nx.Graph()
    for source in network.hosts:
        _, crossings = switches.multicast(source, group_address(0))
        joined.add_edges_from(crossings)
        paid = [crossing for crossing in crossings if network.link(*crossing).expensive]
        assert len(paid) >= network.lower_bound
        if len(network.switches) == len({network.access_switch(host) for host in network.hosts}):
            assert len(paid) == network.lower_bound, "every switch has hosts, so the tree is a minimum spanning tree"


@given(port_states(3), st.data())
def test_changes_keep_the_flows_of_groups_as_if_computed_from_scratch(case, data):
    network, steps = case
    now = routes(network, every_port(network), groups=data.draw(groups_of(network)))
    switches = FakeSwitches(network, every_port(network), now)
    for up in steps:
        before, now = now, routes(network, up, now, data.draw(groups_of(network)))
        switches.apply(changes(before, now))
        assert switches.tables == FakeSwitches(network, up, now).tables


def test_a_source_outside_its_group_sends_towards_the_tree():
    network = clusters(4, 1, "line")
    switches = FakeSwitches(network, every_port(network), routes(network, every_port(network), groups={1: ("h3", "h4")}))
    copies, crossings = switches.multicast("h1", group_address(1))
    assert crossings == [("s1", "s2"), ("s2", "s3"), ("s3", "s4")]
    assert {copy.host for copy in copies} == {"h3", "h4"}


def test_a_link_with_one_port_down_is_used_in_neither_direction():
    network = clusters(3, 1, "ring")
    up = every_port(network) - {Port("s1", network.ports["s1"]["s2"])}
    switches = FakeSwitches(network, up, routes(network, up))
    assert switches.walk("h1", "h2").nodes == ("h1", "s1", "s3", "s2", "h2")
    assert switches.walk("h2", "h1").nodes == ("h2", "s2", "s3", "s1", "h1")


def test_packets_for_a_host_whose_port_is_down_are_dropped_by_the_first_switch():
    network = clusters(3, 1, "line")
    up = every_port(network) - {Port("s3", network.ports["s3"]["h3"])}
    assert FakeSwitches(network, up, routes(network, up)).walk("h1", "h3").nodes == ("h1", "s1")


def test_losing_a_link_leaves_the_trees_that_did_not_cross_it_alone():
    network = clusters(4, 1, "mesh")
    before = routes(network, every_port(network))
    after = routes(network, every_port(network) - {Port("s1", network.ports["s1"]["s2"])}, before)
    kept = [switch for switch in network.switches if after.trees[switch] is before.trees[switch]]
    assert kept == ["s3", "s4"]


def test_changes_are_shared_out_by_switch():
    one, other = Flow("s1", "10.0.0.1", cheap=(1,), expensive=()), Flow("s2", "10.0.0.1", cheap=(), expensive=(3,))
    shares = Changes((one, other), (one,)).by_switch()
    assert shares == {"s1": Changes((one,), (one,)), "s2": Changes((other,), ())}


def test_the_fake_switches_notice_a_loop():
    network = clusters(2, 1, "line")
    address, to_s2, to_s1 = network.addresses["h2"], network.ports["s1"]["s2"], network.ports["s2"]["s1"]
    broken = (Flow("s1", address, (), (to_s2,)), Flow("s2", address, (), (to_s1,)))
    with pytest.raises(AssertionError, match="a loop"):
        FakeSwitches(network, every_port(network), broken).walk("h1", "h2")


def test_arp_is_answered_for_other_hosts_of_the_network_only():
    network = clusters(2, 1, "line")
    assert arp_reply(network, "10.0.0.1", "10.0.0.2") == "02:00:0a:00:00:02"
    assert arp_reply(network, "10.0.0.1", "10.0.0.1") is None
    assert arp_reply(network, "10.0.0.1", "10.0.0.3") is None
