"""Uniform reliable broadcast, Algorithm 3.4 (all-ack) of the second paper."""

from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.detector import Heartbeat
from hostagent.protocols.uniform import Uniform
from hostagent.runtime.memory import retained_items
from tests.hostagent.test_lazy_reliable import suspect
from tests.hostagent.world import World

HELLO = ("h1", 1)


@pytest.fixture
def world() -> World:
    return World(Uniform, 4)


@pytest.mark.parametrize("hosts", [1, 2, 4, 7])
def test_every_host_sends_every_message_to_every_other_once(hosts):
    """Algorithm 3.4: n (n - 1) letters."""
    world = World(Uniform, hosts)
    world.broadcast("h1", b"text")
    world.settle()
    purposes = [packet.purpose for packet in world.sent]
    assert purposes.count(Purpose.DATA) == purposes.count(Purpose.CONTROL) == hosts * (hosts - 1)
    assert [world[host].delivered for host in world.hosts] == [[("h1", 1, b"text")]] * hosts
    assert not any(world[host].core.pending or world[host].core.acks for host in world.hosts)
    assert not any(world[host].stored for host in world.hosts)
    assert not any(key.startswith("letter") for host in world.hosts for key in world[host].kept("core.links"))


def test_nobody_delivers_before_every_host_is_known_to_have_the_message(world):
    """The paper's canDeliver: not even the sender."""
    world.broadcast("h1")
    held = [packet for packet in world.in_flight if packet.to == "h4"]
    world.in_flight = [packet for packet in world.in_flight if packet.to != "h4"]
    while world.in_flight:
        world.hand_over()
        held += [packet for packet in world.in_flight if packet.to == "h4"]
        world.in_flight = [packet for packet in world.in_flight if packet.to != "h4"]
    assert [world.delivered(host) for host in world.hosts] == [[]] * 4
    world.in_flight = held
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


def test_a_suspected_host_is_not_waited_for(world):
    world.broadcast("h1")
    world.lose(to="h4")
    while world.in_flight:
        world.hand_over()
        world.lose(to="h4")
    for host in ("h1", "h2", "h3"):
        suspect(world, host, "h4")
        world.lose(to="h4")
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 1, 0]


def test_a_host_that_was_suspected_wrongly_still_gets_what_was_delivered_without_it(world):
    """What the protocol does when the detector errs: it is owed the message by every host that has it."""
    test_a_suspected_host_is_not_waited_for(world)
    for _ in range(20):
        world.expire()
        world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


def test_a_trusted_host_is_waited_for_again(world):
    suspect(world, "h1", "h4")
    world["h1"].core.on_message("h4", Heartbeat(0, "h4", 0, 1), expensive=False)
    world.broadcast("h1")
    world.lose(to="h4")
    while world.in_flight:
        world.hand_over()
        world.lose(to="h4")
    assert world.delivered("h1") == []


def test_who_has_a_message_survives_a_restart(world):
    """Links bring a copy once: who forgot it would wait for ever."""
    world.broadcast("h1")
    for _ in range(3):
        world.hand_over()
    for host in world.hosts:
        world.restart(host)
    for _ in range(30):
        world.settle()
        world.expire()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4


@pytest.mark.parametrize("seed", range(20))
def test_every_host_delivers_every_message_once_under_loss_duplication_reordering_and_restarts(seed):
    random = Random(seed)
    world = World(Uniform, random.randint(2, 5), seed)
    world.suffer(random, most_sent=200)
    end_s = world.now_s + Uniform.promise(world.parameters, len(world.hosts)).patience_ms / 1000
    while world.now_s < end_s:
        world.expire()
        world.settle()
    assert not world.lacking()
    promise = Uniform.promise(world.parameters, len(world.hosts))
    assert max(retained_items(world[host].core) for host in world.hosts) <= promise.retained
