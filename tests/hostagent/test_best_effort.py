"""Best-effort broadcast, Algorithm 3.1 of the second paper, on perfect links and directly on datagrams."""

import pytest

from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Guarantee
from hostagent.parts.links import Letter
from hostagent.protocols.best_effort import BestEffort, BestEffortParameters
from tests.hostagent.world import World


@pytest.fixture
def world() -> World:
    """Bare datagrams."""
    return World(BestEffort, 4, links="none")


@pytest.fixture
def linked() -> World:
    return World(BestEffort, 4)


def test_a_letter_to_every_other_host_and_an_acknowledgement_from_each(linked):
    """Algorithm 3.1 on perfect links: 2 (n - 1) datagrams."""
    linked.broadcast("h2", b"text")
    linked.settle()
    assert [packet.purpose for packet in linked.sent] == [Purpose.DATA] * 3 + [Purpose.CONTROL] * 3
    assert [linked[host].delivered for host in linked.hosts] == [[("h2", 1, b"text")]] * 4
    assert not linked.timers()


def test_what_is_lost_is_repeated_until_it_arrives(linked):
    """The paper's "best-effort validity"."""
    linked.broadcast("h1")
    for _ in range(5):
        linked.lose(to="h3")
        linked.settle()
        linked.expire()
    linked.settle()
    assert [linked.delivered(host) for host in linked.hosts] == [[("h1", 1)]] * 4
    assert not linked.timers()


def test_nobody_but_the_sender_sends_the_message_so_a_sender_that_dies_half_way_leaves_some_without_it(linked):
    linked.broadcast("h1")
    linked.lose(to="h4")
    linked.settle()
    assert [len(linked.delivered(host)) for host in linked.hosts] == [1, 1, 1, 0]
    assert {packet.sender for packet in linked.sent if isinstance(packet.message, Letter)} == {"h1"}


def test_what_it_promises_follows_from_what_it_stands_on():
    on_links, bare = (BestEffort.promise(BestEffortParameters(links=links), 4) for links in ("perfect", "none"))
    assert Guarantee.VALIDITY in on_links.guarantees
    assert Guarantee.VALIDITY not in bare.guarantees
    assert bare.patience_ms == 0


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
    assert world["h2"].kept("core.delivery.delivered") == {"h1": 3}
