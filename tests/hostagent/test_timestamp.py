"""Time stamps: who answers, what is waited for, and that clocks never go back."""

from itertools import combinations
from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.protocols.timestamp.messages import Item, Missing, Stamp
from hostagent.protocols.timestamp.protocol import Timestamp
from tests.hostagent.world import World

GROUPS = {1: ("h1", "h2", "h3"), 2: ("h2", "h3", "h4")}
SILENT = ("answer", "null")


def data(world):
    return [packet for packet in world.sent if packet.purpose is Purpose.DATA]


def sent(world, kind):
    return [packet for packet in world.sent if isinstance(packet.message, kind)]


def expire_until(world, condition):
    for _ in range(200):
        if condition():
            return
        world.expire()
        world.settle()
    raise AssertionError("it never came true")


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_where_the_silent_answer_a_message_takes_n_times_n_minus_1_packets_or_n_to_everybody(multicasts):
    world = World(Timestamp, 5, multicasts=multicasts)
    world.broadcast("h2")
    world.settle()
    assert len(world.sent) == len(data(world)) == (5 if multicasts else 5 * 4)
    assert [world.delivered(host) for host in world.hosts] == [[("h2", 1)]] * 5


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_where_all_are_busy_a_message_takes_n_minus_1_packets_or_one_to_everybody(multicasts):
    """Each host sends before its silence is over, round after round; only the last round needs null messages."""
    world = World(Timestamp, 4, multicasts=multicasts, silent="null")
    for _ in range(5):
        for host in world.hosts:
            world.broadcast(host)
            world.settle()
    assert sent(world, Stamp) == []
    assert len(data(world)) == 20 * (1 if multicasts else 3)
    assert all(len(world.delivered(host)) >= 16 for host in world.hosts)
    expire_until(world, lambda: not world.lacking())


def test_a_silent_host_speaks_after_its_silence_if_a_message_has_come_and_never_else():
    world = World(Timestamp, 3, silent="null", silence_ms=100.0)
    assert world.timers() == []
    world.broadcast("h1")
    world.settle()
    assert not any(world.delivered(host) for host in world.hosts)
    assert world.expire() == pytest.approx(0.1)
    expire_until(world, lambda: not world.timers())
    assert not world.lacking()


def test_a_message_is_delivered_when_every_host_has_sent_something_later():
    """Section 2.2: when there are no outstanding messages with smaller time stamps."""
    world = World(Timestamp, 3)
    world.broadcast("h1")
    world.lose(to="h3")
    world.settle()
    assert not world.delivered("h2")
    expire_until(world, lambda: world.delivered("h3"))
    assert world.delivered("h1") == world.delivered("h2") == world.delivered("h3")


def test_equal_clocks_are_told_apart_by_hosts():
    world = World(Timestamp, 3)
    for host in ("h3", "h1", "h2"):
        world.broadcast(host)
    world.in_flight.reverse()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1), ("h2", 1), ("h3", 1)]] * 3


def test_a_clock_counts_only_when_all_that_was_sent_before_has_arrived():
    world = World(Timestamp, 3)
    world.broadcast("h3")
    world.lose(to="h1")
    world.settle()
    world.broadcast("h2")
    for packet in [packet for packet in world.in_flight if packet.to == "h3"]:
        world.hand_over(lambda _, packet=packet: world.in_flight.index(packet))
    requests = [packet for packet in world.in_flight if isinstance(packet.message, Missing)]
    assert requests == []
    world.settle()
    assert world.delivered("h1") == world.delivered("h2") == world.delivered("h3") == [("h3", 1), ("h2", 1)]
    assert [(packet.sender, packet.message.missing) for packet in sent(world, Missing)] == [("h1", ((1, 1),))]


def test_a_host_that_restarts_sends_nothing_earlier_than_the_clock_that_it_has_said():
    world = World(Timestamp, 3)
    for _ in range(3):
        world.broadcast("h1")
    world.settle()
    said = max(packet.message.clock for packet in sent(world, Stamp) if packet.sender == "h2")
    world.restart("h2")
    world.broadcast("h2")
    assert [packet.message.clock > said for packet in sent(world, Item) if packet.sender == "h2"] == [True, True]


def test_a_dead_host_stops_everybody_until_it_is_back():
    world = World(Timestamp, 4)
    world.broadcast("h1")
    for _ in range(10):
        world.lose(to="h4")
        while world.in_flight:
            world.in_flight = [packet for packet in world.in_flight if packet.to != "h4"]
            if world.in_flight:
                world.hand_over()
        world.expire()
    assert not any(world.delivered(host) for host in world.hosts)
    expire_until(world, lambda: not world.lacking())


@pytest.mark.parametrize("silent", SILENT)
def test_a_source_has_so_many_messages_under_way_and_the_others_wait_also_across_a_restart(silent):
    world = World(Timestamp, 3, silent=silent, window=2)
    for _ in range(5):
        world.broadcast("h1")
    assert {packet.message.sequence for packet in world.in_flight} == {1, 2}
    world.lose()
    world.restart("h1")
    expire_until(world, lambda: not world.lacking())
    assert [sequence for _, sequence in world.delivered("h2")] == [1, 2, 3, 4, 5]


def test_messages_to_groups_and_listed_hosts_are_delivered_there_only():
    world = World(Timestamp, 4, groups=GROUPS)
    world.broadcast("h4", to=1)
    world.broadcast("h1", to=("h2", "h4"))
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 2, 1, 1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("silent", SILENT)
def test_whatever_happens_no_two_hosts_disagree_and_in_the_end_everybody_has_its_messages(silent, seed):
    random = Random(seed)
    world = World(Timestamp, 4, seed=seed, groups=GROUPS, silent=silent)
    due = {host: [] for host in world.hosts}

    def multicast(host, payload=b"", to=None):
        group = to or random.choice([0, *GROUPS])
        World.broadcast(world, host, payload, group)
        for member in world.groups[group]:
            due[member].append((host, world[host].broadcasts))

    world.broadcast = multicast
    world.suffer(random, most_sent=600)
    while world.timers():
        world.expire()
        world.settle()
    logs = {host: world.delivered(host) for host in world.hosts}
    assert {host: sorted(log) for host, log in logs.items()} == {host: sorted(messages) for host, messages in due.items()}
    for one, other in combinations(logs.values(), 2):
        assert [message for message in one if message in other] == [message for message in other if message in one]


def test_more_hosts_than_a_time_stamp_has_room_for_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match="timestamp is for at most 200 hosts"):
        Timestamp.check(Timestamp.Parameters(), tuple(f"h{n}" for n in range(201)))


def without(world, *dead):
    """Hand over everything, but nothing to or from hosts that are down, whose timers do not expire either."""
    for host in dead:
        world[host].timers.clear()
    while world.in_flight:
        world.in_flight = [packet for packet in world.in_flight if not {*dead} & {packet.to, packet.sender}]
        if world.in_flight:
            world.hand_over()


def run_without(world, condition, *dead):
    for _ in range(2000):
        without(world, *dead)
        if condition():
            return
        world.expire()
    raise AssertionError("it never came true")


def test_with_a_detector_a_majority_goes_on_without_a_dead_host_which_has_everything_when_it_is_back():
    world = World(Timestamp, 5, detector="suspect")
    without(world)
    world.broadcast("h1")
    run_without(world, lambda: all(world.delivered(host) for host in world.hosts[:4]), "h5")
    assert all(world[host].core.members == ("h1", "h2", "h3", "h4") for host in world.hosts[:4])
    assert not world.delivered("h5")
    world.restart("h5")
    run_without(world, lambda: world.delivered("h5") and world["h5"].core.members == world.hosts)
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)]] * 5


def test_with_a_detector_a_host_that_is_cut_off_delivers_nothing_and_its_messages_come_later():
    """h5 is alive and wrongly suspected: it needs the clocks of all members of its view, and a majority for another view."""
    world = World(Timestamp, 5, detector="suspect")
    world.broadcast("h5")
    world.lose()
    world.broadcast("h1")
    for _ in range(400):
        while world.in_flight:
            world.in_flight = [packet for packet in world.in_flight if "h5" not in {packet.to, packet.sender}]
            if world.in_flight:
                world.hand_over()
        world.expire()
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)]] * 4 + [[]]
    run_without(world, lambda: all(len(world.delivered(host)) == 2 for host in world.hosts))
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1), ("h5", 1)]] * 5


def test_with_a_detector_a_host_that_was_taken_out_delivers_its_own_message_where_the_others_did():
    """The others have the message of h5, which crashes before it knows; they deliver it in a view without h5, and go on to another view."""
    world = World(Timestamp, 5, detector="suspect")
    without(world)
    world.broadcast("h5")
    world.in_flight = [packet for packet in world.in_flight if isinstance(packet.message, Item)]
    sent_before = list(world.in_flight)
    for packet in sent_before:
        world.in_flight = [packet]
        world.hand_over()
        world.lose(to="h5")
    run_without(world, lambda: all(world.delivered(host) for host in world.hosts[:4]), "h5")
    world.broadcast("h1")
    run_without(world, lambda: all(len(world.delivered(host)) == 2 for host in world.hosts[:4]), "h5")
    run_without(world, lambda: all(world[host].core.members == world.hosts[:3] for host in world.hosts[:3]), "h4", "h5")
    world.restart("h5")
    run_without(world, lambda: len(world.delivered("h5")) == 2, "h4")
    assert [world.delivered(host) for host in world.hosts] == [[("h5", 1), ("h1", 1)]] * 5


def test_with_a_detector_fewer_than_a_majority_make_no_view():
    world = World(Timestamp, 4, detector="suspect")
    world.broadcast("h1")
    for _ in range(300):
        without(world, "h3", "h4")
        world.expire()
    assert [world[host].core.view for host in world.hosts] == [0, 0, 0, 0]
    assert not any(world.delivered(host) for host in world.hosts)


def test_what_is_promised_with_and_without_a_detector():
    none, suspect = (Timestamp.Parameters(detector=detector) for detector in ("none", "suspect"))
    assert [Timestamp.promise(one, 7).quorum for one in (none, suspect)] == [7, 4]
    assert [Timestamp.most_lost(one, 7) for one in (none, suspect)] == [7, 3]
    assert Timestamp.promise(none, 7).orders == Timestamp.promise(suspect, 7).orders


def test_a_detector_with_time_outs_that_make_no_sense_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="must be above period_ms"):
        Timestamp.check(Timestamp.Parameters(detector="suspect", timeout_ms=100.0), ("h1", "h2"))
