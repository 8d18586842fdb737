"""The two-phase protocol: two phases with all destinations, and a third one that lets a majority go on."""

from itertools import combinations
from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.protocols.two_phase.messages import Accept, Accepted, Decided, Done, Final, First, Have, Promised, Proposal, Vote
from hostagent.protocols.two_phase.protocol import TwoPhase
from tests.hostagent.world import World
from tests.mutants import two_phase

GROUPS = {1: ("h1", "h2", "h3"), 2: ("h2", "h3", "h4")}
MODES = ("block", "elect")


def data(world):
    return [packet for packet in world.sent if packet.purpose is Purpose.DATA]


def sent(world, kind):
    return [packet for packet in world.sent if isinstance(packet.message, kind)]


def hand_over(world, kind=object, to=None):
    """Hand over what is in flight of a kind and to a host, and nothing that follows from it."""
    chosen = [packet for packet in world.in_flight if isinstance(packet.message, kind) and to in {None, packet.to}]
    for packet in chosen:
        world.hand_over(lambda _, packet=packet: world.in_flight.index(packet))


def expire_until(world, condition):
    for _ in range(200):
        if condition():
            return
        world.expire()
        world.settle()
    raise AssertionError("it never came true")


@pytest.mark.parametrize(("source", "members"), [("h1", 3), ("h4", 3)], ids=["inside", "outside"])
@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_a_message_takes_the_packets_of_tables_4_1_and_4_2(source, members, multicasts):
    """3 n, or 3 (n - 1) from a member; n + 2 on a broadcast network, or n + 1 (third paper)."""
    world = World(TwoPhase, 5, groups=GROUPS, multicasts=multicasts)
    world.broadcast(source, to=1)
    world.settle()
    others = members - (source in GROUPS[1])
    assert len(data(world)) == (others + 2 if multicasts else 3 * others)
    assert [(len(sent(world, kind)), kind) for kind in (Proposal, Have)] == [(others, Proposal), (others, Have)]
    assert len(world.sent) == len(data(world)) + others
    assert [host for host in world.hosts if world.delivered(host)] == ["h1", "h2", "h3"]


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_with_election_a_message_takes_five_packets_for_each_other_host(multicasts):
    world = World(TwoPhase, 5, groups=GROUPS, multicasts=multicasts, failover="elect")
    world.broadcast("h1", to=2)
    world.settle()
    assert len(data(world)) == (3 + 2 * 4 if multicasts else 5 * 4)
    assert [len(sent(world, kind)) for kind in (Promised, Accepted, Have)] == [4, 4, 4]
    assert len(sent(world, Done)) == (1 if multicasts else 4)
    assert [host for host in world.hosts if world.delivered(host)] == ["h2", "h3", "h4"]


def test_a_message_is_undeliverable_until_its_final_priority_is_known():
    world = World(TwoPhase, 3)
    world.broadcast("h1")
    hand_over(world, First)
    assert not any(world.delivered(host) for host in world.hosts)
    hand_over(world, Proposal)
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 0, 0]
    hand_over(world, Final, to="h3")
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 0, 1]


def test_the_highest_proposal_is_final_and_equal_counters_are_told_apart_by_hosts():
    """Section 2.5: priorities are unique in the system. h1 and h2 each propose 1 for their own message and 2 for the other's."""
    world = World(TwoPhase, 2)
    world.broadcast("h1")
    world.broadcast("h2")
    world.settle()
    finals = {packet.message.origin: (packet.message.counter, packet.message.by) for packet in sent(world, Final)}
    assert finals == {"h1": (2, "h2"), "h2": (2, "h1")}
    assert world.delivered("h1") == world.delivered("h2") == [("h2", 1), ("h1", 1)]


def test_a_message_that_is_final_waits_for_one_before_it_that_is_not():
    world = World(TwoPhase, 3)
    world.broadcast("h1")
    hand_over(world, First, to="h3")
    world.lose()
    world.broadcast("h2")
    world.settle()
    assert world.delivered("h2") == [("h2", 1)]
    assert world.delivered("h3") == []
    expire_until(world, lambda: len(world.delivered("h3")) == 2)
    assert world.delivered("h1") == world.delivered("h2") == world.delivered("h3")


def test_messages_of_one_source_do_not_overtake_each_other():
    world = World(TwoPhase, 3)
    for _ in range(3):
        world.broadcast("h1")
    world.in_flight.reverse()
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1), ("h1", 2), ("h1", 3)]] * 3


def test_a_source_that_fails_between_its_phases_blocks_and_finishes_from_its_storage_when_it_is_back():
    """Section 7.1.3: the protocol blocks like two-phase commit. The final priority is the one that was stored."""
    world = World(TwoPhase, 3)
    world.broadcast("h1")
    hand_over(world, First)
    hand_over(world, Proposal)
    decided = sent(world, Final)[0].message
    world.lose()
    world.broadcast("h2")
    hand_over(world, First)
    world.lose(to="h1")
    world.restart("h1")
    assert not world.delivered("h2")
    expire_until(world, lambda: not world.timers())
    assert {packet.message for packet in sent(world, Final) if packet.message.origin == "h1"} == {decided}
    assert world.delivered("h1") == world.delivered("h2") == world.delivered("h3")


def test_with_election_others_finish_what_a_source_began_and_it_agrees_when_it_is_back():
    world = World(TwoPhase, 5, failover="elect")
    world.broadcast("h1")
    hand_over(world, Vote)
    world.lose()
    world["h1"].timers.clear()
    while not all(world.delivered(host) for host in world.hosts[1:]):
        world.expire()
        world.lose(to="h1")
        settle_without(world, "h1")
    assert not world.delivered("h1")
    world.restart("h1")
    expire_until(world, lambda: world.delivered("h1"))
    assert {packet.message.counter for packet in sent(world, Decided)} == {sent(world, Accept)[0].message.counter}


def test_with_election_a_source_that_lost_its_storage_is_told_of_its_messages_and_does_not_use_their_numbers_again():
    world = World(TwoPhase, 3, failover="elect")
    world.broadcast("h1", b"first")
    hand_over(world, Vote)
    world.lose()
    world["h1"].storage.clear()
    world.restart("h1")
    expire_until(world, lambda: all(map(world.delivered, world.hosts)))
    world.broadcast("h1", b"another")
    assert not world.in_flight
    assert not world["h1"].core.agreement.held
    assert {payload for host in world.hosts for _, _, payload in world[host].delivered} == {b"first"}


def settle_without(world, host):
    """Hand over everything, but nothing to or from a host that is down."""
    while world.in_flight:
        world.in_flight = [packet for packet in world.in_flight if host not in {packet.to, packet.sender}]
        if world.in_flight:
            world.hand_over()


def test_with_election_two_hosts_that_take_over_at_once_agree():
    world = World(TwoPhase, 5, failover="elect")
    world.broadcast("h1")
    hand_over(world, Vote)
    world.lose()
    world["h1"].timers.clear()
    for host in ("h2", "h3"):
        core = world[host].core.agreement
        core._take_over(core.held["h1", 1])
    random = Random(7)
    while not all(world.delivered(host) for host in world.hosts[1:]):
        while world.in_flight:
            world.in_flight = [packet for packet in world.in_flight if "h1" not in {packet.to, packet.sender}]
            if world.in_flight:
                world.hand_over(random.randrange)
        world.expire()
    assert len({packet.message.counter for packet in sent(world, Decided)}) == 1
    assert len({packet.message.ballot for packet in sent(world, Accept)}) >= 1


def test_with_election_a_message_does_not_wait_for_what_only_a_host_that_disappeared_has_seen():
    """h3 accepts h1's message and has one of its own that nobody else has got; then it is cut off."""
    world = World(TwoPhase, 3, failover="elect")
    world.broadcast("h3")
    world.lose()
    world.broadcast("h1")
    world.lose(to="h2")
    hand_over(world, Vote)
    hand_over(world, Promised)
    hand_over(world, Accept, to="h3")
    hand_over(world, Accepted)
    assert world.delivered("h1") == []
    world["h3"].timers.clear()
    for _ in range(50):
        settle_without(world, "h3")
        if world.delivered("h1") and world.delivered("h2"):
            break
        world["h3"].timers.clear()
        world.expire()
    assert world.delivered("h1") == world.delivered("h2") == [("h1", 1)]
    world.restart("h3")
    expire_until(world, lambda: all(len(world.delivered(host)) == 2 for host in world.hosts))
    assert world.delivered("h1") == world.delivered("h2") == world.delivered("h3")


@pytest.mark.parametrize("failover", MODES)
def test_a_source_has_so_many_messages_under_way_and_the_others_wait_also_across_a_restart(failover):
    world = World(TwoPhase, 3, failover=failover, window=2)
    for _ in range(5):
        world.broadcast("h1")
    assert {packet.message.sequence for packet in world.in_flight} == {1, 2}
    world.lose()
    world.restart("h1")
    expire_until(world, lambda: not world.lacking())
    assert [sequence for _, sequence in world.delivered("h2")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("failover", MODES)
def test_a_message_to_listed_hosts_is_for_them_only_and_one_to_nobody_else_needs_no_packets(failover):
    world = World(TwoPhase, 4, failover=failover)
    world.broadcast("h1", to=("h2", "h4"))
    world.broadcast("h1", to=("h2", "h4"))
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [0, 2, 0, 2]
    if failover == "block":
        before = len(world.sent)
        world.broadcast("h3", to=("h3",))
        assert (len(world.sent), world.delivered("h3")) == (before, [("h3", 1)])


def suffered(core, failover, seed):
    """What each host has delivered after anything has happened, and what is for it."""
    random = Random(seed)
    world = World(core, 4, seed=seed, groups=GROUPS, failover=failover)
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
    return {host: world.delivered(host) for host in world.hosts}, due


def agree(logs):
    return all(
        [message for message in one if message in other] == [message for message in other if message in one]
        for one, other in combinations(logs.values(), 2)
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("failover", MODES)
def test_whatever_happens_no_two_hosts_disagree_and_in_the_end_everybody_has_its_messages(failover, seed):
    logs, due = suffered(TwoPhase, failover, seed)
    assert {host: sorted(log) for host, log in logs.items()} == {host: sorted(messages) for host, messages in due.items()}
    assert agree(logs)


@pytest.mark.parametrize(
    ("mistake", "failover", "seed"),
    [(two_phase.ForgetsItsCounterAtRestart, "block", 16), (two_phase.ForgetsItsCounterWhenElecting, "elect", 18)],
    ids=MODES,
)
def test_hosts_that_begin_their_counters_again_after_a_restart_would_disagree(mistake, failover, seed):
    """Campaigns hardly ever catch these mutants, as all destinations of a message must have forgotten."""
    assert not agree(suffered(two_phase.with_agreement(mistake), failover, seed)[0])
    assert agree(suffered(TwoPhase, failover, seed)[0])


def test_what_is_promised_in_each_mode():
    block, elect = (TwoPhase.promise(TwoPhase.Parameters(failover=mode), 7) for mode in MODES)
    assert (block.quorum, elect.quorum) == (7, 4)
    assert [TwoPhase.most_lost(TwoPhase.Parameters(failover=mode), 7) for mode in MODES] == [7, 3]
    assert block.orders == elect.orders


def test_more_hosts_than_an_answer_has_room_for_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match="failover=elect is for at most 200 hosts"):
        TwoPhase.check(TwoPhase.Parameters(failover="elect"), tuple(f"h{n}" for n in range(201)))
    TwoPhase.check(TwoPhase.Parameters(), tuple(f"h{n}" for n in range(201)))
