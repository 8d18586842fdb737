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


def last_delivered_ns(network, workload):
    """When each host has delivered the last message; each delivers all."""
    core = PROTOCOLS["sequencer"]
    outcome = simulate(Scenario(network=find(network), workload=workload), core, core.Parameters(), 1)
    found = {}
    for host in find(network).hosts:
        moments = [event.at_ns for where, event in outcome.events if (where, event.event) == (host, "deliver")]
        assert len(moments) == workload.messages
        found[host] = max(moments)
    return found


def test_at_three_times_what_the_links_carry_half_of_what_they_carry_arrives_at_the_least():
    """A link between two LANs carries 570 messages a second to two hosts, and its queue holds 100 datagrams."""
    workload = Workload(messages=1600, interval=0.625, payload=1024, settle=20_000.0)
    ends_ns = last_delivered_ns("clusters:k=3,size=2,shape=ring", workload)
    assert max(ends_ns.values()) < 2 * 1600 / 570 * 1e9


def test_links_that_lose_datagrams_without_being_full_do_not_slow_it_down():
    """5,000 messages a second; each copy is lost with a probability of 4 %."""
    ends_ns = last_delivered_ns("lan:hosts=5,loss=2%", Workload(messages=3000, interval=0.2, settle=5000.0))
    assert max(ends_ns.values()) < 1.2 * 3000 * 0.2e6
