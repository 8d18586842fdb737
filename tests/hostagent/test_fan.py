"""The fan, level by level: what is put into order, what is asked for, and what is given up."""

from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.delivery import Copy
from hostagent.parts.in_order import WINDOW, Null, Request
from hostagent.protocols.fan import Fan
from tests.hostagent.world import World

LEVELS = (0, 1, 2, 3)


def delivered(world, host):
    return [sequence for _, sequence in world.delivered(host)]


def sent(world, kind):
    return [packet for packet in world.sent if isinstance(packet.message, kind)]


def late(world, number):
    """Hand over the packet with this message after all others that are in flight."""
    world.in_flight.sort(key=lambda packet: packet.message.sequence == number)
    world.settle()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_each_message_is_a_datagram_to_every_host_or_one_to_all_and_arrives(level, multicasts):
    world = World(Fan, 4, level=level, multicasts=multicasts)
    for _ in range(3):
        world.broadcast("h1")
        world.settle()
    assert len(world.sent) == (3 if multicasts else 9)
    assert [delivered(world, host) for host in world.hosts] == [[1, 2, 3]] * 4


@pytest.mark.parametrize(("level", "order"), [(0, [2, 1]), (1, [1, 2]), (2, [1, 2]), (3, [1, 2])])
def test_from_level_1_on_messages_are_delivered_in_the_order_of_numbers(level, order):
    world = World(Fan, 2, level=level)
    world.broadcast("h1")
    world.broadcast("h1")
    late(world, 1)
    assert delivered(world, "h2") == order


@pytest.mark.parametrize(("level", "times"), [(0, 2), (1, 1), (2, 1), (3, 1)])
def test_from_level_1_on_a_duplicate_is_delivered_once(level, times):
    world = World(Fan, 2, level=level)
    world.broadcast("h1")
    world.duplicate()
    world.settle()
    assert delivered(world, "h2") == [1] * times


@pytest.mark.parametrize(("level", "has"), [(0, [2, 3]), (1, []), (2, [1, 2, 3]), (3, [1, 2, 3])])
def test_a_lost_message_is_missed_blocks_all_or_is_asked_for(level, has):
    world = World(Fan, 3, level=level)
    world.broadcast("h1")
    world.lose(to="h2")
    for _ in range(2):
        world.broadcast("h1")
        world.settle()
    assert delivered(world, "h2") == has
    assert delivered(world, "h3") == [1, 2, 3]
    assert [packet.message.missing for packet in sent(world, Request)] == ([((1, 1),)] if level >= 2 else [])
    assert [packet.to for packet in sent(world, Copy) if packet.purpose is Purpose.REPAIR] == (["h2"] if level >= 2 else [])


@pytest.mark.parametrize(("level", "has"), [(2, []), (3, [1])])
def test_that_the_last_message_was_lost_is_learnt_from_null_messages_only(level, has):
    world = World(Fan, 2, level=level)
    world.broadcast("h1")
    world.lose()
    if level == 3:
        assert world.expire() == pytest.approx(0.5)
        assert isinstance(world.in_flight[0].message, Null)
    world.settle()
    assert delivered(world, "h2") == has
    assert bool(world.timers()) == (level == 3)


@pytest.mark.parametrize(("level", "has"), [(1, [1, 3]), (2, [1, 3]), (3, [1, 2, 3])])
def test_what_was_sent_while_a_host_was_down_is_given_up_below_level_3(level, has):
    world = World(Fan, 2, level=level, silence_ms=1e6)
    world.broadcast("h1")
    world.settle()
    world.broadcast("h1")
    world.lose()
    world.restart("h2")
    if level == 1:
        world.expire()
    world.broadcast("h1")
    world.settle()
    assert delivered(world, "h2") == has


def test_at_level_1_a_host_that_restarts_waits_until_nothing_old_is_under_way():
    """Message 2 was sent while the host was down and is late: if it were taken, 3 would be delivered, and what came before it not."""
    world = World(Fan, 2, level=1)
    world.restart("h2")
    for _ in range(3):
        world.broadcast("h1")
    world.settle()
    assert delivered(world, "h2") == []
    assert world.expire() == pytest.approx(0.15)
    world.broadcast("h1")
    world.settle()
    assert delivered(world, "h2") == [4]
    assert [details for event, details in world["h2"].traced if event == "recovered"] == [{}]


def test_a_request_that_is_lost_is_repeated_three_times_and_then_with_the_next_message():
    world = World(Fan, 2, level=2)
    for _ in range(2):
        world.broadcast("h1")
    world.lose(to="h2")
    world.broadcast("h1")
    world.hand_over()
    asked = []
    while world.timers():
        asked.append(world.lose(kind=Request))
        world.expire()
    assert asked == [1, 1, 1, 1]
    assert not world.in_flight
    world.broadcast("h1")
    world.settle()
    assert delivered(world, "h2") == [1, 2, 3, 4]


def test_a_long_gap_is_asked_for_window_by_window():
    world = World(Fan, 2, level=3)
    for _ in range(2 * WINDOW + 5):
        world.broadcast("h1")
    world.lose()
    world.expire()
    world.settle()
    assert delivered(world, "h2") == list(range(1, 2 * WINDOW + 6))
    assert [packet.message.missing for packet in sent(world, Request)] == [
        ((1, WINDOW),),
        ((WINDOW + 1, 2 * WINDOW),),
        ((2 * WINDOW + 1, 2 * WINDOW + 5),),
    ]


def test_what_a_request_asks_for_and_the_source_never_sent_is_left_out():
    world = World(Fan, 2, level=2)
    world.broadcast("h1")
    world.settle()
    world["h1"].life.receive("h2", [Request(0, "h1", 9, ((1, 1), (5, 2**32 - 1)))], expensive=False)
    assert [packet.message.sequence for packet in world.in_flight] == [1]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("level", [1, 2, 3])
def test_whatever_the_network_does_each_source_is_delivered_in_order_and_once(level, seed):
    world = World(Fan, 3, level=level)
    world.suffer(Random(seed), most_sent=400)
    for _ in range(30):
        if world.timers():
            world.expire()
        world.settle()
    for host in world.hosts:
        for source in world.hosts:
            numbers = [sequence for origin, sequence in world.delivered(host) if origin == source]
            assert numbers == sorted(set(numbers))
    if level == 3:
        assert not world.lacking()


@pytest.mark.parametrize(("level", "longer_ms"), [(0, [20, 180]), (2, [540]), (3, [540, 1040])])
def test_bounds_grow_with_the_time_that_each_datagram_waits_to_be_packed(level, longer_ms):
    promise = Fan.promise(Fan.Parameters(level=level), 4)
    assert [bound.bound_ms for bound in promise.packed(10.0).time_bounds] == longer_ms
    assert promise.packed(None) == promise.packed(0.0) == promise
