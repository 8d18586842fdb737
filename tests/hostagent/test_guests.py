"""A guest at a host: what its adapter is told, and what becomes of the deliveries that it reports."""

import pytest

from hostagent.runtime import own
from hostagent.runtime.failures import CoreFailed, ProtocolError
from hostagent.runtime.guests import catalogue
from hostagent.runtime.guests.catalogue import GUESTS
from hostagent.runtime.guests.core import core_of
from hostagent.runtime.guests.surroundings import message_bytes
from tests.hostagent.world import World


def say(world: World, host: str, *lines: str) -> None:
    """The adapter of a host writes lines."""
    life = world[host].life
    for line in lines:
        life.tell(lambda line=line: life.core.on_line(line.encode()), f"when it wrote {line}")
        world[host].carry_out()


@pytest.fixture
def world() -> World:
    return World(core_of(GUESTS["corosync"], own.NUMBER), 3)


def test_a_message_goes_to_the_adapter_with_its_name_and_size_and_no_packet_is_ours(world):
    world["h2"].life.offer(b"x" * 64)
    world["h2"].life.admit()
    assert world["h2"].core.lines == [b"broadcast 2 1 64"]
    world["h2"].carry_out()
    assert not world.sent
    assert message_bytes(2, 1, 64).split() == [b"2", b"1"]
    assert len(message_bytes(2, 1, 64)) == 64
    assert message_bytes(12, 345, 2) == b"12 345 "


def test_a_second_delivery_counts_in_one_life_and_the_log_of_an_earlier_life_does_not(world):
    say(world, "h1", "ready", "deliver 2 1", "deliver 3 1", "deliver 2 1")
    assert world["h1"].core.is_ready
    assert world.delivered("h1") == [("h2", 1), ("h3", 1), ("h2", 1)]
    world.restart("h1")
    say(world, "h1", "deliver 2 1", "deliver 3 1", "deliver 3 2")
    assert world.delivered("h1")[3:] == [("h3", 2)]


def test_a_line_of_no_adapter_ends_the_run(world):
    with pytest.raises(CoreFailed, match="no line of an adapter"):
        say(world, "h1", "hello")


def test_guests_that_are_not_there_are_refused_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "PLACE", tmp_path)
    with pytest.raises(ProtocolError, match="there is no guest 'spread': there are corosync, pysyncobj, etcd, nats"):
        own.find("guest:spread")
    with pytest.raises(ProtocolError, match=r"the guest etcd is not installed: \./castbed guests etcd does that"):
        own.find("guest:etcd")
