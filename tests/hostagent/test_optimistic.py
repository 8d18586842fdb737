"""The optimistic protocol: one broadcast in a token period, batch acknowledgements, and rollbacks, as the fourth paper describes them."""

import msgspec
import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.tokens.pieces import LONGEST_CHUNK, MOST_PIECES
from hostagent.parts.tokens.places import places
from hostagent.parts.tokens.reformation import Reform
from hostagent.parts.tokens.ring import Token
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.optimistic.messages import Ask, Data, RollBack, Supply
from hostagent.protocols.optimistic.protocol import Optimistic, OptimisticParameters
from hostagent.protocols.optimistic.state import MOST_NAMES, Ballot, Name, TokenState, first_token, reformed
from tests.hostagent.world import World


class LoggedWorld(World):
    """A world that remembers what each host marks: deliver, commit, take-back."""

    def __init__(self, *args, **kwargs):
        self.logged = {}
        super().__init__(*args, **kwargs)

    def log(self, host, event):
        self.logged.setdefault(host, []).append((event.event, event.origin, event.sequence))

    def marks(self, host, *kinds):
        return [(origin, sequence) for event, origin, sequence in self.logged[host] if event in kinds]

    def standing(self, host):
        """What the host has delivered and not taken back, in order."""
        found = {}
        for event, origin, sequence in self.logged[host]:
            if event == "deliver":
                found[origin, sequence] = None
            elif event == "take-back":
                assert next(reversed(found)) == (origin, sequence), "the last message is taken back first"
                del found[origin, sequence]
        return list(found)


def run(world, until_s, lose=lambda _: False):
    """Hand over everything as it comes, and let timers expire, until a time; `lose` says what does not arrive."""
    while True:
        world.in_flight = [packet for packet in world.in_flight if not lose(packet) and world[packet.to].life is not None]
        if world.in_flight:
            world.hand_over()
            continue
        due = min(at for host in world.hosts if world[host].life is not None for at in world[host].timers.values())
        if due > until_s:
            world.now_s = until_s
            return
        world.expire()


def once(matches):
    """Lose the first packet that matches."""
    lost = []
    return lambda packet: not lost and matches(packet) and not lost.append(packet)


def kill(world, host):
    world[host].timers.clear()
    world[host].life = None


def states(world):
    """The tokens that were passed on, each once."""
    found = {}
    for packet in world.sent:
        if isinstance(packet.message, Token):
            found.setdefault(packet.message.hop, msgspec.msgpack.decode(packet.message.chunk, type=TokenState))
    return list(found.values())


def of_kind(world, kind):
    return [packet for packet in world.sent if isinstance(packet.message, kind)]


def token(*names, valid=None, acks=(0, 0, 0), **fields):
    made = [Name(origin, sequence, origin) for origin, sequence in names]
    changed = {"names": tuple(made), "valid": len(made) if valid is None else valid, "acks": acks} | fields
    return msgspec.structs.replace(first_token(len(acks)), **changed)


def ballot(top=0, done=0, tail=(), has=(), generation=0):
    return Ballot(generation, top, done, tail, has)


def test_a_message_is_delivered_when_the_token_names_it_and_committed_when_all_have_acknowledged_it():
    """Section 1: a node acknowledges all received messages when it becomes the token owner."""
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h2")
    run(world, 1.0)
    assert [(state.base, [name.key for name in state.names], state.acks) for state in states(world)[:4]] == [
        (0, [(1, 1)], (1, 0, 0)),
        (0, [(1, 1)], (1, 1, 0)),
        (1, [], (1, 1, 1)),
        (1, [], (1, 1, 1)),
    ]
    for host in world.hosts:
        assert [event for event, *_ in world.logged[host] if event in {"deliver", "commit"}] == ["deliver", "commit"]


def test_nothing_is_committed_before_every_member_has_it():
    """Section 5: safe."""
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 3.0, lambda packet: isinstance(packet.message, Data) and packet.to == "h3")
    assert world.marks("h2", "deliver")
    assert [world.marks(host, "commit") for host in world.hosts] == [[], [], []]


def test_a_host_broadcasts_one_message_in_a_token_period():
    world = World(Optimistic, 3)
    for _ in range(5):
        world.broadcast("h2")
    assert len(of_kind(world, Data)) == 2
    run(world, 1.0)
    data = of_kind(world, Data)
    passed = [number for number, packet in enumerate(world.sent) if isinstance(packet.message, Token) and packet.to != "h2"]
    broadcast = [number for number, packet in enumerate(world.sent) if isinstance(packet.message, Data)]
    # Two packets each, and a token between any two of them.
    assert len(data) == 10
    assert all(any(first < at < second for at in passed) for first, second in zip(broadcast[1::2], broadcast[2::2], strict=False))


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_with_a_message_of_every_host_in_a_period_a_token_serves_n_messages(multicasts):
    """Tables 1 and 2: (N - 1) + (N - 1) / N packets for a message in a point-to-point network, 1 + 1 / N in a broadcast network."""
    hosts, periods = 4, 40
    world = World(Optimistic, hosts, multicasts=multicasts)
    for _ in range(periods):
        for host in world.hosts:
            world.broadcast(host)
    run(world, 5.0)
    assert all(world.delivered(host) == world.delivered("h1") for host in world.hosts)
    last = max(number for number, packet in enumerate(world.sent) if isinstance(packet.message, Data))
    data, tokens = (sum(isinstance(packet.message, kind) for packet in world.sent[: last + 1]) for kind in (Data, Token))
    assert data == periods * hosts * (1 if multicasts else hosts - 1)
    # The first period begins before there is a token that was passed on.
    assert tokens == (periods - 1) * (1 if multicasts else hosts - 1)


def test_a_gap_makes_everybody_take_back_what_is_not_committed_broadcast_again_and_deliver_in_order():
    """Section 4.3: the whole system rolls back to the previous committed state."""
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 0.5)
    world.broadcast("h2")
    world.broadcast("h3")
    run(world, 3.0, once(lambda packet: isinstance(packet.message, Data) and packet.to == "h3" and packet.message.origin == "h2"))
    assert set(world.marks("h1", "take-back")) == {("h2", 1), ("h3", 1)}
    assert ("h1", 1) not in world.marks("h2", "take-back")
    again = [packet.message.origin for packet in of_kind(world, Data) if packet.purpose is Purpose.REPAIR]
    assert sorted(set(again)) == ["h2", "h3"]
    assert [world.standing(host) for host in world.hosts] == [[("h1", 1), ("h2", 1), ("h3", 1)]] * 3
    assert [world.marks(host, "commit") for host in world.hosts] == [[("h1", 1), ("h2", 1), ("h3", 1)]] * 3


def test_who_lacks_a_message_sends_a_rollback_request_and_an_owner_that_lacks_one_rolls_back_itself():
    """Section 4.3: up to N - 2 requests for a lost message, as all but the source and the owner that named it may have missed it."""
    world = LoggedWorld(Optimistic, 10)
    world.broadcast("h2")
    world.in_flight = [packet for packet in world.in_flight if packet.to not in {"h9", "h10"}]
    run(world, 3.0)
    assert {packet.sender for packet in of_kind(world, RollBack)} == {"h9", "h10"}
    assert max(state.rollbacks for state in states(world)) == 1
    assert [world.standing(host) for host in world.hosts] == [[("h2", 1)]] * 10
    alone = LoggedWorld(Optimistic, 3)
    alone.broadcast("h1")
    alone.lose(to="h2")
    run(alone, 3.0)
    assert not of_kind(alone, RollBack)
    assert max(state.rollbacks for state in states(alone)) == 1
    assert [alone.standing(host) for host in alone.hosts] == [[("h1", 1)]] * 3


def test_a_message_that_is_only_late_costs_no_rollback():
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    (late,) = [packet for packet in world.in_flight if packet.to == "h3"]
    world.in_flight.remove(late)
    run(world, 0.012)
    world.in_flight.append(late)
    run(world, 1.0)
    assert not of_kind(world, RollBack)
    assert not world.marks("h1", "take-back")
    assert [world.marks(host, "commit") for host in world.hosts] == [[("h1", 1)]] * 3


def test_only_a_request_about_the_state_of_the_token_makes_its_owner_roll_back():
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 1.0)
    owner = next(host for host in world.hosts if world[host].core._ring.holds)
    for stale in (RollBack(0, "h2", 0, 0, 0, 1), RollBack(0, "h2", 0, 0, 3, 2), RollBack(0, "h2", 0, 9, 0, 2)):
        world[owner].life.receive(next(host for host in world.hosts if host != owner), [stale], expensive=False)
    run(world, 5.0)
    assert all(state.rollbacks == 0 for state in states(world))


def test_a_rollback_keeps_the_order_of_names_and_nobody_has_acknowledged_one():
    state = token((0, 1), (2, 1), (0, 2), acks=(3, 1, 0))
    back = state.rolled_back(lacking=2)
    assert (back.names, back.valid, back.acks, back.rollbacks) == (state.names, 0, (0, 0, 0), 1)


def test_a_rollback_halves_what_may_be_under_way_and_a_commit_doubles_it():
    state = token((0, 1), (2, 1), (0, 2), (1, 1), window=100).rolled_back(lacking=2)
    again = state.rolled_back(lacking=2)
    assert (state.window, again.window, again.rolled_back(lacking=2).window) == (2, 1, 1)
    committed = msgspec.structs.replace(state, valid=2, acks=(1, 1, 0)).acknowledging(2, 1, 0)
    assert committed.window == 4


def test_what_is_not_in_the_window_waits():
    world = LoggedWorld(Optimistic, 3)
    core = world["h2"].core
    for _ in range(3):
        world.broadcast("h2")
    world.lose()
    names = tuple(Name(1, number, 1) for number in (1, 2, 3))
    narrow = msgspec.structs.replace(core._ring.latest, hop=20, names=names, valid=0, window=1, rollbacks=1)
    for hop in range(21, 24):
        state = msgspec.structs.replace(narrow, hop=hop)
        core._speaking.begin_period(state)
    assert [packet.message.sequence for packet in of_kind(world, Data)[2:]] == [1, 1]
    core._speaking.begin_period(msgspec.structs.replace(narrow, hop=24, window=2))
    assert of_kind(world, Data)[-1].message.sequence == 2


def test_those_who_asked_for_a_rollback_come_at_the_end_of_what_is_broadcast_again():
    """Of a burst that is longer than a queue, the end gets through."""
    world = LoggedWorld(Optimistic, 6)
    world.broadcast("h1")
    missed = {"h3", "h5"}
    run(world, 1.0, lambda packet: isinstance(packet.message, Data) and packet.to in missed and not packet.message.rollbacks)
    asked = places(states(world)[-1].lacking, world.hosts)
    again = [packet.to for packet in of_kind(world, Data) if packet.message.rollbacks]
    assert asked
    assert {*again[-len(asked) :]} == {*asked} <= missed
    assert all(world.standing(host) == [("h1", 1)] for host in world.hosts)


def test_the_last_and_the_next_owner_come_at_the_end_of_a_token_and_others_come_first_each_time():
    world = World(Optimistic, 6)
    for _ in range(60):
        world.broadcast("h1")
    run(world, 1.0)
    told = {}
    for packet in of_kind(world, Token):
        told.setdefault((packet.message.hop, packet.sender), []).append(packet.to)
    for (_, owner), hosts in told.items():
        place = world.hosts.index(owner)
        assert hosts[-2:] == [world.hosts[place - 1], world.hosts[(place + 1) % 6]]
        assert len({*hosts}) == len(hosts) == 5
    assert {hosts[0] for (_, owner), hosts in told.items() if owner == "h1"} == {"h3", "h4", "h5"}


def test_a_host_that_never_hears_the_next_owner_learns_from_later_tokens_how_long_to_wait():
    """The token of the host after the next one may drop that of the next one from a queue, each time."""
    world = World(Optimistic, 4)
    ring = world["h1"].core._ring
    for _ in range(2):
        ring._trips.asked("h2", 0.0)
        ring._trips.answered("h2", 2.0)
    for _ in range(200):
        world.broadcast("h1")
    run(world, 3.0, lambda packet: isinstance(packet.message, Token) and (packet.sender, packet.to) == ("h2", "h1"))
    assert ring._trips.wait_s("h2") < 0.1


def test_after_a_rollback_names_come_into_force_in_their_order_when_the_owner_has_heard_them_again():
    state = token((0, 1), (2, 1), (0, 2), valid=0, rollbacks=1)
    heard = {(2, 1): (0, 1), (0, 2): (0, 1), (1, 1): (0, 1)}
    assert state.naming(heard).valid == 0
    assert state.naming(heard | {(0, 1): (0, 0)}).valid == 0
    named = state.naming(heard | {(0, 1): (0, 1)})
    assert (named.valid, [name.key for name in named.names]) == (4, [(0, 1), (2, 1), (0, 2), (1, 1)])


def test_what_all_members_have_acknowledged_is_committed_and_needs_no_name_any_more():
    state = token((0, 1), (2, 1), acks=(2, 1, 0)).acknowledging(2, 2, 0)
    assert (state.base, [name.key for name in state.names], state.valid, state.lasts) == (1, [(2, 1)], 1, (1, 0, 0))


def test_a_token_that_is_lost_is_reissued():
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 2.0, once(lambda packet: isinstance(packet.message, Token) and packet.to == "h2"))
    assert [world.marks(host, "commit") for host in world.hosts] == [[("h1", 1)]] * 3
    assert not of_kind(world, Reform)


def test_a_host_that_misses_a_token_learns_the_names_from_the_next_one():
    world = LoggedWorld(Optimistic, 4)
    world.broadcast("h2")
    run(world, 2.0, once(lambda packet: isinstance(packet.message, Token) and packet.to == "h4"))
    assert not of_kind(world, RollBack)
    assert [world.marks(host, "commit") for host in world.hosts] == [[("h2", 1)]] * 4


def test_a_token_that_comes_again_is_given_up():
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 0.004)
    old = next(packet for packet in of_kind(world, Token) if packet.to == "h2")
    run(world, 1.0)
    held = [details for event, details in world["h2"].traced if event == "token"]
    world["h2"].life.receive("h1", [old.message], expensive=False)
    assert [details for event, details in world["h2"].traced if event == "token"] == held


def test_the_others_go_on_without_an_owner_that_fails_and_its_message_survives_with_whoever_has_it():
    world = LoggedWorld(Optimistic, 4)
    world.broadcast("h2")
    run(world, 0.004)
    assert world.marks("h3", "deliver") == [("h2", 1)]
    kill(world, "h2")
    world.broadcast("h1")
    run(world, 20.0)
    others = ("h1", "h3", "h4")
    assert [world.marks(host, "commit") for host in others] == [[("h2", 1), ("h1", 1)]] * 3
    assert world["h1"].core._ring.latest.members == 0b1101
    assert world["h3"].core.env.groups[0] == others
    assert ("excluded", {"host": "h2", "graph": world["h1"].core._ring.latest.generation}) in world["h1"].traced


def test_a_host_that_is_back_takes_back_what_it_did_not_see_committed_and_gets_what_was_for_it():
    """Section 5: R2 of the fourth paper, a node that recovers rolls back and recovers missed messages."""
    world = LoggedWorld(Optimistic, 3)
    world.broadcast("h1")
    run(world, 0.5)
    world.broadcast("h3")
    # Nobody else hears of the message that h3 broadcasts and would name itself.
    run(world, 0.52, lambda packet: "h3" in {packet.sender, packet.to})
    for _ in range(3):
        world.broadcast("h1")
    run(world, 30.0, lambda packet: "h3" in {packet.sender, packet.to})
    assert world.marks("h1", "commit") == [("h1", number) for number in range(1, 5)]
    run(world, 90.0)
    assert of_kind(world, Ask)
    assert {packet.message.sequence for packet in of_kind(world, Supply)} >= {2, 3, 4}
    expected = [*(("h1", number) for number in range(1, 5)), ("h3", 1)]
    assert [world.standing(host) for host in world.hosts] == [expected] * 3
    assert [world.marks(host, "commit") for host in world.hosts] == [expected] * 3


def test_who_was_away_keeps_what_is_for_another_host_that_still_is():
    """A host that comes back later may find nobody else who has it."""
    world = LoggedWorld(Optimistic, 5)
    run(world, 0.5)
    kill(world, "h4")
    run(world, 20.0)
    world.broadcast("h1")
    run(world, 20.004)
    # h5 has delivered the message, and does not learn that it is committed.
    run(world, 40.0, lambda packet: "h5" in {packet.sender, packet.to})
    assert world.marks("h1", "commit") == [("h1", 1)]
    assert not world.marks("h5", "commit")
    world.restart("h4")
    run(world, 60.0, lambda packet: "h5" in {packet.sender, packet.to})
    assert world["h4"].core._journal.kept(0, 1)
    assert not world.marks("h4", "deliver")
    run(world, 120.0, lambda packet: packet.to == "h5" and packet.sender != "h4" and isinstance(packet.message, Supply))
    assert world.marks("h5", "commit") == [("h1", 1)]
    assert not world["h4"].core._journal.kept(0, 1)


def test_a_restart_changes_nothing_that_a_host_has_said():
    world = LoggedWorld(Optimistic, 3)
    for host in world.hosts:
        world.broadcast(host)
    for number in range(12):
        run(world, 0.002 * number)
        world.restart(world.hosts[number % 3])
    run(world, 30.0)
    everything = [("h1", 1), ("h2", 1), ("h3", 1)]
    assert [sorted(world.standing(host)) for host in world.hosts] == [everything] * 3
    assert world.marks("h1", "commit") == world.marks("h2", "commit") == world.marks("h3", "commit")


def test_a_minority_commits_nothing():
    world = LoggedWorld(Optimistic, 5)
    for host in ("h3", "h4", "h5"):
        kill(world, host)
    world.broadcast("h1")
    run(world, 30.0)
    assert not world.marks("h1", "commit")
    assert world["h1"].core._ring.latest.members == 0b11111


def test_a_new_list_settles_what_every_voter_of_the_old_one_has_and_keeps_the_order_of_the_rest():
    state = token((0, 1), (2, 1), (0, 2), acks=(3, 1, 0), hop=9)
    all_of = ((0, 1, 2), (2, 1, 1))
    made = reformed(state, 4, 0, {0: ballot(top=3, has=all_of), 2: ballot(top=1, has=all_of)})
    assert (made.settled, made.base, made.valid, made.members, made.view) == (1, 1, 0, 0b101, 4)
    assert [name.key for name in made.names] == [(2, 1), (0, 2)]
    assert (made.acks[0], made.acks[2], made.lasts) == (1, 1, (1, 0, 0))


def test_a_voter_of_an_older_list_keeps_only_what_it_saw_committed():
    state = token((0, 1), acks=(1, 1, 1), generation=4, base=5)
    made = reformed(state, 8, 0, {0: ballot(top=6, done=5, generation=4, has=((0, 1, 1),)), 1: ballot(top=7, done=2)})
    assert (made.settled, made.acks[1]) == (5, 2)


def test_what_nobody_has_is_dropped_and_so_is_what_it_may_have_caused_at_hosts_that_are_gone():
    state = token((1, 1), (0, 1), (1, 2), (2, 1))
    made = reformed(state, 4, 0, {0: ballot(has=((0, 1, 1), (1, 2, 2))), 2: ballot(has=((2, 1, 1),))})
    assert [(name.key, name.speaker) for name in made.names] == [((0, 1), 0), ((2, 1), 2)]
    kept = reformed(state, 4, 0, {0: ballot(has=((0, 1, 1),)), 2: ballot(has=((1, 1, 2), (2, 1, 1)))})
    assert [(name.key, name.speaker) for name in kept.names] == [((1, 1), 2), ((0, 1), 0), ((1, 2), 2), ((2, 1), 2)]


def test_names_that_only_a_host_knows_which_has_delivered_them_are_not_lost():
    made = reformed(token((0, 1)), 4, 0, {0: ballot(has=((0, 1, 1), (2, 1, 1))), 2: ballot(top=2, tail=((0, 1), (2, 1)))})
    assert [name.key for name in made.names] == [(0, 1), (2, 1)]


def test_names_come_into_force_when_every_member_has_seen_the_new_list():
    state = msgspec.structs.replace(token(), hop=20, since=19)
    heard = {(0, 1): state.stamp}
    assert not state.naming(heard).names
    assert msgspec.structs.replace(state, hop=21).naming(heard).names


def test_the_longest_token_fits_into_its_pieces():
    names = tuple(Name(59, 2**32 - 1, 59) for _ in range(MOST_NAMES))
    most = (1 << 40) - 1
    state = msgspec.structs.replace(first_token(60), names=names, acks=(most,) * 60, done=(most,) * 60, lasts=(2**32 - 1,) * 60)
    assert len(msgspec.msgpack.encode(state)) <= LONGEST_CHUNK * MOST_PIECES


def test_an_idle_ring_costs_no_more_packets_than_it_may():
    world = World(Optimistic, 4)
    world.broadcast("h1")
    run(world, 20.0)
    before = len(world.sent)
    run(world, 120.0)
    assert (len(world.sent) - before) / 100 <= OptimisticParameters().idle_packets_per_second


def test_one_host_alone_commits_its_own_messages():
    world = LoggedWorld(Optimistic, 1)
    world.broadcast("h1")
    run(world, 1.0)
    assert world.marks("h1", "deliver", "commit") == [("h1", 1)] * 2
    assert not world.sent


@pytest.mark.parametrize(
    ("parameters", "hosts", "sentence"),
    [({"longest_wait_ms": 1.0}, 3, "longest_wait_ms=1 must not be below"), ({}, 61, "at most 60 hosts")],
)
def test_bad_parameters_get_a_sentence(parameters, hosts, sentence):
    with pytest.raises(ValueError, match=sentence):
        PROTOCOLS["optimistic"].check(OptimisticParameters(**parameters), tuple(f"h{n}" for n in range(hosts)))
