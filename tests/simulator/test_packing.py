"""Packing in virtual time: as the agent does it, and the same again for the same seed."""

import itertools

import msgspec
import pytest

from hostagent.contract.wire import PACK
from hostagent.protocols import PROTOCOLS
from scenarios import Scenario, Workload
from scenarios.faults import Crash, DropMessage, DuplicateMessage, Pause, Trigger
from simulator.cases import run
from simulator.engine import CROSSING, simulate
from simulator.swarm import PACK_MS, draw_case
from tests.simulator.conftest import MS
from topologies import find

NEAR = "clusters:k=2,size=2,shape=line"


def counted(stage, host, *names):
    return tuple(stage.world.hosts[host].counters[name] for name in names)


def stream(pack_ms, protocol="best-effort", seed=1, topology="clusters:k=2,size=3,shape=line"):
    """Two hundred messages a second for a second."""
    workload = Workload(messages=200, interval=5.0, payload=64, settle=3000.0)
    core = PROTOCOLS[protocol]
    scenario = Scenario(network=find(topology), workload=workload)
    parameters = core.Parameters(**({"links": "none"} if protocol == "best-effort" else {}))
    return simulate(scenario, core, parameters, seed, crossings=True, pack_ms=pack_ms)


def rows(outcome):
    return [dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings]


def delivered(outcome):
    return sum(counters["delivered"] for counters in outcome.counters.values())


@pytest.mark.parametrize(("pack_ms", "datagrams"), [(None, 4), (0.0, 2)])
def test_what_a_call_sends_to_a_host_is_one_datagram_and_arrives_in_one_call(started, pack_ms, datagrams):
    stage = started(NEAR, pack_ms=pack_ms)
    stage.tell("h1", "send h2 answer\nsend h3\nsend h2 answer\nsend h2 answer")
    stage.run(100)
    assert stage.received("h2") == [("h1", 1)] * 3
    assert stage.received("h1") == [("h2", 1)] * 3
    assert counted(stage, "h1", "sent", "sent_data", "messages") == (datagrams, datagrams, 4)
    assert counted(stage, "h2", "received") == counted(stage, "h2", "sent") == (datagrams - 1,)


def test_a_host_with_a_wait_sends_the_first_at_once_and_the_next_together(started):
    stage = started(NEAR, pack_ms=20.0)
    for at_ms in (0, 5, 10, 100):
        stage.tell("h1", "send h2", at_ms)
    stage.run(1000)
    arrivals = [at_ns // MS for at_ns, _ in stage.events("h2", "message")]
    assert arrivals == [0, 20, 20, 100]
    assert counted(stage, "h1", "sent", "messages") == (3, 4)


def test_what_is_held_dies_with_its_host(started):
    stage = started(NEAR, pack_ms=20.0)
    for at_ms in (0, 5):
        stage.tell("h1", "send h2", at_ms)
    stage.run(10)
    stage.world.hosts["h1"].crash()
    stage.world.hosts["h1"].start()
    stage.tell("h1", "send h2", at_ms=5)
    stage.run(1000)
    assert stage.received("h2") == [("h1", 1), ("h1", 3)]


def test_what_is_held_while_a_host_is_paused_leaves_when_it_goes_on(started):
    stage = started(NEAR, pack_ms=20.0)
    for at_ms in (0, 5):
        stage.tell("h1", "send h2", at_ms)
    stage.run(10)
    stage.world.hosts["h1"].pause()
    stage.run(300)
    assert stage.received("h2") == [("h1", 1)]
    stage.world.hosts["h1"].resume()
    stage.run(310)
    assert stage.received("h2") == [("h1", 1), ("h1", 2)]


def test_a_datagram_that_leaves_is_an_event_for_each_message_in_it(started):
    """The host dies at the second message: after the pack that carries it, and before the next datagram."""
    stage = started(NEAR, faults=[Crash(host="h1", when=Trigger("send", host="h1", nth=2))])
    stage.tell("h1", "send h2\nsend h2\nsend h2\nsend h3")
    stage.run(100)
    assert (len(stage.received("h2")), len(stage.received("h3"))) == (3, 0)
    assert counted(stage, "h1", "sent", "messages") == (1, 3)


def test_messages_after_the_one_that_ends_a_host_are_nobodys_event(started):
    faults = [Crash(host="h1", when=Trigger("send", host="h1")), Pause(host="h2", when=Trigger("send", host="h1", nth=2))]
    stage = started(NEAR, faults=faults)
    stage.tell("h1", "send h3\nsend h3")
    stage.run(100)
    assert [record.fault for record in stage.player.records] == ["crash"]


@pytest.mark.parametrize(("fault", "heard"), [(DropMessage, 2), (DuplicateMessage, 4)])
def test_a_fault_at_the_door_finds_its_message_in_a_pack_which_is_received_all_the_same(started, fault, heard):
    stage = started(NEAR, faults=[fault(at_ms=0, host="h2", kind="Copy", nth=2)])
    stage.tell("h1", "send h2\nsend h2\nsend h2", at_ms=1)
    stage.run(100)
    assert len(stage.received("h2")) == heard
    assert counted(stage, "h2", "received", "refused_injected") == (1, 0)


def test_a_pack_that_faults_leave_empty_is_received(started):
    stage = started(NEAR, faults=[DropMessage(at_ms=0, host="h2", kind="Copy", nth=nth) for nth in (1, 2)])
    stage.tell("h1", "send h2\nsend h2", at_ms=1)
    stage.run(100)
    assert not stage.received("h2")
    assert counted(stage, "h2", "received", "refused_injected") == (1, 0)


def test_a_stream_with_a_wait_is_delivered_whole_for_a_fraction_of_the_packets():
    outcome = stream(25.0)
    assert delivered(outcome) == 200 * 6
    seen = rows(outcome)
    expensive = {(row["sender"], row["packet"]) for row in seen if row["expensive"]}
    # Five messages in 25 ms to each of three remote hosts: a fifth of a packet each, and the first and the last ones.
    assert 3 * 200 / 5 <= len(expensive) < 0.25 * 3 * 200
    assert {row["kind"] for row in seen} == {0, PACK}
    assert {row["purpose"] for row in seen} == {"data"}
    counters = outcome.counters["h1"]
    assert counters["messages"] == 5 * 200
    assert counters["sent"] == len({(row["sender"], row["packet"]) for row in seen})


def test_a_crossing_of_a_pack_is_about_the_message_that_its_header_names():
    packs = [row for row in rows(stream(25.0)) if row["kind"] == PACK and row["target"] == "h2"]
    assert [row["sequence"] for row in packs] == [2 + 5 * number for number in range(len(packs))]
    # Each message takes a byte more than its body of 67, the first 15 more; in front are 3 of the pack, 36 of our header, 42 of others.
    assert {row["bytes"] for row in packs[:-1]} == {5 * (1 + 67) + 15 + 3 + 36 + 42}


def test_without_packing_and_with_none_to_do_the_same_packets_cross():
    assert [stream(None).crossings == stream(0.0).crossings, delivered(stream(None))] == [True, 1200]


@pytest.mark.parametrize("pack_ms", [None, 0.0, 10.0])
def test_a_seed_gives_the_same_run_again_however_packed(pack_ms):
    def trace(seed):
        return stream(pack_ms, "basic", seed, "clusters:k=2,size=3,shape=line,loss=20%,delay=3ms").world.trace_hash

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_one_case_in_four_has_a_wait_and_a_case_keeps_it_in_its_file():
    cases = [draw_case("basic", seed)[0] for seed in range(200)]
    waiting = [case for case in cases if case.pack_ms]
    assert 30 <= len(waiting) <= 70
    assert {case.pack_ms for case in waiting} == {PACK_MS}
    for case in (waiting[0], msgspec.structs.replace(waiting[0], pack_ms=None)):
        assert msgspec.json.decode(msgspec.json.encode(case), type=type(case)) == case


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_keep_their_promises_however_their_messages_are_packed(protocol):
    cases = [case for seed in range(30) if not (case := draw_case(protocol, seed)[0]).beyond][:10]
    ways = list(itertools.product(cases, (None, 50.0)))
    judged = [run(msgspec.structs.replace(case, pack_ms=pack_ms)).judgement for case, pack_ms in ways]
    assert [judgement.reasons for judgement in judged if judgement.verdict == "violated"] == []
    # Of twenty runs, most tell something.
    assert sum(judgement.verdict == "holds" for judgement in judged) > 10
