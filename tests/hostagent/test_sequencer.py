"""The sequencer that never changes: numbers, gaps, history and flow control (Kaashoek and others 1989; third paper, section 2.4)."""

from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.protocols.sequencer.messages import Entry, Ordered, Query, Report, Status, Submission, Taken
from hostagent.protocols.sequencer.protocol import Sequencer
from tests.hostagent.world import World

MEDIA = pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])


def sent(world, *kinds):
    return [packet for packet in world.sent if isinstance(packet.message, kinds)]


def in_one_order(world):
    """Whether no two hosts have delivered two messages in different orders."""
    orders = [world.delivered(host) for host in world.hosts]
    return all(
        [message for message in one if message in other] == [message for message in other if message in one]
        for one in orders
        for other in orders
    )


def run_on(world, steps=200):
    """Hand over everything, and let timers expire as long as there are any."""
    world.settle()
    for _ in range(steps):
        if not world.timers():
            return
        world.expire()
        world.settle()
    raise AssertionError(f"not at rest: {world.timers()}")


@MEDIA
def test_a_message_takes_n_packets_or_two_where_packets_go_to_groups(multicasts):
    """Third paper, Tables 4.1 and 4.2: one from the source to the central site, and n - 1, or one, from there."""
    world = World(Sequencer, 5, multicasts=multicasts)
    world.broadcast("h3")
    world.settle()
    assert [type(packet.message) for packet in world.sent] == [Submission] + [Ordered] * (1 if multicasts else 4)
    assert {packet.purpose for packet in world.sent} == {Purpose.DATA}
    assert not world.lacking()


def test_what_the_sequencer_itself_sends_takes_one_packet_less():
    world = World(Sequencer, 5, sequencer="h2")
    world.broadcast("h2")
    world.settle()
    assert [type(packet.message) for packet in world.sent] == [Ordered] * 4
    assert world.delivered("h2") == [("h2", 1)]


@pytest.mark.parametrize("failover", ["none", "elect"])
def test_with_gather_ms_messages_wait_for_each_other_unless_they_fill_a_datagram(failover):
    world = World(Sequencer, 3, gather_ms=40.0, failover=failover)
    run_on(world)
    for _ in range(5):
        world.broadcast("h1", bytes(64))
    ordered = [packet for packet in sent(world, Ordered, Entry) if packet.to == "h2" and packet.message.sequence]
    assert [packet.message.sequence for packet in ordered] == [1]
    world.expire()
    assert not sent(world, Query)
    assert len(sent(world, Ordered, Entry)) - len(ordered) >= 8
    for _ in range(30):
        world.broadcast("h1", bytes(64))
    ordered = [packet for packet in sent(world, Ordered, Entry) if packet.to == "h2" and packet.message.sequence]
    assert len(ordered) > 20
    run_on(world)
    assert not world.lacking()
    assert in_one_order(world)


def test_the_source_delivers_its_message_in_the_order_of_numbers_and_not_before():
    world = World(Sequencer, 3)
    world.broadcast("h2")
    world.broadcast("h3")
    assert world.delivered("h2") == []
    world.in_flight.reverse()
    world.settle()
    assert world.delivered("h2") == world.delivered("h3") == world.delivered("h1") == [("h3", 1), ("h2", 1)]


def test_messages_of_a_source_are_numbered_in_their_order_though_they_arrive_in_another():
    world = World(Sequencer, 2)
    for _ in range(3):
        world.broadcast("h2")
    world.in_flight.reverse()
    world.settle()
    assert world.delivered("h1") == [("h2", 1), ("h2", 2), ("h2", 3)]
    assert sent(world, Taken)[0].message.missing == ((1, 2),)


def test_a_gap_is_asked_for_at_the_sequencer_and_filled_from_its_history():
    """Sites can determine they are missing messages using the sequence numbering (section 2.4)."""
    world = World(Sequencer, 3)
    world.broadcast("h1")
    world.lose(to="h3")
    world.broadcast("h1")
    world.settle()
    assert world.delivered("h3") == [("h1", 1), ("h1", 2)]
    assert [(packet.sender, packet.to, packet.message.missing) for packet in sent(world, Report)] == [("h3", "h1", ((1, 1),))]
    assert [packet.to for packet in world.sent if packet.purpose is Purpose.REPAIR] == ["h3"]


def test_two_gaps_are_asked_for_at_once_each_when_it_is_seen():
    world = World(Sequencer, 2)
    for number in range(1, 6):
        world.broadcast("h1")
        if number in {2, 4}:
            world.in_flight.pop()
    for _ in range(3):
        world.hand_over()
    assert [packet.message.missing for packet in sent(world, Report)] == [((2, 2),), ((4, 4),)]
    world.settle()
    assert [sequence for _, sequence in world.delivered("h2")] == [1, 2, 3, 4, 5]


def test_what_was_asked_for_already_is_not_asked_for_again_when_the_sequencer_asks():
    """Full queues would get each repair twice."""
    world = World(Sequencer, 2)
    for number in range(1, 6):
        world.broadcast("h1")
        if number in {2, 4}:
            world.in_flight.pop()
    world.hand_over()
    world.hand_over()
    assert [packet.message.missing for packet in sent(world, Report)] == [((2, 2),)]
    for number in (3, 5):
        world["h1"].life.tell(
            lambda number=number: world["h1"].core.env.send("h2", Status(0, "h1", 0, number), Purpose.CONTROL), ""
        )
        world.hand_over(lambda waiting: waiting - 1)
    assert [packet.message.missing for packet in sent(world, Report)] == [((2, 2),), (), ((4, 5),)]
    world.settle()
    assert [sequence for _, sequence in world.delivered("h2")] == [1, 2, 3, 4, 5]


def test_a_request_that_is_lost_is_repeated_three_times_and_then_the_sequencer_asks():
    world = World(Sequencer, 2, silence_ms=60_000.0)
    world.broadcast("h1")
    world.lose()
    world.broadcast("h1")
    world.hand_over()
    asked = 0
    while world.lose(kind=Report):
        asked += 1
        world.expire()
    assert asked == 4
    world.expire()
    assert isinstance(world.in_flight[0].message, Status)
    world.settle()
    assert world.delivered("h2") == [("h1", 1), ("h1", 2)]


def test_that_the_last_message_was_lost_is_learnt_after_a_silence():
    world = World(Sequencer, 3)
    world.broadcast("h1")
    world.lose(to="h2")
    world.settle()
    assert world.expire() == pytest.approx(0.5)
    world.settle()
    assert world.delivered("h2") == [("h1", 1)]


def test_a_lost_submission_is_asked_for_by_number_and_sent_again():
    world = World(Sequencer, 2)
    world.broadcast("h2")
    world.lose()
    assert world.expire() == pytest.approx(0.25)
    assert isinstance(world.in_flight[0].message, Query)
    world.settle()
    assert world.delivered("h1") == [("h2", 1)]


def test_a_submission_that_arrives_twice_is_numbered_once():
    world = World(Sequencer, 3)
    world.broadcast("h2")
    world.duplicate()
    world.settle()
    assert len(sent(world, Ordered)) == 2
    assert not world.lacking()


def test_there_is_no_acknowledgement_for_each_message_but_a_report_for_an_eighth_of_the_history():
    world = World(Sequencer, 3, history=64)
    for _ in range(32):
        world.broadcast("h1")
        world.settle()
    assert [packet.message.has for packet in sent(world, Report) if packet.sender == "h2"] == [8, 16, 24, 32]
    assert len(world.sent) == 64 + 8


def test_a_host_that_submits_says_with_it_what_it_has():
    world = World(Sequencer, 2, history=8)
    for _ in range(20):
        world.broadcast("h2")
        world.settle()
    assert [packet.message.has for packet in sent(world, Submission)] == list(range(20))
    assert len(world["h1"].kept("core.ordering.numbering.history")) <= 3


def test_a_full_history_takes_nothing_in_and_messages_wait_at_their_source():
    world = World(Sequencer, 3, history=4, window=2)
    for _ in range(12):
        world.broadcast("h2")
    while world.in_flight:
        world.lose(to="h3")
        if world.in_flight:
            world.hand_over()
    assert [sequence for _, sequence in world.delivered("h1")] == [1, 2, 3, 4]
    assert len(world["h2"].kept("core.outbox")) == 8
    assert len(world["h1"].kept("core.ordering.numbering.history")) == 4
    run_on(world)
    assert not world.lacking()
    assert world["h2"].kept("core.outbox") == {}
    assert list(world["h1"].kept("core.ordering.numbering.history")) == ["forgotten"]


def test_at_rest_nobody_sends_anything():
    world = World(Sequencer, 4)
    for host in world.hosts:
        world.broadcast(host)
    run_on(world)
    assert not world.timers()
    assert not world.lacking()


GROUPS = {1: ("h1", "h2", "h3"), 2: ("h3", "h4"), 3: ("h2", "h3")}


@MEDIA
def test_members_get_only_what_is_for_them_and_all_groups_have_one_order(multicasts):
    """The same central sequencer is used for all groups (section 2.4)."""
    world = World(Sequencer, 5, groups=GROUPS, multicasts=multicasts)
    for source, group in (("h2", 1), ("h5", 2), ("h3", 3), ("h4", 2), ("h5", 3)):
        world.broadcast(source, to=group)
    world.settle()
    assert world.delivered("h4") == [("h5", 1), ("h4", 1)]
    assert world.delivered("h5") == []
    assert len(world.delivered("h3")) == 5
    assert in_one_order(world)


@MEDIA
def test_a_gap_between_messages_of_two_groups_is_seen(multicasts):
    """h3 is in both groups and lacks the message to the second; the next message to the first says that there was one."""
    world = World(Sequencer, 4, groups=GROUPS, multicasts=multicasts)
    world.broadcast("h1", to=2)
    world.lose(to="h3")
    world.broadcast("h1", to=1)
    world.hand_over()
    world.settle()
    assert world.delivered("h3") == [("h1", 1), ("h1", 2)]
    assert world.delivered("h2") == [("h1", 2)]


def test_a_message_for_listed_hosts_is_ordered_with_the_others():
    world = World(Sequencer, 4)
    world.broadcast("h2", to=("h3", "h4"))
    world.broadcast("h2")
    run_on(world)
    assert world.delivered("h3") == [("h2", 1), ("h2", 2)]
    assert world.delivered("h1") == [("h2", 2)]


def test_a_source_outside_the_group_is_told_that_its_messages_were_ordered():
    world = World(Sequencer, 5, groups=GROUPS, window=8)
    for _ in range(20):
        world.broadcast("h5", to=1)
    run_on(world)
    assert [sequence for _, sequence in world.delivered("h2")] == list(range(1, 21))
    assert world["h5"].kept("core.outbox") == {}


def test_when_the_sequencer_is_down_all_wait_and_when_it_is_back_all_goes_on():
    """If the sequencer fails, the whole system will come to a grinding halt (Kaashoek and others)."""
    world = World(Sequencer, 3)
    world.broadcast("h2")
    world.settle()
    world.broadcast("h3")
    world.lose()
    world.restart("h1")
    world.broadcast("h2")
    run_on(world)
    assert not world.lacking()
    assert in_one_order(world)


def test_a_sequencer_that_restarts_goes_on_with_its_numbers_and_its_history():
    world = World(Sequencer, 3)
    world.broadcast("h2")
    world.lose()
    run_on(world)
    world.broadcast("h2")
    world.hand_over()
    world.lose()
    world.restart("h1")
    world.broadcast("h3")
    run_on(world)
    assert not world.lacking()
    assert in_one_order(world)
    assert {packet.message.number for packet in sent(world, Ordered)} == {1, 2, 3}


def test_a_message_of_a_group_that_the_sequencer_does_not_know_yet_waits_at_its_source():
    world = World(Sequencer, 3)
    for host in ("h2", "h3"):
        world[host].life.define(7, ("h2", "h3"))
    world.groups[7] = ("h2", "h3")
    world.broadcast("h2", to=7)
    world.settle()
    assert world.delivered("h3") == []
    world["h1"].life.define(7, ("h2", "h3"))
    run_on(world)
    assert world.delivered("h3") == [("h2", 1)]


def test_numbers_that_cannot_be_are_ignored():
    world = World(Sequencer, 3, groups=GROUPS)
    after_itself = Ordered(1, "h1", 1, 1, (1,), b"")
    to_no_group, to_others = (Ordered(group, "h1", 1, 5, (0,), b"") for group in (9, 2))
    from_another = Ordered(0, "h1", 1, 1, (0,), b"")
    for sender, message in (("h1", after_itself), ("h1", to_no_group), ("h1", to_others), ("h3", from_another)):
        world["h2"].life.receive(sender, [message], expensive=False)
    world["h1"].life.receive("h2", [Report(0, "h2", 0, 2**31, ((1, 2**31),))], expensive=False)
    world["h1"].life.receive("h2", [Submission(0, "h3", 1, 0, b"")], expensive=False)
    assert world.delivered("h2") == []
    assert not world.in_flight


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("settings", [{}, {"history": 3, "window": 2, "sequencer": "h3"}], ids=["default", "narrow"])
def test_whatever_the_network_does_there_is_one_order_and_nothing_is_missing_in_the_end(settings, seed):
    world = World(Sequencer, 4, **settings)
    world.suffer(Random(seed), most_sent=300)
    run_on(world)
    assert in_one_order(world)
    assert not world.lacking()


def test_a_sequencer_that_is_no_host_is_refused():
    with pytest.raises(ValueError, match="sequencer=h9: there is no such host"):
        Sequencer.check(Sequencer.Parameters(sequencer="h9"), ("h1", "h2"))
    Sequencer.check(Sequencer.Parameters(sequencer="h2"), ("h1", "h2"))
