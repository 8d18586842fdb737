"""Eager reliable broadcast, Algorithm 3.3 of the second paper."""

from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.links import Letter
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.runtime.memory import retained_items
from tests.hostagent.world import World

HELLO = ("h1", 1)


@pytest.fixture
def world() -> World:
    return World(EagerReliable, 4)


@pytest.mark.parametrize("hosts", [1, 2, 4, 7])
def test_every_host_sends_every_message_to_every_other_once(hosts):
    """Algorithm 3.3: n (n - 1) letters."""
    world = World(EagerReliable, hosts)
    world.broadcast("h1", b"text")
    world.settle()
    purposes = [packet.purpose for packet in world.sent]
    assert purposes.count(Purpose.DATA) == purposes.count(Purpose.CONTROL) == hosts * (hosts - 1)
    assert [world[host].delivered for host in world.hosts] == [[("h1", 1, b"text")]] * hosts
    assert not world.timers()


def test_a_sender_that_dies_half_way_leaves_nobody_without_the_message(world):
    """Agreement: whoever has it passes it on."""
    world.broadcast("h1")
    world.lose(to="h3")
    world.lose(to="h4")
    world.hand_over()
    world.in_flight = [packet for packet in world.in_flight if "h1" not in {packet.sender, packet.to}]
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


def test_a_host_that_restarts_goes_on_passing_on(world):
    world.broadcast("h1")
    world.in_flight = [packet for packet in world.in_flight if packet.to == "h2"]
    world.hand_over()
    world.lose()
    world.restart("h2")
    world.settle()
    assert {packet.sender for packet in world.sent if isinstance(packet.message, Letter)} >= {"h2", "h3", "h4"}
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


@pytest.mark.parametrize("seed", range(20))
def test_every_host_delivers_every_message_once_under_loss_duplication_reordering_and_restarts(seed):
    random = Random(seed)
    world = World(EagerReliable, random.randint(2, 5), seed)
    world.suffer(random, most_sent=200)
    while world.timers():
        world.expire()
        world.settle()
    assert not world.lacking()
    promise = EagerReliable.promise(world.parameters, len(world.hosts))
    assert max(retained_items(world[host].core) for host in world.hosts) <= promise.retained
