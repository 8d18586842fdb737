"""What the application wants to broadcast waits at the door while a core has many messages unfinished."""

import pytest

from hostagent.protocols import PROTOCOLS
from hostagent.runtime.life import ADMITTED_TOGETHER, MOST_UNFINISHED
from tests.hostagent.world import World

OFFERED = 2 * MOST_UNFINISHED + 1000
# Nobody acknowledges messages of `fan`; in `cluster-tree` hosts become children first.
WITHOUT = {"fan", "cluster-tree"}


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name not in WITHOUT])
def test_a_source_that_hears_nothing_of_its_messages_admits_a_bounded_number_of_them(name):
    world = World(PROTOCOLS[name], 3)
    world.settle()
    for _ in range(OFFERED):
        world["h1"].life.offer(b"payload")
    world["h1"].carry_out()
    assert 0 < len(world["h1"].life.door) < OFFERED


def test_a_host_that_is_down_does_not_hold_up_the_source():
    world = World(PROTOCOLS["best-effort"], 3)
    for _ in range(600):
        world["h1"].life.offer(b"payload")
    world["h1"].carry_out()
    for _ in range(4000):
        world.lose(to="h3")
        if not world["h1"].life.door:
            break
        if world.in_flight:
            world.hand_over()
        else:
            world.expire()
    assert not world["h1"].life.door


def test_what_is_never_admitted_is_logged_as_held_back():
    world = World(PROTOCOLS["basic"], 3)
    life = world["h1"].life
    for _ in range(MOST_UNFINISHED + 3):
        life.offer(b"payload")
    life.admit()
    life.hush(held_back=4)
    assert [event.details for event in life.effects.events if event.event == "held-back"] == [{"messages": 7}]
    assert not life.door


def test_what_waits_is_admitted_in_batches_which_share_datagrams():
    world = World(PROTOCOLS["basic"], 2)
    host = world["h1"]
    for _ in range(2 * MOST_UNFINISHED):
        host.life.offer(b"payload")
    host.carry_out()
    assert host.life.core.unfinished == MOST_UNFINISHED
    admitted = []
    for _ in range(2 * ADMITTED_TOGETHER):
        before = len(host.life.door)
        world.hand_over()  # a copy
        world.hand_over(lambda number: number - 1)  # its acknowledgement
        admitted.append(before - len(host.life.door))
    assert admitted == [*(ADMITTED_TOGETHER - 1) * [0], ADMITTED_TOGETHER] * 2


@pytest.mark.parametrize("name", ["basic", "best-effort"])
def test_long_messages_count_as_several(name):
    """48 KB are under way, so that two copies of them fit into the queue of a link."""
    world = World(PROTOCOLS[name], 2)
    for _ in range(MOST_UNFINISHED):
        world["h1"].life.offer(bytes(1024))
    world["h1"].carry_out()
    assert MOST_UNFINISHED - len(world["h1"].life.door) == -(-MOST_UNFINISHED // 6)


def test_a_broadcast_says_how_late_it_is():
    world = World(PROTOCOLS["basic"], 2)
    life = world["h1"].life
    now_ns = life._clock.wall_ns()
    for late_ns in (0, 999_999, 25_000_000):
        life.offer(b"payload", due_ns=now_ns - late_ns)
    life.admit()
    assert [event.details for event in life.effects.events if event.event == "broadcast"] == [{}, {}, {"late_ms": 25}]
