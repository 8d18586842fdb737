"""Best-effort broadcast, Algorithm 3.1 of the second paper, directly on datagrams."""

import pytest

from hostagent.messages import Purpose
from hostagent.protocols.best_effort import BestEffort
from tests.hostagent.world import World


@pytest.fixture
def world() -> World:
    return World(BestEffort, 4)


def test_one_copy_to_every_other_host_and_nothing_more(world):
    """Algorithm 3.1: n - 1 datagrams."""
    world.broadcast("h2", b"text")
    world.settle()
    assert [(packet.to, packet.purpose) for packet in world.sent] == [(host, Purpose.DATA) for host in ("h1", "h3", "h4")]
    assert [world[host].delivered for host in world.hosts] == [[("h2", 1, b"text")]] * 4
    assert not world.timers()


def test_a_lost_datagram_is_a_lost_message(world):
    world.broadcast("h1")
    world.lose(to="h3")
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 0, 1]
    assert not world.timers()


def test_a_duplicate_is_not_delivered(world):
    """The paper's property "no duplication"."""
    world.broadcast("h1")
    world.duplicate()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)]] * 4


def test_a_duplicate_is_not_delivered_after_a_restart_either(world):
    for _ in range(3):
        world.broadcast("h1")
    late = [packet for packet in world.in_flight if packet.to == "h2"]
    world.settle()
    world.restart("h2")
    world.in_flight = late
    world.settle()
    assert world.delivered("h2") == [("h1", 1), ("h1", 2), ("h1", 3)]


def test_messages_beyond_a_lost_one_are_remembered_across_a_restart(world):
    for _ in range(3):
        world.broadcast("h1")
    first, *late = [packet for packet in world.in_flight if packet.to == "h2"]
    world.in_flight = late
    world.settle()
    world.restart("h2")
    world.in_flight = [*late, first, *late]
    world.settle()
    assert world.delivered("h2") == [("h1", 2), ("h1", 3), ("h1", 1)]
    assert world["h2"].stored == {"delivered/h1": 3}
