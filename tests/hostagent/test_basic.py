"""The simple solution of the first paper, section 1."""

import itertools
from random import Random

import pytest

from hostagent.contract.environment import Environment
from hostagent.contract.messages import Purpose
from hostagent.parts.delivery import Copy
from hostagent.protocols.basic import Ack, Basic
from tests.hostagent.world import World

HELLO = ("h1", 1)


@pytest.fixture
def world() -> World:
    return World(Basic, 4)


def nothing_is_kept(world: World) -> bool:
    cores = [world[host].core for host in world.hosts]
    memory = any(core.unacknowledged or core.copies or core.wait_ms for core in cores)
    stored = any(key.startswith("message/") for host in world.hosts for key in world[host].stored)
    return not memory and not stored and not world.timers()


def test_a_copy_to_every_host_and_an_acknowledgement_from_each(world):
    """Section 1: 2 (n - 1) datagrams when nothing is lost."""
    world.broadcast("h1")
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4
    assert [packet.purpose for packet in world.sent] == [Purpose.DATA] * 3 + [Purpose.CONTROL] * 3
    assert nothing_is_kept(world)


def test_the_source_delivers_its_own_message_at_once(world):
    world.broadcast("h1", b"text")
    assert world["h1"].delivered == [("h1", 1, b"text")]


def test_a_lost_copy_is_repeated_as_repair_and_only_to_who_lacks_it(world):
    """Section 1: sent again until acknowledged."""
    world.broadcast("h1")
    assert world.lose(to="h3") == 1
    world.settle()
    world.expire()
    assert [(packet.to, packet.purpose) for packet in world.in_flight] == [("h3", Purpose.REPAIR)]
    world.settle()
    assert world.delivered("h3") == [HELLO]
    assert nothing_is_kept(world)


def test_each_repetition_begins_with_another_host(world):
    """A queue that is shorter than the burst drops the same places of every burst, and hosts that are dead never leave it."""
    world.broadcast("h1")
    orders = []
    for _ in range(3):
        world.lose()
        world.expire()
        orders.append([packet.to for packet in world.in_flight])
    assert orders == [["h3", "h4", "h2"], ["h4", "h2", "h3"], ["h2", "h3", "h4"]]


def test_a_lost_acknowledgement_leads_to_a_second_copy_but_no_second_delivery(world):
    world.broadcast("h1")
    for _ in range(3):
        world.hand_over()
    assert world.lose(kind=Ack) == 3
    world.expire()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4
    assert nothing_is_kept(world)


def test_the_wait_doubles_up_to_the_longest():
    world = World(Basic, 2, retry_ms=100, longest_retry_ms=500)
    world.broadcast("h1")
    for wait_s in (0.1, 0.2, 0.4, 0.5, 0.5):
        world.lose()
        assert wait_s <= world.expire() <= 1.1 * wait_s
    assert [packet.purpose for packet in world.sent] == [Purpose.DATA] + [Purpose.REPAIR] * 5


def test_messages_broadcast_together_are_not_repeated_together():
    world = World(Basic, 2)
    for _ in range(3):
        world.broadcast("h1")
    assert len(set(world["h1"].timers.values())) == 3


def test_everything_may_arrive_twice(world):
    world.broadcast("h1")
    world.duplicate()
    for _ in range(6):
        world.hand_over()
    world.duplicate()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[HELLO]] * 4
    assert nothing_is_kept(world)


def test_a_restarted_source_goes_on_with_what_was_not_acknowledged(world):
    world.broadcast("h1", b"text")
    world.lose()
    world.restart("h1")
    assert {(packet.to, packet.purpose) for packet in world.in_flight} == {(host, Purpose.REPAIR) for host in ("h2", "h3", "h4")}
    world.settle()
    assert [world[host].delivered for host in world.hosts] == [[("h1", 1, b"text")]] * 4
    assert nothing_is_kept(world)


def test_a_source_that_restarts_after_everybody_acknowledged_sends_nothing(world):
    world.broadcast("h1")
    world.settle()
    world.restart("h1")
    assert not world.in_flight


def test_a_restarted_receiver_acknowledges_again_and_does_not_deliver_again(world):
    world.broadcast("h1")
    for _ in range(3):
        world.hand_over()
    world.lose(kind=Ack)
    world.restart("h2")
    world.expire()
    world.settle()
    assert world.delivered("h2") == [HELLO]
    assert nothing_is_kept(world)


def test_a_source_cut_off_after_a_partial_broadcast_leaves_the_others_without_the_message(world):
    """Section 1: nobody else repeats it, until the source is back."""
    world.broadcast("h1")
    world.lose(to="h3")
    world.lose(to="h4")
    world.settle()
    for _ in range(10):
        world.expire()
        world.lose()
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 0, 0]
    world.expire()
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 1, 1]


def test_an_acknowledgement_of_a_message_of_another_source_acknowledges_nothing_of_ours(world):
    world.broadcast("h1")
    world.broadcast("h2")
    world["h1"].core.on_message("h3", Ack(0, "h2", 1), expensive=False)
    assert list(world["h1"].core.unacknowledged[1]) == ["h2", "h3", "h4"]


def test_an_acknowledgement_of_what_was_never_sent_changes_nothing(world):
    world["h1"].core.on_message("h3", Ack(0, "h1", 9), expensive=False)
    assert nothing_is_kept(world)


def test_a_host_alone_keeps_nothing():
    world = World(Basic, 1)
    world.broadcast("h1")
    assert world.delivered("h1") == [HELLO]
    assert nothing_is_kept(world)


def test_a_message_of_number_zero_is_nobodys_message(world):
    world["h2"].core.on_message("h1", Copy(0, "h1", 0, b""), expensive=False)
    assert world.delivered("h2") == []


def test_what_is_stored_per_delivery_does_not_grow_behind_a_gap(monkeypatch):
    """A message that is never repaired must not make every later one dearer."""
    world = World(Basic, 2)
    sizes = []
    store = Environment.store

    def measured(env, key, value):
        sizes.append(len(repr(value)))
        store(env, key, value)

    monkeypatch.setattr(Environment, "store", measured)
    for sequence in range(2, 500):
        world["h2"].core.on_message("h1", Copy(0, "h1", sequence, b""), expensive=False)
    assert len(sizes) == 498
    assert max(sizes) < 10


@pytest.mark.parametrize("seed", range(30))
def test_every_host_delivers_every_message_once_under_loss_duplication_reordering_and_restarts(seed):
    """Section 1's requirement, a safety phase and then a healed network."""
    random = Random(seed)
    world = World(Basic, random.randint(2, 5), seed)
    world.suffer(random, most_sent=100)
    while world.timers():
        world.expire()
        world.settle()
    assert not world.lacking()
    assert nothing_is_kept(world)


@pytest.mark.parametrize("order", list(itertools.permutations(range(1, 5))))
def test_whatever_the_order_of_arrival_a_stream_without_gaps_is_stored_as_one_number(order):
    world = World(Basic, 2)
    for sequence in order:
        world["h2"].core.on_message("h1", Copy(0, "h1", sequence, b""), expensive=False)
        world.restart("h2")
    assert world["h2"].kept("core.delivery.delivered") == {"h1": 4}
