"""The multicast medium in virtual time: one datagram to a group, copied by switches along the tree of its members."""

from collections import Counter

import pyarrow.parquet as pq
import pytest

from hostagent.contract.messages import EVERYBODY
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import load
from scenarios import Scenario, Workload
from scenarios.faults import ControllerStart, ControllerStop
from simulator.cases import run
from simulator.swarm import draw_case
from simulator.world import REROUTING_NS
from testbed.running import simulated
from testbed.running.tasks import Task
from tests.hostagent.recording import Grouped
from tests.simulator.conftest import MS
from topologies import grid
from topologies.network import group_name

ALPHA = 1
MESSAGES = 4
PARAMETERS = {"best-effort": {"links": "none"}, "basic": {}}
REROUTED_MS = REROUTING_NS / MS


@pytest.fixture
def grouped(started):
    """Four hosts on a square of switches, of which h1 and h2 are a group that hosts join and leave as they like."""
    return started("grid:rows=2,cols=2", Grouped, groups={ALPHA: ("h1", "h2")}, multicasts=True)


def heard(stage):
    """How many datagrams each host has received, and how many found no listener there."""
    counters = [host.counters for host in stage.world.hosts.values()]
    return [counted["received"] for counted in counters], [counted["unreachable"] for counted in counters]


def test_a_host_that_has_not_joined_a_group_hears_nothing_of_it_though_the_tree_leads_there(grouped):
    grouped.world.set_members(ALPHA, grouped.world.network.hosts)
    grouped.tell("h1", to=ALPHA, at_ms=REROUTED_MS)
    grouped.run(100)
    assert heard(grouped) == ([0, 1, 0, 0], [0, 0, 1, 1])


def test_packets_go_to_the_new_members_when_the_routes_are_new(grouped):
    grouped.world.hosts["h3"].do(grouped.world.hosts["h3"].life.join, ALPHA)
    grouped.world.set_members(ALPHA, ("h1", "h3"))
    for at_ms in (0, REROUTED_MS):
        grouped.tell("h1", to=ALPHA, at_ms=at_ms)
    grouped.run(100)
    assert heard(grouped) == ([0, 1, 1, 0], [0, 0, 0, 0])


def test_a_controller_that_was_down_learns_of_new_members_when_it_starts(grouped):
    grouped.player.inject(ControllerStop())
    grouped.world.set_members(ALPHA, ("h1", "h3"))
    grouped.world.hosts["h3"].do(grouped.world.hosts["h3"].life.join, ALPHA)
    grouped.tell("h1", to=ALPHA, at_ms=100)
    grouped.run(200)
    assert heard(grouped)[0] == [0, 1, 0, 0]
    grouped.player.inject(ControllerStart())
    grouped.tell("h1", to=ALPHA, at_ms=REROUTED_MS)
    grouped.run(300)
    assert heard(grouped)[0] == [0, 1, 1, 0]


def test_a_host_that_leaves_or_restarts_hears_what_its_present_view_says(grouped):
    h2 = grouped.world.hosts["h2"]
    h2.do(h2.life.leave, ALPHA)
    grouped.tell("h1", to=ALPHA)
    grouped.run(50)
    assert heard(grouped) == ([0, 0, 0, 0], [0, 1, 0, 0])
    h2.crash()
    grouped.tell("h1", to=ALPHA)
    grouped.run(100)
    # This core stores no view, so a new life begins with the groups of the scenario.
    h2.start()
    grouped.tell("h1", to=ALPHA)
    grouped.run(150)
    assert heard(grouped) == ([0, 1, 0, 0], [0, 2, 0, 0])


def test_a_packet_that_comes_back_to_its_sender_is_refused_and_counted(started):
    """The packet is on its way from s2 to s3 when the first link of its way fails, and goes on along the new tree, to s4 and to s1."""
    stage = started("clusters:k=4,size=1,shape=ring,delay=30ms", Grouped, multicasts=True)
    stage.tell("h1")
    stage.run(35)
    stage.world.set_link("s1", "s2", up=False)
    stage.run(300)
    assert [stage.world.hosts["h1"].counters[name] for name in ("received", "refused_from_itself")] == [0, 1]


def test_members_that_change_on_a_network_that_does_not_multicast_change_no_route(started):
    stage = started("grid:rows=2,cols=2", Grouped, groups={ALPHA: ("h1", "h2")})
    stage.world.set_members(ALPHA, ("h1", "h3"))
    stage.tell("h1", to=ALPHA, at_ms=100)
    stage.run(200)
    assert heard(stage) == ([0, 1, 0, 0], [0, 0, 0, 0])


def is_marked(network, row):
    """Whether a copy must have the cost bit, on a network where every switch is a cluster: if it is not on its first switch any more."""
    return row["expensive"] or row["source"] not in {row["sender"], network.access_switch(row["sender"])}


@pytest.mark.parametrize("protocol", PARAMETERS)
def test_a_message_on_a_lossless_grid_is_one_datagram_with_the_fewest_crossings_and_right_cost_bits(protocol, tmp_path):
    """One packet and k - 1 crossings of expensive links per message, and every cost bit right."""
    network = grid(3, 3, 2)
    scenario = Scenario(network=network, sources=("h1", "h9"), workload=Workload(messages=MESSAGES, interval=50.0))
    task = Task("test", scenario, {}, protocol, PARAMETERS[protocol], 1, tmp_path / "run", pack_ms=None, medium="multicast")
    simulated.run(task, lambda *_: None)
    recorded = load(tmp_path / "run")
    assert recorded.run.medium == "multicast"
    assert sum(counters["sent_data"] for counters in recorded.counters.values()) == MESSAGES
    rows = [row for row in pq.read_table(tmp_path / "run" / "crossings.parquet").to_pylist() if row["purpose"] == "data"]
    assert {row["destination"] for row in rows} == {group_name(EVERYBODY)}
    assert sum(row["expensive"] for row in rows) == MESSAGES * network.lower_bound
    assert Counter(row["target"] for row in rows if row["target"] in network.numbers) == {
        host: MESSAGES - scenario.sources.count(host) * MESSAGES // 2 for host in network.hosts
    }
    assert [row for row in rows if (row["dscp"] == COST_DSCP) != is_marked(network, row)] == []


@pytest.mark.parametrize("protocol", ["basic", "best-effort"])
def test_the_case_of_a_seed_differs_in_the_medium_alone_and_keeps_its_promises_on_both(protocol):
    for seed in range(6):
        (unicast, kinds), (multicast, same) = draw_case(protocol, seed), draw_case(protocol, seed, medium="multicast")
        assert (unicast.faults, unicast.topology, kinds) == (multicast.faults, multicast.topology, same)
        if not multicast.beyond:
            assert run(multicast).judgement.verdict != "violated"
