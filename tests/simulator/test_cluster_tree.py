"""The claims of the first paper about the cluster tree, in virtual time and in both modes."""

import dataclasses
from collections import Counter

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.judge import CHECKS, Verdict
from hostagent.contract.promises import Guarantee
from hostagent.protocols.cluster_tree import ClusterTree
from scenarios import Scenario, Workload
from scenarios.faults import Crash, DropMessage, Heal, LinkDown, LinkUp, Partition, Restart
from simulator.cases import history_of
from simulator.engine import CROSSING, simulate
from topologies import clusters, figure_3_2

PERIOD_MS = 1000.0


@pytest.fixture(params=["frugal", "literal"])
def run(request):
    """Simulate a stream from h1."""

    def in_this_mode(network, *faults, messages=100, interval=20.0, settle=8000.0, seed=1, payload=64, **parameters):
        workload = Workload(messages=messages, interval=interval, payload=payload, settle=settle)
        scenario = Scenario(network=network, faults=faults, workload=workload)
        chosen = ClusterTree.Parameters(**{"mode": request.param, **parameters})
        return simulate(scenario, ClusterTree, chosen, seed, crossings=True)

    return in_this_mode


def tree(outcome, host, source="h1"):
    return outcome.world.hosts[host].core.trees[source]


def delivered(outcome):
    """How many messages each host delivered."""
    return Counter(host for host, event in outcome.events if event.event == "deliver")


def expensive(outcome, purpose, after):
    """Host-to-host packets about messages above a number that crossed an expensive link."""
    rows = (dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings)
    chosen = (row for row in rows if row["expensive"] and row["purpose"] == purpose and row["sequence"] > after)
    return {(row["sender"], row["packet"]) for row in chosen}


def induces_cluster_tree(outcome, groups, source="h1"):
    """Section 4.1: one leader a cluster, whose parent is outside (or which is the source), and the others are its children."""
    for group in groups:
        leaders = [host for host in group if tree(outcome, host).parent not in group]
        if len(leaders) != 1 or any(tree(outcome, host).parent != leaders[0] for host in group if host not in leaders):
            return False
    return not tree(outcome, source).parent


@pytest.mark.parametrize(("k", "size", "shape"), [(4, 3, "ring"), (8, 3, "grid"), (5, 1, "star"), (6, 4, "mesh")])
def test_k_minus_one_expensive_data_packets_per_message_once_the_tree_stands(run, k, size, shape):
    """Section 3, claim 1. The tree stands after some periods; from then on the count is exact, and nothing is repaired."""
    outcome = run(clusters(k, size, shape), messages=400)
    assert len(expensive(outcome, "data", after=300)) == 100 * (k - 1)
    assert not expensive(outcome, "repair", after=300)


def test_the_parent_graph_induces_a_cluster_tree(run):
    """Section 4.1, claim 3."""
    network = clusters(5, 3, "ring")
    outcome = run(network)
    assert induces_cluster_tree(outcome, network.clusters)
    assert set(delivered(outcome).values()) == {100}


def test_a_source_cut_off_after_a_partial_broadcast_does_not_stop_the_others(run):
    """Section 1, claim 2: one leader alone has the last message when the source's cluster is cut off; the others get it from there."""
    network = clusters(3, 3, "ring")
    leader = next(host for host in network.clusters[1] if tree(run(network, messages=200), host).parent == "h1")
    others = [host for host in (*network.clusters[1], *network.clusters[2]) if host != leader]
    lost = [DropMessage(at_ms=3990, host=host, kind="Copy", nth=1) for host in others]
    outcome = run(network, *lost, Partition(at_ms=4060, sides=(("s1",),)), messages=201, settle=20_000.0)
    assert set(delivered(outcome).values()) == {201}


def test_a_host_whose_parent_is_cut_off_gets_what_the_parent_had_from_others(run):
    """h2 and h3 are children of h1, which is cut off when h3 has its message and h2 has lost it: nobody is ahead of h1, but h3 of h2."""
    network = clusters(3, 1, "mesh")
    lost = (DropMessage(at_ms=0, host="h2", kind="Copy", nth=nth) for nth in range(1, 11))
    outcome = run(network, *lost, Partition(at_ms=1500, sides=(("s1",),)), messages=1, settle=15_000)
    assert delivered(outcome) == dict.fromkeys(network.hosts, 1)
    assert (tree(outcome, "h2").highest("h1"), tree(outcome, "h2").parent) == (1, "h3")


def test_a_leader_that_dies_is_replaced_and_comes_back_as_a_member(run):
    """Section 3: the members of the cluster must come up with a new leader."""
    network = clusters(3, 3, "line")
    before = run(network, messages=50)
    leader = next(host for host in network.clusters[1] if tree(before, host).parent not in network.clusters[1])
    outcome = run(network, Crash(at_ms=3000, host=leader), Restart(at_ms=9000, host=leader), messages=400, settle=10_000.0)
    assert set(delivered(outcome).values()) == {400}
    assert induces_cluster_tree(outcome, network.clusters)


def test_clusters_that_merge_and_split_form_again(run):
    """Section 4.1, claim 5: a cheap path between C and L is repaired, and lost again."""
    network = figure_3_2(repaired=True)
    apart = figure_3_2().clusters
    joined = run(network, LinkDown(at_ms=0, link="s3-s5"), LinkUp(at_ms=4000, link="s3-s5"), messages=400)
    assert induces_cluster_tree(joined, network.clusters)
    split = run(network, LinkDown(at_ms=4000, link="s3-s5"), messages=400)
    assert induces_cluster_tree(split, apart)
    assert set(delivered(joined).values()) == set(delivered(split).values()) == {400}


def test_gaps_of_hosts_that_are_not_neighbours_are_filled(run):
    """Section 4.4, Figure 4.1, claim 7: both are children of the source, i lacks message 202, j lacks 201, and the source is cut off."""
    network = clusters(3, 1, "mesh")
    both_children = (
        seed for seed in range(100) if len(tree(run(network, messages=150, settle=500, seed=seed), "h1").children) == 2
    )
    outcome = run(
        network,
        DropMessage(at_ms=3990, host="h2", kind="Copy", nth=2),
        DropMessage(at_ms=3990, host="h3", kind="Copy", nth=1),
        Partition(at_ms=4045, sides=(("s1",),)),
        messages=203,
        settle=20_000.0,
        seed=next(both_children),
    )
    assert set(delivered(outcome).values()) == {203}


def test_a_brief_opening_of_a_partition_is_used(run):
    """Section 1, claim 9: two periods are enough."""
    outcome = run(
        clusters(2, 2, "line"),
        LinkDown(at_ms=2000, link="s1-s2"),
        LinkUp(at_ms=8000, link="s1-s2"),
        LinkDown(at_ms=8000 + 4 * PERIOD_MS, link="s1-s2"),
        messages=200,
    )
    assert set(delivered(outcome).values()) == {200}


def test_messages_that_everybody_has_are_forgotten(run):
    """Section 5: INFO sets and what is kept are pruned."""
    outcome = run(clusters(3, 2, "ring"), settle=10_000.0)
    assert not any(tree(outcome, host).payloads or tree(outcome, host).sent_s for host in outcome.world.network.hosts)


@pytest.mark.parametrize("mode", ["frugal", "literal"])
def test_at_rest_it_keeps_and_sends_no_more_than_it_states(mode):
    """With three sources, whose trees are three."""
    network, parameters = clusters(4, 3, "ring"), ClusterTree.Parameters(mode=mode)
    scenario = Scenario(network=network, sources=("h1", "h5", "h12"), workload=Workload(messages=60, settle=45_000.0))
    outcome = simulate(scenario, ClusterTree, parameters, 1)
    promise = ClusterTree.promise(parameters, 12)
    history, connectivity = history_of(outcome), Connectivity(network, outcome.faults, outcome.ended_ns)
    for guarantee in (Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY):
        assert guarantee in promise.guarantees
        finding = CHECKS[guarantee](history, promise, connectivity)
        assert (finding.verdict, finding.cases, finding.reason) == (Verdict.HOLDS, 12, "")


def test_links_that_lose_a_third_of_their_packets_are_repaired(run):
    outcome = run(clusters(3, 2, "ring", loss=0.3), Heal(at_ms=3000), settle=30_000.0)
    assert set(delivered(outcome).values()) == {100}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"ein_ms": 0}, "Expected `float` >= 0.1"),
        ({"pa_ms": 300.0}, "must be longer than 400"),
        ({"clusters_from": "static"}, "give both or neither"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, sentence):
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(parameters, ClusterTree.Parameters)


def expensive_control(outcome, after_s=0.0):
    """Control packets that crossed an expensive link."""
    rows = (dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings)
    chosen = (row for row in rows if row["expensive"] and row["purpose"] == "control" and row["at_ns"] >= after_s * 1e9)
    return {(row["sender"], row["packet"]) for row in chosen}


def frugal(network, *, messages, **more):
    workload = Workload(messages=messages, interval=20.0, payload=256, settle=1000.0)
    return simulate(
        Scenario(network=network, workload=workload, **more), ClusterTree, ClusterTree.Parameters(), 1, crossings=True
    )


@pytest.mark.parametrize(("k", "size"), [(4, 3), (8, 3), (6, 1)])
def test_frugal_control_is_a_twentieth_of_the_bound(k, size):
    """Everything that crosses an expensive link, over a thousand messages at 50 a second, the forming of the tree included."""
    outcome = frugal(clusters(k, size, "ring"), messages=1000)
    total = sum(len(expensive(outcome, purpose, after=-1)) for purpose in ("data", "repair", "control"))
    assert total <= 1.05 * 1000 * (k - 1)
    assert set(delivered(outcome).values()) == {1000}


def test_frugal_control_does_not_grow_with_the_hosts_of_a_cluster():
    """Once the tree stands, clusters of twelve cost what clusters of three do."""
    few, many = (len(expensive_control(frugal(clusters(4, size, "ring"), messages=500), after_s=4.0)) for size in (3, 12))
    assert many <= 1.2 * few


def test_a_new_leader_starts_with_the_parent_of_the_one_before():
    """It is attached again one question after the silence was noticed, while messages flow."""
    network = clusters(3, 3, "line")
    before = frugal(network, messages=100)
    leader = next(host for host in network.clusters[1] if tree(before, host).parent not in network.clusters[1])
    outcome = frugal(network, messages=300, faults=(Crash(at_ms=3000, host=leader),))
    parents = [(host, event) for host, event in outcome.events if event.event == "parent" and event.at_ns > 3e9]
    taken_over = next(event for host, event in parents if event.details["parent"] not in {"", *network.clusters[1]})
    assert taken_over.at_ns < 3e9 + 2e6 * ClusterTree.Parameters().pa_ms
    assert taken_over.details["parent"] == tree(before, leader).parent


def test_hosts_listed_at_random_find_their_clusters():
    """The list is only a hint: hosts of a LAN need not stand side by side in it."""
    network = clusters(3, 4, "ring")
    order = tuple(host for start in range(5) for host in network.hosts[start::5])
    shuffled = dataclasses.replace(network, name="shuffled", hosts=order)
    outcome = frugal(shuffled, messages=300)
    assert induces_cluster_tree(outcome, shuffled.clusters)


@pytest.mark.parametrize("mode", ["frugal", "literal"])
def test_transit_times_tell_clusters_apart_where_links_are_slow(mode):
    """Their error rate against the cost bit is in the event log."""
    network = clusters(3, 3, "ring", delay_ms=10.0)
    outcome = simulate(
        Scenario(network=network, workload=Workload(messages=400, interval=20.0)),
        ClusterTree,
        ClusterTree.Parameters(mode=mode, clusters_from="time-stamps"),
        1,
    )
    told = {host: event.details for host, event in outcome.events if event.event == "transit-times"}
    assert told.keys() == set(network.hosts)
    assert sum(details["wrongly"] for details in told.values()) < 0.05 * sum(details["judged"] for details in told.values())
    assert induces_cluster_tree(outcome, network.clusters)


@pytest.mark.parametrize("mode", ["frugal", "literal"])
def test_clusters_can_be_given_as_a_list_or_not_at_all(mode):
    """A static list gives a cluster tree of its own clusters; without any knowledge every host is a leader, and everything arrives."""
    network = clusters(3, 2, "ring")

    def with_knowledge(**parameters):
        workload = Workload(messages=200, interval=20.0)
        return simulate(
            Scenario(network=network, workload=workload), ClusterTree, ClusterTree.Parameters(mode=mode, **parameters), 1
        )

    listed = with_knowledge(clusters_from="static", clusters="h1,h2,h3|h4,h5,h6")
    assert induces_cluster_tree(listed, [network.hosts[:3], network.hosts[3:]])
    ignorant = with_knowledge(clusters_from="none")
    assert induces_cluster_tree(ignorant, [(host,) for host in network.hosts])
    assert set(delivered(listed).values()) == set(delivered(ignorant).values()) == {200}


@pytest.mark.parametrize(("clusters_are", "sentence"), [("h1,h9", "names 'h9', which is not one"), ("h1|h1", "names h1 twice")])
def test_a_list_of_clusters_must_fit_the_hosts(clusters_are, sentence):
    with pytest.raises(ValueError, match=sentence):
        ClusterTree.check(ClusterTree.Parameters(clusters_from="static", clusters=clusters_are), ("h1", "h2"))
