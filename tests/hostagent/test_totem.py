"""Totem (Amir and others, 1995): the ring, its lost tokens and messages, and what becomes of rings that lose members, split and merge."""

from random import Random

import pytest

from hostagent.contract.messages import EVERYBODY, Purpose, host_set
from hostagent.contract.wire import Codec
from hostagent.parts.links import JITTER
from hostagent.parts.sequences import SequenceSet
from hostagent.protocols.totem.gathering import AGAIN_S
from hostagent.protocols.totem.messages import (
    MOST_HOSTS,
    MOST_OBLIGED,
    MOST_REPORTED,
    Commit,
    Data,
    Join,
    Probe,
    Token,
    Wake,
)
from hostagent.protocols.totem.protocol import Totem
from hostagent.protocols.totem.ring import Ring
from hostagent.protocols.totem.rotation import ROUND
from tests.hostagent.world import World


def run(world, seconds, *, apart=(), down=(), until=lambda: False):
    """Let time pass, or until something is the case. Packets between hosts on two sides, or to hosts that are down, are lost."""
    end_s = world.now_s + seconds
    while not until():
        if world.in_flight:
            packet = world.in_flight[0]
            if packet.to in down or (packet.sender in apart) != (packet.to in apart):
                world.in_flight = world.in_flight[1:]
            else:
                world.hand_over()
            continue
        timers = [at for host in world.hosts if host not in down for at in world[host].timers.values()]
        if not timers or min(timers) > end_s:
            world.now_s = end_s
            return
        for host in down:
            world[host].timers.clear()
        world.expire()


def ring(size, **parameters):
    """A world whose hosts are in one ring, with the token at rest at h1."""
    world = World(Totem, size, **parameters)
    run(world, 1.0)
    return world


def views(world, host):
    return [tuple(details["members"]) for event, details in world[host].traced if event == "view"]


def numbers(world, host):
    return [details["view"] for event, details in world[host].traced if event == "view"]


def since(world, count, kind):
    """The packets of a kind that were sent after the first `count` packets."""
    return [packet for packet in world.sent[count:] if isinstance(packet.message, kind)]


def holder(world):
    return [host for host in world.hosts if world[host].core.rotation.token is not None]


def test_hosts_that_start_agree_on_a_ring_and_install_one_view():
    world = ring(4)
    for host in world.hosts:
        assert views(world, host) == [(host,), world.hosts]
    assert len({numbers(world, host)[-1] for host in world.hosts}) == 1
    assert holder(world) == ["h1"]


def test_the_commit_token_goes_round_twice():
    assert len(since(ring(4), 0, Commit)) == 8


@pytest.mark.parametrize(("multicasts", "packets"), [(False, 3), (True, 1)], ids=["unicast", "multicast"])
def test_a_message_is_a_datagram_to_each_member_or_one_to_all_and_the_token_goes_round(multicasts, packets):
    world = ring(4, multicasts=multicasts)
    before = len(world.sent)
    world.broadcast("h1")
    run(world, 0.2)
    assert len(since(world, before, Data)) == packets
    assert len(since(world, before, Token)) == 4
    assert world.lacking() == {}


def test_messages_that_wait_share_one_visit_of_the_token():
    world = ring(4)
    before = len(world.sent)
    for _ in range(5):
        world.broadcast("h3")
    run(world, 0.1)
    assert [(packet.message.number, packet.message.sequence) for packet in since(world, before, Data)[::3]] == [
        (n, n) for n in range(1, 6)
    ]
    assert world.lacking() == {}


def test_whoever_wants_a_token_that_another_host_keeps_wakes_that_host():
    world = ring(4)
    before = len(world.sent)
    world.broadcast("h3")
    assert [packet.to for packet in since(world, before, Wake)] == ["h1"]
    run(world, 0.1)
    assert world.lacking() == {}
    assert holder(world) == ["h3"]


@pytest.mark.parametrize(("size", "rate"), [(6, Totem.Parameters().idle_packets_per_second), (3, 0.5), (6, 10.0)])
def test_an_idle_ring_costs_as_many_packets_a_second_as_it_may(size, rate):
    world = ring(size, idle_packets_per_second=rate)
    run(world, 1.0)
    before = len(world.sent)
    run(world, 120.0)
    assert 0.9 * 120 * rate - size <= len(world.sent) - before <= 120 * rate + size
    assert all(isinstance(packet.message, Token) for packet in world.sent[before:])


class Logging(World):
    """A world that keeps what its hosts have logged."""

    def log(self, host, event):
        self.__dict__.setdefault("logged", []).append((event.event, host, (event.origin, event.sequence)))


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_each_host_commits_the_last_message_when_all_members_have_it(delivery):
    world = Logging(Totem, 3, delivery=delivery)
    run(world, 1.0)
    for _ in range(5):
        world.broadcast("h1")
    assert world.lose(to="h3", kind=Data) > 0
    run(world, 10.0)
    commits = [(host, message) for event, host, message in world.logged if event == "commit"]
    assert dict(commits) == dict.fromkeys(world.hosts, ("h1", 5))
    has_it = "deliver" if delivery == "agreed" else "receive"
    arrived = [place for place, (event, _, message) in enumerate(world.logged) if (event, message) == (has_it, ("h1", 5))]
    assert max(arrived) < world.logged.index(("commit", commits[-1][0], ("h1", 5)))


def test_a_lost_message_is_asked_for_in_the_token_and_repaired_with_one_packet():
    world = ring(4)
    world.broadcast("h1")
    assert world.lose(to="h3", kind=Data) == 1
    before = len(world.sent)
    run(world, 0.3)
    repairs = [packet for packet in since(world, before, Data) if packet.purpose is Purpose.REPAIR]
    assert [packet.to for packet in repairs] == ["h3"]
    assert world.lacking() == {}


def test_a_message_that_most_members_lack_is_repaired_for_all_at_once():
    world = ring(4, multicasts=True)
    world.broadcast("h1")
    assert world.lose(kind=Data) == 3
    before = len(world.sent)
    run(world, 0.3)
    repairs = [packet for packet in since(world, before, Data) if packet.purpose is Purpose.REPAIR]
    assert repairs[-1].to == 0
    assert world.lacking() == {}


def test_on_a_network_that_does_not_multicast_only_those_who_lack_a_message_are_sent_it_again():
    """A queue that keeps the first copies of a burst must not keep those of members that have the message."""
    world = ring(4)
    world.broadcast("h1")
    assert world.lose(to="h3", kind=Data) == world.lose(to="h4", kind=Data) == 1
    before = len(world.sent)
    run(world, 0.3)
    repairs = [packet for packet in since(world, before, Data) if packet.purpose is Purpose.REPAIR]
    assert [packet.to for packet in repairs] == ["h3", "h4"]
    assert world.lacking() == {}


def lose_next_token(world, at):
    """Hand packets over until a token is on its way to a host, and lose it."""
    while not world.lose(to=at, kind=Token):
        world.hand_over() if world.in_flight else world.expire()


@pytest.mark.parametrize("at", ["h1", "h2", "h3", "h4"])
def test_a_lost_token_costs_a_few_rotations_and_no_view(at):
    world = ring(4)
    world.broadcast("h2")
    lose_next_token(world, at)
    began_s = world.now_s
    world.broadcast("h4")
    run(world, 0.3)
    assert world.lacking() == {}
    assert world.now_s - began_s < 0.31
    assert [len(views(world, host)) for host in world.hosts] == [2] * 4


@pytest.mark.parametrize("at", ["h1", "h2", "h3", "h4"])
def test_a_member_that_has_seen_slow_rotations_does_not_hold_up_those_who_are_impatient(at):
    world = ring(4)
    trips = world[at].core.rotation._trips
    trips.asked(ROUND, 0.0)
    trips.answered(ROUND, 1.0)
    assert world[at].core.rotation.wait_s > 1.0
    world.broadcast("h2")
    lose_next_token(world, world[at].core.rotation.ring.successor(at))
    world.broadcast("h4")
    run(world, 0.3)
    assert world.lacking() == {}
    assert [len(views(world, host)) for host in world.hosts] == [2] * 4


def test_a_rotation_in_which_others_passed_the_token_on_again_says_nothing_of_how_long_one_takes():
    world = ring(4)
    world.broadcast("h2")
    lose_next_token(world, "h1")
    run(world, 0.3)
    assert [world[host].core.rotation.round_s < 0.01 for host in world.hosts] == [True] * 4


@pytest.mark.parametrize(("waiting", "pace_s"), [(5, 0.2), (10, 0.15), (20, 0.0)], ids=["few", "half a datagram", "a datagram"])
def test_a_host_that_sends_alone_waits_a_rotation_or_less_for_a_datagram_that_is_half_full_and_not_for_a_full_one(
    waiting, pace_s
):
    world = ring(4)
    world[holder(world)[0]].core.rotation.round_s = 0.2
    world.broadcast("h1", bytes(64))
    before = len(world.sent)
    for _ in range(waiting):
        world.broadcast("h1", bytes(64))
    if pace_s:
        run(world, pace_s - 0.01)
        assert since(world, before, Data) == []
        run(world, 0.02)
    assert len(since(world, before, Data)) == 3 * min(waiting, 18)


def test_a_token_that_arrives_twice_is_taken_once():
    world = ring(3)
    world.broadcast("h1")
    run(world, 0.05)
    for _ in range(30):
        if len(world.in_flight) < 20:
            world.duplicate()
        world.hand_over() if world.in_flight else world.expire()
        assert len(holder(world)) <= 1
    run(world, 1.0)
    assert world.lacking() == {}


def test_safe_messages_are_delivered_when_all_are_known_to_have_them_agreed_ones_before():
    waits = {}
    for delivery in ("agreed", "safe"):
        world = ring(3, delivery=delivery)
        world.broadcast("h1")
        while [packet for packet in world.in_flight if isinstance(packet.message, Data)]:
            world.hand_over()
        waits[delivery] = [world.delivered(host) for host in world.hosts]
        run(world, 0.3)
        assert world.lacking() == {}
    assert waits == {"agreed": [[("h1", 1)]] * 3, "safe": [[]] * 3}


def test_a_safe_message_waits_for_a_member_that_lacks_it():
    world = ring(3, delivery="safe")
    world.broadcast("h1")
    world.lose(to="h2", kind=Data)
    for _ in range(3):
        world.hand_over()
        assert [world.delivered(host) for host in world.hosts] == [[]] * 3
    run(world, 0.3)
    assert world.lacking() == {}


def test_a_visit_sends_no_more_than_max_messages_and_the_rest_waits():
    world = ring(3, max_messages=2, window_size=3)
    for _ in range(7):
        world.broadcast("h2")
    before = len(world.sent)
    while not since(world, before, Data):
        world.hand_over()
    assert len(since(world, before, Data)) == 2 * 2
    run(world, 1.0)
    assert world.lacking() == {}
    assert world.delivered("h1") == [("h2", n) for n in range(1, 8)]


def test_a_ring_that_loses_a_member_goes_on_without_it():
    world = ring(4)
    world.broadcast("h1")
    run(world, 5.0, down=("h3",))
    world.broadcast("h2")
    run(world, 5.0, down=("h3",))
    for host in ("h1", "h2", "h4"):
        assert views(world, host)[2:] == [("h1", "h2", "h4")] * 2, "transitional, then regular"
        assert ("h2", 1) in world.delivered(host)


def test_a_ring_that_splits_goes_on_in_both_parts_and_merges():
    world, left = ring(4), ("h1", "h2")
    run(world, 10.0, apart=left)
    world.broadcast("h1")
    world.broadcast("h3")
    run(world, 1.0, apart=left)
    assert world.delivered("h2") == [("h1", 1)]
    assert world.delivered("h4") == [("h3", 1)]
    run(world, 5.0)
    assert [views(world, host)[-1] for host in world.hosts] == [world.hosts] * 4
    assert len({numbers(world, host)[-1] for host in world.hosts}) == 1
    world.broadcast("h2")
    run(world, 1.0)
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1), ("h2", 1)]] * 2 + [[("h3", 1), ("h2", 1)]] * 2
    assert len({number for host in world.hosts for number in numbers(world, host)}) == 4 + 1 + 2 * 2 + 1


def test_the_representative_looks_for_hosts_outside_the_ring():
    world = ring(3)
    run(world, 10.0, apart=("h3",))
    before = len(world.sent)
    run(world, 5.0, apart=("h3",))
    assert {(packet.sender, packet.to) for packet in since(world, before, Probe)} == {("h1", "h3"), ("h3", "h1"), ("h3", "h2")}


def test_a_representative_probes_another_host_first_each_time_as_queues_may_be_shorter_than_a_burst():
    world = ring(4)
    run(world, 10.0, down=world.hosts[1:])
    before = len(world.sent)
    run(world, 20.0, down=world.hosts[1:])
    assert {packet.to for packet in since(world, before, Probe)[::3]} == {"h2", "h3", "h4"}


@pytest.mark.parametrize(("given_up", "heeded"), [((), True), (("h1",), False), (("h2",), False)])
def test_a_proposal_of_a_host_that_has_given_up_a_member_of_the_ring_is_not_heeded(given_up, heeded):
    """Its own ring comes first: members that took its proposal up would give each other up in turn, for ever."""
    world = World(Totem, 4)
    run(world, 10.0, down=("h4",))
    assert views(world, "h1")[-1] == ("h1", "h2", "h3")
    before = len(world.sent)
    join = Join(EVERYBODY, "h4", 0, host_set(world.hosts, world.hosts), host_set(given_up, world.hosts), 1)
    world["h1"].core.on_message("h4", join, expensive=False)
    world["h1"].carry_out()
    assert bool(since(world, before, Join)) == heeded


def test_what_only_one_of_the_survivors_has_is_sent_again_once_and_delivered_by_all_before_the_next_view():
    """Extended virtual synchrony: h1 sends a message that reaches h2 alone, and dies."""
    world = ring(4)
    world.broadcast("h1")
    for host in ("h3", "h4"):
        world.lose(to=host, kind=Data)
    before = len(world.sent)
    run(world, 5.0, down=("h1",))
    assert len([packet for packet in since(world, before, Data) if packet.message.old_ring]) == 2
    for host in ("h2", "h3", "h4"):
        events = [event for event, _ in world[host].traced if event == "view"]
        assert world.delivered(host) == [("h1", 1)]
        assert len(events) == 4


def test_what_the_survivors_cannot_have_leaves_a_gap_that_their_own_messages_pass():
    """h1 sends a message that nobody gets, then h2 sends one, and h1 dies."""
    world = ring(3)
    world.broadcast("h1")
    world.lose(kind=Data)
    world.broadcast("h2")
    while not since(world, 0, Data) or since(world, 0, Data)[-1].sender == "h1":
        world.hand_over()
    assert since(world, 0, Data)[-1].message.number == 2
    run(world, 5.0, down=("h1",))
    assert [world.delivered(host) for host in ("h2", "h3")] == [[("h2", 1)]] * 2


def beyond_a_gap(messages, first_reaches=(), **parameters):
    """A ring of four: h1 has sent a message, then h2 some, and the first of these is on its way to h3; all else is lost."""
    world = ring(4, **parameters)
    world.broadcast("h1")
    world.in_flight = [packet for packet in world.in_flight if not isinstance(packet.message, Data) or packet.to in first_reaches]
    for _ in range(messages):
        world.broadcast("h2")
    while not [packet for packet in since(world, 0, Data) if packet.sender == "h2"]:
        world.hand_over()
    data = [packet for packet in world.in_flight if isinstance(packet.message, Data)]
    world.in_flight = [packet for packet in data if (packet.to, packet.message.number) == ("h3", 2)]
    return world


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("messages", [1, 2], ids=["nothing to send again", "one to send again"])
def test_what_a_comrade_may_have_delivered_is_delivered_beyond_a_gap_whatever_ring_comes_next(messages, delivery):
    """Extended virtual synchrony: h2 installs the view of h2 and h3 and dies before h3 does. Then h3 comes to a ring with h4."""
    world = beyond_a_gap(messages, delivery=delivery)
    run(world, 20.0, down=("h1", "h4"), until=lambda: views(world, "h2")[-1] == ("h2", "h3"))
    sent = [("h2", n) for n in range(1, messages + 1)]
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)] if delivery == "agreed" else [], sent, [], []]
    world.lose()
    run(world, 20.0, down=("h1", "h2"))
    assert views(world, "h3")[-1] == ("h3", "h4")
    assert [world.delivered(host) for host in ("h3", "h4")] == [sent] * 2


def test_a_host_that_lacks_what_a_comrade_has_delivers_nothing_beyond_it_when_the_comrade_dies():
    """h2 sends its message when it has that of h1, which h3 has not got yet when the ring of h2 and h3 breaks."""
    world = beyond_a_gap(1, first_reaches=("h2",))
    run(world, 20.0, down=("h1", "h4"), until=lambda: any(packet.message.old_ring for packet in since(world, 0, Data)))
    world.lose()
    run(world, 20.0, down=("h1", "h2"))
    assert views(world, "h3")[-1] == ("h3", "h4")
    assert [world.delivered(host) for host in ("h2", "h3", "h4")] == [[("h1", 1), ("h2", 1)], [], []]


def test_what_reports_have_no_room_for_is_sent_again_once_all_the_same():
    """Of the messages of h5, h1 and h3 get every other one and h2 the rest, so that each has more gaps than it can report; h5 dies."""
    world = ring(5)
    for _ in range(32):
        world.broadcast("h5")
    while not since(world, 0, Data):
        world.hand_over()
    data = [packet for packet in world.in_flight if isinstance(packet.message, Data)]
    world.in_flight = [packet for packet in data if packet.to in (("h1", "h3"), ("h2",))[packet.message.number % 2]]
    run(world, 10.0, down=("h5",))
    assert [world.delivered(host) for host in world.hosts[:4]] == [[("h5", n) for n in range(1, 33)]] * 4
    assert len([packet for packet in since(world, 0, Data) if packet.message.old_ring]) == 3 * 32


def test_no_member_loses_its_own_message_in_a_ring_so_large_that_reports_have_no_room_for_gaps():
    """The last member sends a message that nobody gets, then h1 one that nobody gets either, and the last one dies."""
    world = ring(MOST_REPORTED + 2)
    for host in (world.hosts[-1], "h1"):
        world.broadcast(host)
        while not world.lose(kind=Data):
            world.hand_over()
    run(world, 10.0, down=world.hosts[-1:], until=lambda: any(isinstance(packet.message, Data) for packet in world.in_flight))
    assert world.lose(to="h2", kind=Data) == 1
    run(world, 10.0, down=world.hosts[-1:])
    assert {tuple(world.delivered(host)) for host in world.hosts[:-1]} == {(("h1", 1),)}


@pytest.mark.parametrize("size", [2, 3, MOST_REPORTED, MOST_OBLIGED, MOST_HOSTS])
def test_a_commit_token_fits_into_a_datagram_whatever_there_is_to_report(size):
    hosts, high = tuple(f"h{n}" for n in range(1, MOST_HOSTS + 1)), 1 << 31
    old = Ring((1 << 32) - 1, hosts)
    old.received = SequenceSet(high, ((n, n) for n in range(high + 2, high + 200, 2)))
    old.safe, old.obliged = high, frozenset(hosts)
    commit = Commit(EVERYBODY, "h1", 0, old.code, host_set(hosts, hosts), 2 * size, (old.report(size, hosts),) * size)
    codec = Codec(Totem.number, Totem.messages, 1, {host: n for n, host in enumerate(hosts, start=1)})
    assert codec.decode(codec.encode(1, 1, commit, Purpose.CONTROL, 0)).messages == (commit,)


def test_what_waits_at_its_source_when_the_ring_changes_is_sent_on_the_next_ring():
    world = ring(3)
    run(world, 1.0, down=("h3",))
    world.lose()
    world.broadcast("h2")
    run(world, 10.0, down=("h3",))
    assert [world.delivered(host) for host in ("h1", "h2")] == [[("h2", 1)]] * 2


def test_a_member_that_comes_later_does_not_deliver_what_was_for_the_view_before():
    world = ring(3)
    run(world, 10.0, apart=("h3",))
    world[holder(world)[0]].core._gather()
    world.broadcast("h1")
    run(world, 10.0)
    assert [views(world, host)[-1] for host in world.hosts] == [world.hosts] * 3
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)], [("h1", 1)], []]


def test_a_source_that_restarts_delivers_what_it_had_sent_alone_and_sends_what_it_had_not():
    world = ring(3, delivery="safe")
    world.broadcast("h1")
    world.broadcast("h2")
    world.lose()
    world.restart("h1")
    world.restart("h2")
    run(world, 10.0)
    assert [views(world, host)[-1] for host in world.hosts] == [world.hosts] * 3
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1), ("h2", 1)], [("h2", 1)], [("h2", 1)]]


def test_a_host_that_restarts_is_in_a_ring_of_a_higher_number():
    world = ring(2)
    before = world["h2"].kept("core.gathering")["number"]
    world.restart("h2")
    run(world, 5.0)
    assert world["h2"].kept("core.gathering")["number"] > before
    assert len(set(numbers(world, "h2"))) == len(numbers(world, "h2")) == 4


def test_messages_to_groups_reach_all_and_are_delivered_by_members():
    world = ring(4, groups={1: ("h2", "h3")})
    world.broadcast("h1", to=1)
    world.broadcast("h4", to=("h1", "h2"))
    run(world, 0.5)
    assert [world.delivered(host) for host in world.hosts] == [[("h4", 1)], [("h1", 1), ("h4", 1)], [("h1", 1)], []]


def test_a_host_alone_is_a_ring_by_itself():
    world = World(Totem, 1)
    world.broadcast("h1")
    run(world, 1.0)
    assert world.delivered("h1") == [("h1", 1)]
    assert world.sent == []


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_no_two_hosts_disagree_and_all_come_together_again(seed, delivery):
    world = World(Totem, 4, seed=seed, delivery=delivery)
    run(world, 1.0)
    world.suffer(Random(seed), most_sent=2000)
    run(world, 60.0)
    assert [views(world, host)[-1] for host in world.hosts] == [world.hosts] * 4
    orders = [world.delivered(host) for host in world.hosts]
    for one in orders:
        for other in orders:
            common = set(one) & set(other)
            assert [message for message in one if message in common] == [message for message in other if message in common]
    before = [len(order) for order in orders]
    world.broadcast("h3")
    run(world, 2.0)
    assert [len(world.delivered(host)) for host in world.hosts] == [length + 1 for length in before]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_messages": 20, "window_size": 10}, "max_messages=20 must not be above window_size=10"),
        ({"first_wait_ms": 3000.0}, "first_wait_ms=3000 must not be above longest_wait_ms=2000"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused_with_a_sentence(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        Totem.check(Totem.Parameters(**parameters), ("h1", "h2"))


def test_more_hosts_than_a_commit_token_has_room_for_are_refused_with_a_sentence():
    hosts = tuple(f"h{n}" for n in range(MOST_HOSTS + 1))
    with pytest.raises(ValueError, match="65 hosts are too many: a ring has at most 64 members"):
        Totem.check(Totem.Parameters(), hosts)


def test_joins_name_all_hosts_that_are_known():
    world = World(Totem, 3)
    run(world, 0.1)
    assert {packet.message.proc for packet in since(world, 0, Join)} >= {b"\x01", b"\x07"}


def repeated(world, seconds):
    """When h1 repeats its first proposal, and to whom, while it hears nobody."""
    world.lose()
    seen, until, joins = len(world.sent), world.now_s + seconds, []
    while world.now_s < until:
        run(world, 0.001, down=world.hosts[1:])
        joins += [(world.now_s, packet.to) for packet in since(world, seen, Join)]
        seen = len(world.sent)
    return joins


def test_a_proposal_is_repeated_to_one_host_after_another_as_queues_may_be_shorter_than_a_burst():
    world = World(Totem, 12)
    others = set(world.hosts[1:])
    assert {packet.to for packet in since(world, 0, Join) if packet.sender == "h1"} == others
    joins = repeated(world, 1.5)
    assert len({at_s for at_s, _ in joins}) == len(joins)
    assert {to for _, to in joins[: len(others)]} == others


def test_on_a_network_that_multicasts_a_proposal_is_repeated_to_all_members_of_the_view_at_once():
    assert {to for _, to in repeated(World(Totem, 12, multicasts=True), 1.5)} == {0}


def test_a_host_that_has_time_repeats_its_proposals_as_often_as_hosts_that_would_give_it_up_sooner():
    joins = repeated(World(Totem, 2, first_wait_ms=2000.0), 2.0)
    assert len(joins) >= 2.0 / (JITTER * AGAIN_S) - 1
