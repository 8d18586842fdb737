"""Whole runs: what comes out of them, and that one seed gives one run."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Basic
from scenarios import Scenario, Workload
from scenarios.faults import Crash, Flap, LinkDown, Pause, Trigger
from simulator.cases import run
from simulator.engine import CROSSING, simulate
from simulator.faults import Healing
from simulator.swarm import draw_case
from topologies import find
from topologies.paths import path

ROOT = Path(__file__).parents[2]
SEEDS = range(12)
FEW = range(4)
BARE = {"links": "none"}


def simulated(topology, protocol="basic", faults=(), seed=1, messages=5, sources=(), parameters=None, **options):
    workload = Workload(messages=messages, interval=50.0, payload=64, settle=1000.0)
    scenario = Scenario(network=find(topology), sources=sources, faults=tuple(faults), workload=workload)
    core = PROTOCOLS[protocol]
    return simulate(scenario, core, core.Parameters(**(parameters or {})), seed, **options)


def deliveries(outcome):
    return Counter((host, event.origin, event.sequence) for host, event in outcome.events if event.event == "deliver")


@pytest.mark.parametrize("topology", ["grid:rows=2,cols=3,hosts=2", "clusters:k=3,size=2,shape=ring,delay=5ms"])
def test_without_loss_everything_is_delivered_once_with_two_datagrams_for_each_other_host(topology):
    """The first paper, section 1: 2 (n - 1) datagrams."""
    outcome = simulated(topology)
    hosts = outcome.world.network.hosts
    assert deliveries(outcome) == Counter((host, "h1", n) for host in hosts for n in range(1, 6))
    assert sum(counters["sent"] for counters in outcome.counters.values()) == 5 * 2 * (len(hosts) - 1)
    assert sum(counters["received"] for counters in outcome.counters.values()) == 5 * 2 * (len(hosts) - 1)
    assert not outcome.world.vanished


def test_crossings_show_every_packet_on_every_link_of_its_path():
    outcome = simulated("grid:rows=2,cols=2", "best-effort", messages=1, crossings=True, parameters=BARE)
    rows = [dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings]
    network = outcome.world.network
    for host in network.hosts[1:]:
        links = [row["link"] for row in rows if row["destination"] == host]
        assert links == [link.name for link in path(network, "h1", host)]
    assert {row["purpose"] for row in rows} == {"data"}
    assert {row["dscp"] for row in rows if row["expensive"]} == {3}
    # A payload of 64 bytes behind 36 of our header, 3 of MessagePack, and 42 of Ethernet, IPv4 and UDP.
    assert {row["bytes"] for row in rows} == {64 + 36 + 3 + 42}


def test_a_run_goes_on_until_everything_has_settled():
    flap = Flap(at_ms=500, link="s1-s2", times=2, down_ms=100, up_ms=100)
    assert simulated("clusters:k=2,size=1,shape=line").ended_ns == 1_200_000_000
    assert simulated("clusters:k=2,size=1,shape=line", faults=[flap]).ended_ns == 1_800_000_000


def test_a_healed_run_delivers_what_faults_kept_away():
    down = LinkDown(at_ms=0, link="s1-s2")
    cut_off = simulated("clusters:k=2,size=1,shape=line", faults=[down])
    healed = simulated("clusters:k=2,size=1,shape=line", faults=[down], healing=Healing(10_000))
    assert (len(deliveries(cut_off)), len(deliveries(healed))) == (5, 12)


def test_half_way_through_healing_every_source_that_is_up_broadcasts_once_more():
    shape, faults = "clusters:k=2,size=2,shape=line", [Crash(at_ms=500, host="h3")]
    outcome = simulated(shape, faults=faults, healing=Healing(10_000), messages=2, sources=("h1", "h3"))
    healed_ns = outcome.faults[-1].applied_ns
    again = [(host, event.at_ns - healed_ns) for host, event in outcome.events if event.event == "broadcast"][2:]
    assert again == [("h1", 5_000_000_000), ("h3", 5_000_000_000)]
    assert deliveries(outcome) == Counter((h, s, n) for h in outcome.world.network.hosts for s in ("h1", "h3") for n in (1, 2))


def test_where_every_source_stays_dead_the_first_host_that_lives_broadcasts():
    shape, healing = "clusters:k=2,size=2,shape=line", Healing(10_000, dead=("h1", "h2"))
    outcome = simulated(shape, healing=healing, messages=2, sources=("h1", "h2"))
    broadcasts = [(host, event.sequence) for host, event in outcome.events if event.event == "broadcast"]
    assert broadcasts == [("h1", 1), ("h2", 1), ("h3", 1)]
    assert [host for host, origin, _ in deliveries(outcome) if origin == "h3"] == ["h3", "h4"]


def test_faults_that_never_came_are_told():
    never = Crash(host="h2", when=Trigger("leader"))
    assert simulated("clusters:k=2,size=1,shape=line", faults=[never]).unfired == [never]


def test_hosts_sample_as_agents_do_and_say_that_they_stop():
    outcome = simulated("clusters:k=2,size=1,shape=line", faults=[Pause(at_ms=500, host="h2")], sample_ms=400)
    logged = {host: [event for where, event in outcome.events if where == host] for host in ("h1", "h2")}
    assert [event.at_ns // 1_000_000 for event in logged["h1"] if event.event == "sample"] == [0, 400, 800, 1200, 1500]
    assert [event.at_ns // 1_000_000 for event in logged["h2"] if event.event == "sample"] == [0, 400]
    assert logged["h1"][-1].event == "stop"
    assert "stop" not in [event.event for event in logged["h2"]]
    assert set(logged["h1"][1].details) == {"sent", "items"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_gives_the_same_run_again_and_another_seed_another(protocol):
    cases = [draw_case(protocol, seed)[0] for seed in SEEDS]
    once, again = ([run(case) for case in cases] for _ in range(2))
    assert once == again
    assert len({result.trace for result in once}) == len(SEEDS)


def test_a_seed_gives_the_same_trace_whatever_the_hashes_of_the_process():
    program = (
        "from simulator.cases import run; from simulator.swarm import draw_case\n"
        f"for protocol in {tuple(PROTOCOLS)}:\n for seed in {tuple(FEW)}:\n"
        "  print(run(draw_case(protocol, seed)[0]).trace)"
    )

    def traces(hash_seed):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()

    assert len(traces("1")) == len(PROTOCOLS) * len(FEW)
    assert traces("1") == traces("2")


def test_the_seed_of_a_run_decides_what_is_lost():
    def outcome(seed):
        return simulated("clusters:k=2,size=3,shape=line,loss=30%", "best-effort", seed=seed, messages=20, parameters=BARE)

    assert outcome(1).world.trace_hash == outcome(1).world.trace_hash
    assert deliveries(outcome(1)) != deliveries(outcome(2))


def test_a_source_that_crashes_takes_its_message_up_again_unharmed():
    """What is stored and sent again is what was broadcast, byte for byte: the repaired copies are as long as the first."""
    faults = [Crash(host="h1", when=Trigger("send", host="h1", nth=1))]
    outcome = simulated("clusters:k=2,size=2,shape=line", faults=faults, healing=Healing(10_000), crossings=True, messages=1)
    rows = [dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings]
    assert {row["purpose"] for row in rows} == {"data", "repair", "control"}
    assert len({row["bytes"] for row in rows if row["kind"] == 0}) == 1
    assert deliveries(outcome) == Counter((host, "h1", number) for host in outcome.world.network.hosts for number in (1, 2))


def test_a_thousand_hosts_do_not_take_a_million_sets():
    outcome = simulated("clusters:k=100,size=10,shape=tree,queue=1000", messages=1)
    assert len(deliveries(outcome)) == 1000
    assert {event.details["items"] for host, event in outcome.events if event.event == "sample" and host != "h1"} <= {0, 1}


def test_the_promise_of_basic_holds_in_a_simple_run():
    case, _ = draw_case(Basic.name, 0)
    assert run(case).judgement.verdict == "holds"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_source_that_is_offered_more_than_the_network_carries_slows_down_and_loses_nothing(name):
    """Four times as much as the link of the source can carry."""
    core, network = PROTOCOLS[name], find("lan:hosts=3,bandwidth=1mbit")
    workload = Workload(messages=800, interval=0.5, payload=64, settle=20_000.0)
    outcome = simulate(Scenario(network=network, workload=workload), core, core.Parameters(), 1)
    logged = Counter((event.event, host) for host, event in outcome.events)
    assert logged["broadcast", "h1"] == 800
    assert not any(event.event == "held-back" for _, event in outcome.events)
    if name != "fan":
        assert [logged["deliver", host] - logged["take-back", host] for host in network.hosts] == [800] * 3
