"""What the sequencer claims to survive, and what it does not."""

from hostagent.protocols import PROTOCOLS
from scenarios import Scenario, Workload
from simulator.engine import simulate
from simulator.swarm import draw_case
from topologies import find

ELECT = {"failover": "elect"}


def test_with_failover_hosts_that_die_for_good_are_survived_and_without_it_they_are_beyond():
    kinds = [draw_case("sequencer", seed, ELECT) for seed in range(60)]
    assert any("crash-for-good" in drawn and not case.beyond for case, drawn in kinds)
    assert not any(
        "crash-for-good" in drawn and not case.beyond for case, drawn in (draw_case("sequencer", seed) for seed in range(60))
    )


def test_at_three_times_what_the_links_carry_half_of_what_they_carry_arrives_at_the_least():
    """A link between two LANs carries 570 messages a second to two hosts, and its queue holds 100 datagrams."""
    network, core = find("clusters:k=3,size=2,shape=ring"), PROTOCOLS["sequencer"]
    scenario = Scenario(network=network, workload=Workload(messages=1600, interval=0.625, payload=1024, settle=20_000.0))
    outcome = simulate(scenario, core, core.Parameters(), 1)
    delivered_ns = {
        host: [event.at_ns for where, event in outcome.events if (where, event.event) == (host, "deliver")]
        for host in network.hosts
    }
    assert [len(moments) for moments in delivered_ns.values()] == [1600] * 6
    assert max(map(max, delivered_ns.values())) - min(map(min, delivered_ns.values())) < 2 * 1600 / 570 * 1e9
