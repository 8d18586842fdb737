"""The claims of the first paper about the cluster tree, in virtual time."""

from collections import Counter

import msgspec
import pytest

from hostagent.protocols.cluster_tree import ClusterTree
from scenarios import Scenario, Workload
from scenarios.faults import Crash, DropMessage, Heal, LinkDown, LinkUp, Partition, Restart
from simulator.engine import CROSSING, simulate
from topologies import clusters, figure_3_2

PERIOD_MS = 1000.0


def run(network, *faults, messages=100, interval=20.0, settle=8000.0, seed=1, **parameters):
    workload = Workload(messages=messages, interval=interval, payload=64, settle=settle)
    scenario = Scenario(network=network, faults=faults, workload=workload)
    return simulate(scenario, ClusterTree, ClusterTree.Parameters(**parameters), seed, crossings=True)


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
def test_k_minus_one_expensive_data_packets_per_message_once_the_tree_stands(k, size, shape):
    """Section 3, claim 1. The tree stands after some periods; from then on the count is exact, and nothing is repaired."""
    outcome = run(clusters(k, size, shape), messages=400)
    assert len(expensive(outcome, "data", after=300)) == 100 * (k - 1)
    assert not expensive(outcome, "repair", after=300)


def test_the_parent_graph_induces_a_cluster_tree():
    """Section 4.1, claim 3."""
    network = clusters(5, 3, "ring")
    outcome = run(network)
    assert induces_cluster_tree(outcome, network.clusters)
    assert set(delivered(outcome).values()) == {100}


def test_a_source_cut_off_after_a_partial_broadcast_does_not_stop_the_others():
    """Section 1, claim 2: one leader alone has the last message when the source's cluster is cut off; the others get it from there."""
    network = clusters(3, 3, "ring")
    leader = next(host for host in network.clusters[1] if tree(run(network, messages=200), host).parent == "h1")
    others = [host for host in (*network.clusters[1], *network.clusters[2]) if host != leader]
    lost = [DropMessage(at_ms=3990, host=host, kind="Copy", nth=1) for host in others]
    outcome = run(network, *lost, Partition(at_ms=4060, sides=(("s1",),)), messages=201, settle=20_000.0)
    assert set(delivered(outcome).values()) == {201}


def test_a_leader_that_dies_is_replaced_and_comes_back_as_a_member():
    """Section 3: the members of the cluster must come up with a new leader."""
    network = clusters(3, 3, "line")
    before = run(network, messages=50)
    leader = next(host for host in network.clusters[1] if tree(before, host).parent not in network.clusters[1])
    outcome = run(network, Crash(at_ms=3000, host=leader), Restart(at_ms=9000, host=leader), messages=400, settle=10_000.0)
    assert set(delivered(outcome).values()) == {400}
    assert induces_cluster_tree(outcome, network.clusters)


def test_clusters_that_merge_and_split_form_again():
    """Section 4.1, claim 5: a cheap path between C and L is repaired, and lost again."""
    network = figure_3_2(repaired=True)
    apart = figure_3_2().clusters
    joined = run(network, LinkDown(at_ms=0, link="s3-s5"), LinkUp(at_ms=4000, link="s3-s5"), messages=400)
    assert induces_cluster_tree(joined, network.clusters)
    split = run(network, LinkDown(at_ms=4000, link="s3-s5"), messages=400)
    assert induces_cluster_tree(split, apart)
    assert set(delivered(joined).values()) == set(delivered(split).values()) == {400}


def test_gaps_of_hosts_that_are_not_neighbours_are_filled():
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


def test_a_brief_opening_of_a_partition_is_used():
    """Section 1, claim 9: two periods are enough."""
    outcome = run(
        clusters(2, 2, "line"),
        LinkDown(at_ms=2000, link="s1-s2"),
        LinkUp(at_ms=8000, link="s1-s2"),
        LinkDown(at_ms=8000 + 4 * PERIOD_MS, link="s1-s2"),
        messages=200,
    )
    assert set(delivered(outcome).values()) == {200}


def test_messages_that_everybody_has_are_forgotten():
    """Section 5: INFO sets and what is kept are pruned."""
    outcome = run(clusters(3, 2, "ring"), settle=10_000.0)
    assert not any(tree(outcome, host).payloads or tree(outcome, host).sent_s for host in outcome.world.network.hosts)


def test_links_that_lose_a_third_of_their_packets_are_repaired():
    outcome = run(clusters(3, 2, "ring", loss=0.3), Heal(at_ms=3000), settle=30_000.0)
    assert set(delivered(outcome).values()) == {100}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [({"ein_ms": 0}, "Expected `float` > 0.0"), ({"pa_ms": 100.0}, "must be longer than eic_ms=200")],
)
def test_parameters_that_make_no_sense_are_refused(parameters, sentence):
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(parameters, ClusterTree.Parameters)
