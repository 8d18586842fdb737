"""The failure detector: heartbeats, time-outs, and what it does when it was wrong."""

import msgspec
import pytest

from hostagent.contract.core import Core
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Promise
from hostagent.parts.detector import Detector, DetectorParameters, Heartbeat
from hostagent.protocols.lazy_reliable import LazyReliable
from tests.hostagent.world import World

PERIOD_S = 1.0


class Watcher(Core):
    """Does nothing but watch."""

    name = "watcher"
    number = 211
    messages = Detector.messages
    Parameters = DetectorParameters

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.detector = self.add(
            "detector", lambda own: Detector(own, parameters, lambda: Heartbeat(0, env.host, 0, 1), self.on_suspect)
        )

    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.detector.heard(sender)

    @classmethod
    def promise(cls, parameters, hosts):
        return Promise(guarantees=(), patience_ms=parameters.detection_ms, retained=hosts)

    def on_broadcast(self, sequence, payload):
        """Nobody asks."""

    def on_suspect(self, host):
        self.env.trace("told", host=host)


@pytest.fixture
def world() -> World:
    return World(Watcher, 3)


def suspicions(world: World, host: str) -> list[tuple[str, str]]:
    return [(event, details["host"]) for event, details in world[host].traced if event != "told"]


def pass_time(world: World, seconds: float, *silent: str) -> None:
    """Let timers expire, and what is sent arrive, except from the silent ones."""
    end_s = world.now_s + seconds
    while min(at for host in world.hosts for at in world[host].timers.values()) < end_s:
        world.expire()
        world.in_flight = [packet for packet in world.in_flight if packet.sender not in silent]
        world.settle()
    world.now_s = end_s


def test_every_host_sends_every_other_a_heartbeat_each_period(world):
    pass_time(world, 10 * PERIOD_S)
    pairs = [(packet.sender, packet.to) for packet in world.sent]
    assert {packet.purpose for packet in world.sent} == {Purpose.CONTROL}
    assert all(9 <= pairs.count((one, two)) <= 11 for one in world.hosts for two in world.hosts if one != two)
    assert not any(world[host].traced for host in world.hosts)


def test_heartbeats_do_not_leave_in_bursts():
    world = World(Watcher, 6)
    while len(world.sent) < 60:
        sent = len(world.sent)
        world.expire()
        assert len(world.sent) == sent + 1


def test_a_silent_host_is_suspected_by_all_after_its_time_out_and_no_later_than_stated(world):
    pass_time(world, 3 * PERIOD_S)
    silent_s, parameters = world.now_s, world.parameters
    while not all(suspicions(world, host) for host in ("h1", "h2")):
        pass_time(world, 0.1, "h3")
        waited_ms = 1000 * (world.now_s - silent_s)
        if any(suspicions(world, host) for host in ("h1", "h2")):
            # Its last heartbeat may have come a period before it fell silent.
            assert waited_ms >= parameters.timeout_ms - parameters.period_ms
        assert waited_ms <= parameters.timeout_ms + 2 * parameters.period_ms
    assert [suspicions(world, host) for host in ("h1", "h2")] == [[("suspect", "h3")]] * 2
    assert ("told", {"host": "h3"}) in world["h1"].traced


def test_a_host_is_suspected_once_however_long_it_is_silent(world):
    pass_time(world, 60, "h3")
    assert suspicions(world, "h1") == [("suspect", "h3")]


def test_any_message_is_a_sign_of_life_and_takes_a_suspicion_back(world):
    pass_time(world, 10, "h3")
    world["h1"].core.on_message("h3", Heartbeat(0, "h3", 0, 1), expensive=False)
    assert suspicions(world, "h1") == [("suspect", "h3"), ("trust", "h3")]
    assert not world["h1"].core.detector.suspected


def test_the_time_out_of_a_host_grows_with_each_mistake_up_to_the_longest(world):
    waits = []
    for _ in range(6):
        world["h1"].core.on_message("h3", Heartbeat(0, "h3", 0, 1), expensive=False)
        since_s = world.now_s
        while "h3" not in world["h1"].core.detector.suspected:
            pass_time(world, 0.5, "h3")
        waits.append(world.now_s - since_s)
    assert waits[0] < waits[1] < waits[2]
    assert waits[-1] <= world.parameters.detection_ms / 1000 + 0.5
    assert waits[-1] == pytest.approx(waits[-2], abs=PERIOD_S)
    assert "h2" not in world["h1"].core.detector.suspected


def test_neither_a_clock_that_jumps_nor_a_pause_makes_a_host_suspect_the_others(world):
    pass_time(world, 5)
    world.now_s += 3600
    pass_time(world, 5)
    assert not any(suspicions(world, host) for host in world.hosts)


def test_a_host_that_restarts_trusts_all_again(world):
    pass_time(world, 10, "h3")
    world.restart("h1")
    assert not world["h1"].core.detector.suspected
    pass_time(world, 10, "h3")
    assert suspicions(world, "h1") == [("suspect", "h3")] * 2


def test_a_host_alone_watches_nobody():
    assert World(Watcher, 1).timers() == []


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"period_ms": 500, "timeout_ms": 500}, "timeout_ms=500 must be above period_ms=500, or every host is suspected"),
        ({"timeout_ms": 6000}, "longest_timeout_ms=5000 must not be below timeout_ms=6000: time-outs only grow"),
    ],
)
def test_time_outs_that_make_no_sense_are_refused_in_a_sentence(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        LazyReliable.check(msgspec.convert(parameters, DetectorParameters), ("h1", "h2"))
    LazyReliable.check(DetectorParameters(), ("h1", "h2"))
