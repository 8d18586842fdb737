"""A host in virtual time keeps the promises of `hostagent.contract.core`."""

import pytest

from hostagent.contract.messages import Purpose
from scenarios.faults import Crash, Pause, Restart, Trigger
from tests.simulator.conftest import MS
from tests.simulator.scripted import Letter

THREE_SENDS = "send h2\nsend h3\nsend h4"


def when_sent(nth: int) -> Trigger:
    return Trigger("send", host="h1", nth=nth)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_after_a_crash_between_two_datagrams_the_rest_never_leaves(started, nth):
    stage = started(faults=[Crash(host="h1", when=when_sent(nth))])
    stage.tell("h1", THREE_SENDS)
    stage.run(1000)
    assert [host for host in ("h2", "h3", "h4") if stage.received(host)] == ["h2", "h3", "h4"][:nth]
    assert stage.world.hosts["h1"].counters["sent"] == nth


def test_a_crash_between_two_datagrams_leaves_what_the_call_stored_and_logged(started):
    stage = started(faults=[Crash(host="h1", when=when_sent(1))])
    stage.tell("h1", "send h2\nsend h3\nstore late 7\ntrace last")
    stage.run(1000)
    assert stage.world.hosts["h1"].stored == {"host/last broadcast": 1, "core/late": 7}
    assert stage.events("h1", "last")


def test_a_crash_at_an_event_comes_after_its_call_and_before_its_first_datagram(started):
    stage = started(faults=[Crash(host="h1", when=Trigger("deliver", host="h1"))])
    stage.tell("h1", "send h2\ndeliver\nstore late 7\ntimer t 0.001\nsend h3")
    stage.run(1000)
    host = stage.world.hosts["h1"]
    assert host.stored["core/late"] == 7
    assert host.counters["sent"] == 0
    assert not stage.timers("h1")


def test_a_host_that_dies_and_rises_at_one_event_sends_nothing_of_its_old_life(started):
    stage = started(faults=[Crash(host="h1", when=when_sent(1)), Restart(host="h1", when=when_sent(1))])
    stage.tell("h1", f"{THREE_SENDS}\ntimer t 0.01")
    stage.run(1000)
    assert stage.world.hosts["h1"].incarnation == 2
    assert stage.world.hosts["h1"].counters["sent"] == 1
    assert not stage.timers("h1")


def test_a_dead_host_receives_broadcasts_and_fires_nothing(started):
    stage = started()
    stage.tell("h1", "timer t 0.01")
    stage.run(1)
    stage.world.hosts["h1"].crash()
    stage.tell("h2", "send h1")
    stage.tell("h1", "trace asked")
    stage.run(100)
    assert not stage.events("h1", "timer", "message", "asked")
    assert stage.world.hosts["h1"].counters["unreachable"] == 1


def test_a_restart_gives_the_core_what_was_stored(started):
    stage = started()
    stage.tell("h1", "store a 1\nstore b 2\nstore a 0")
    stage.run(1)
    stage.world.hosts["h1"].crash()
    stage.world.hosts["h1"].start()
    assert stage.details("h1", "started")[-1] == {"keys": ["b"]}
    assert stage.details("h1", "start")[-1] == {"incarnation": 2}


def test_messages_are_numbered_on_after_a_restart_and_anew_after_the_storage_is_lost(started):
    stage = started()
    host = stage.world.hosts["h1"]
    for lost in (False, False, True, False):
        if lost:
            host.lose_storage()
        host.start()
        host.do(host.broadcast, b"")
        host.crash()
    assert [sequence for _, _, event, _, sequence, _ in stage.logged if event == "broadcast"] == [1, 2, 1, 2]


def test_starting_a_running_host_changes_nothing(started):
    stage = started()
    before = stage.world.hosts["h1"].core
    stage.world.hosts["h1"].start()
    assert stage.world.hosts["h1"].core is before


def test_packets_of_another_life_have_other_numbers(started):
    stage = started()
    host, numbers = stage.world.hosts["h1"], []
    stage.world.on_crossing = lambda _at, _pipe, packet: numbers.append(packet.number)
    host.do(host.broadcast, b"send h2")
    host.crash()
    host.start()
    host.do(host.broadcast, b"send h2")
    assert list(dict.fromkeys(numbers)) == [(1 << 32) + 1, (2 << 32) + 1]


@pytest.mark.parametrize("value", [b"\x00\xff", "text", 7, True, [1, [2]], {"a": {"b": b""}}, {1: 2}])
def test_a_value_comes_back_from_storage_as_it_was(started, value):
    host = started().world.hosts["h1"]
    host.do(host.core.env.store, "key", value)
    assert host.stored["core/key"] == value
    assert type(host.stored["core/key"]) is type(value)


def test_what_a_core_stored_is_not_shared_with_it(started):
    host = started().world.hosts["h1"]
    value = {"list": [1]}

    def store_and_change():
        host.core.env.store("key", value)
        value["list"].append(2)

    host.do(store_and_change)
    host.stored["core/key"]["list"].append(3)
    assert host.stored["core/key"] == {"list": [1]}


def test_what_a_core_sent_is_not_shared_with_it(started):
    stage = started()
    parts, seen = ["a"], []
    stage.world.hosts["h2"].core.on_message = lambda _sender, message, _expensive: seen.append(message.parts)
    host = stage.world.hosts["h1"]
    host.do(lambda: host.core.env.send("h2", Letter(0, "h1", 1, parts), Purpose.DATA))
    parts.append("b")
    stage.run(100)
    assert seen == [["a"]]


def test_what_waits_for_a_paused_host_happens_in_order_when_it_goes_on(started):
    stage = started()
    stage.tell("h1", "timer t 0.005")
    stage.run(1)
    host = stage.world.hosts["h1"]
    host.pause()
    stage.tell("h2", "send h1")
    stage.run(20)
    stage.tell("h2", "send h1")
    stage.tell("h1", "trace asked")
    stage.run(50)
    assert not stage.events("h1", "timer", "message", "asked")
    host.resume()
    assert stage.events("h1", "timer", "message", "asked") == [
        (50 * MS, "message"),
        (50 * MS, "timer"),
        (50 * MS, "asked"),
        (50 * MS, "message"),
    ]


def test_a_host_paused_between_two_datagrams_sends_the_rest_when_it_goes_on(started):
    stage = started(faults=[Pause(host="h1", when=when_sent(1))])
    stage.tell("h1", THREE_SENDS)
    stage.run(100)
    assert [len(stage.received(host)) for host in ("h2", "h3", "h4")] == [1, 0, 0]
    stage.world.hosts["h1"].resume()
    stage.run(200)
    assert [len(stage.received(host)) for host in ("h2", "h3", "h4")] == [1, 1, 1]


def test_what_waits_for_a_paused_host_dies_with_it(started):
    stage = started()
    host = stage.world.hosts["h1"]
    host.pause()
    stage.tell("h2", "send h1")
    stage.run(20)
    host.crash()
    host.start()
    stage.run(100)
    assert not stage.received("h1")


def test_a_host_that_dies_and_rises_while_it_goes_on_forgets_what_waited(started):
    at_first = Trigger("first", host="h1")
    stage = started(faults=[Crash(host="h1", when=at_first), Restart(host="h1", when=at_first)])
    host = stage.world.hosts["h1"]
    host.pause()
    stage.tell("h1", "trace first")
    stage.tell("h1", "trace second")
    stage.run(10)
    host.resume()
    assert host.incarnation == 2
    assert not stage.events("h1", "second")


def test_a_host_that_is_down_cannot_be_paused(started):
    host = started().world.hosts["h1"]
    host.crash()
    host.pause()
    host.start()
    assert not host.paused


def test_a_clock_is_off_and_drifts_from_when_it_is_set(started):
    stage = started()
    host = stage.world.hosts["h1"]
    stage.run(1000)
    assert host.clock.now() == 1.0
    host.set_clock(500 * MS, 1.1)
    assert host.clock.now() == 1.5
    stage.run(2000)
    assert host.clock.now() == pytest.approx(2.6)
    host.set_clock(0, 1.0)
    assert host.clock.now() == 2.0


def test_timers_run_by_the_hosts_own_clock(started):
    stage = started()
    stage.world.hosts["h1"].set_clock(3600_000 * MS, 2.0)
    stage.tell("h1", "timer t 0.1")
    stage.run(1000)
    assert stage.timers("h1") == [(50.0, "t")]


def test_timers_fire_once_in_the_order_of_their_times_unless_cancelled_or_moved(started):
    stage = started()
    stage.tell(
        "h1",
        "timer late 0.02\ntimer early 0.01\ntimer gone 0.005\ncancel gone\ncancel never\ntimer moved 0.001\ntimer moved 0.03",
    )
    stage.run(1000)
    assert stage.timers("h1") == [(10.0, "early"), (20.0, "late"), (30.0, "moved")]


def test_timers_die_with_their_host(started):
    stage = started()
    stage.tell("h1", "timer t 0.01")
    stage.run(5)
    stage.world.hosts["h1"].crash()
    stage.world.hosts["h1"].start()
    stage.run(100)
    assert not stage.timers("h1")


def test_randomness_is_of_the_seed_the_host_and_its_life(started):
    def draws(seed, host):
        there = started(seed=seed).world.hosts[host]
        first = there.core.env.random.random()
        there.crash()
        there.start()
        return first, there.core.env.random.random()

    assert draws(1, "h1") == draws(1, "h1")
    assert len({*draws(1, "h1"), *draws(1, "h2"), *draws(2, "h1")}) == 6
