"""Lazy reliable broadcast, as the second paper's code does it: relay only what came from those who are suspected."""

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.detector import Heartbeat
from hostagent.parts.links import Letter
from hostagent.protocols.lazy_reliable import LazyReliable
from tests.analysis.stage import Stage
from tests.hostagent.world import World

HELLO = ("h1", 1)


@pytest.fixture
def world() -> World:
    return World(LazyReliable, 4)


def letters(world: World, sender: str) -> list[Purpose]:
    return [packet.purpose for packet in world.sent if packet.sender == sender and isinstance(packet.message, Letter)]


def suspect(world: World, host: str, suspected: str) -> None:
    """Have a host suspect another by letting its own time pass without a message from there."""
    detector = world[host].core.detector
    while suspected not in detector.suspected:
        detector.on_timer("heartbeat")
        for other in detector.env.peers:
            if other != suspected:
                detector.heard(other)
    world.lose(kind=Heartbeat)


def kept(world: World, host: str) -> int:
    in_memory = sum(map(len, world[host].core.kept.values()))
    assert in_memory == len([key for key in world[host].stored if key.startswith("kept/")])
    return in_memory


@pytest.mark.parametrize("hosts", [1, 2, 4, 7])
def test_without_failures_only_the_sender_sends(hosts):
    """N - 1 letters, and n - 1 acknowledgements."""
    world = World(LazyReliable, hosts)
    world.broadcast("h1")
    world.settle()
    assert [packet.purpose for packet in world.sent] == [Purpose.DATA] * (hosts - 1) + [Purpose.CONTROL] * (hosts - 1)
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * hosts


def test_what_came_from_a_host_is_passed_on_when_it_is_suspected(world):
    """(1 + f)(n - 1) letters where f hosts relay; those of relays count as repair."""
    world.broadcast("h1")
    world.lose(to="h3")
    world.lose(to="h4")
    world.hand_over()
    world.lose()
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 0, 0]
    suspect(world, "h2", "h1")
    assert letters(world, "h2") == [Purpose.REPAIR] * 3
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


def test_what_comes_from_a_host_that_is_already_suspected_is_passed_on_at_once(world):
    suspect(world, "h2", "h1")
    world.broadcast("h1")
    world.hand_over()
    assert letters(world, "h2") == [Purpose.REPAIR] * 3
    assert kept(world, "h2") == 0
    # It was a sign of life, too.
    assert not world["h2"].core.detector.suspected


def test_what_was_relayed_is_passed_on_again_when_the_relay_is_suspected_too(world):
    """What counts is whom a message came from, not who broadcast it."""
    world.broadcast("h1")
    world.in_flight = world.in_flight[:1]
    world.hand_over()
    world.lose()
    suspect(world, "h2", "h1")
    world.in_flight = [packet for packet in world.in_flight if packet.to == "h3"]
    world.hand_over()
    world.lose()
    suspect(world, "h3", "h2")
    world.settle()
    assert world.delivered("h4") == [HELLO]


def test_a_wrong_suspicion_costs_packets_and_nothing_else(world):
    world.broadcast("h1")
    world.settle()
    suspect(world, "h2", "h1")
    world.settle()
    assert letters(world, "h2") == [Purpose.REPAIR] * 3
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


def test_a_message_is_kept_until_its_sender_says_that_everybody_has_it(world):
    for _ in range(3):
        world.broadcast("h1")
    world.lose(to="h4")
    world.settle()
    world["h1"].core.detector.on_timer("heartbeat")
    world.settle()
    assert kept(world, "h2") == 3
    while kept(world, "h2") or kept(world, "h3"):
        world.expire()
        world.settle()
    assert world.delivered("h4") == [("h1", number) for number in (1, 2, 3)]


def test_what_is_kept_survives_a_restart_and_is_relayed_then(world):
    world.broadcast("h1", b"text")
    world.in_flight = world.in_flight[:1]
    world.hand_over()
    world.lose()
    world.restart("h2")
    assert kept(world, "h2") == 1
    suspect(world, "h2", "h1")
    world.settle()
    assert world["h4"].delivered == [("h1", 1, b"text")]


def test_a_message_that_was_relayed_is_no_longer_kept_for_that(world):
    world.broadcast("h1")
    world.settle()
    suspect(world, "h2", "h1")
    assert kept(world, "h2") == 0
    sent = len(letters(world, "h2"))
    world["h2"].core.detector.heard("h1")
    suspect(world, "h2", "h1")
    assert len(letters(world, "h2")) == sent


@pytest.mark.parametrize("crashed", ["h1", "h2"])
def test_crash_restart_and_a_second_crash_leave_all_who_live_with_the_same(crashed):
    stage = Stage(LazyReliable, 4)
    for _ in range(3):
        stage.broadcast("h1")
    stage.lose("h4")
    stage.run(0.1)
    stage.crash(crashed)
    stage.run(2)
    stage.restart(crashed)
    stage.run(0.5)
    stage.crash("h1")
    stage.run(30)
    delivered = [{e[4] for e in stage.events if e[0] == host and e[2] == "deliver"} for host in ("h2", "h3", "h4")]
    assert delivered == [{1, 2, 3}] * 3
