"""The counter protocol: what the token carries, when messages are committed, and what happens when tokens, messages and hosts are lost."""

import msgspec
import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.tokens.pieces import LONGEST_CHUNK, MOST_PIECES, Assembly, cut
from hostagent.parts.tokens.places import MOST_HOSTS, following
from hostagent.parts.tokens.reformation import Known, Reform, Vote
from hostagent.parts.tokens.ring import Token
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.counter.messages import Msg, Req
from hostagent.protocols.counter.parameters import CounterParameters
from hostagent.protocols.counter.protocol import Counter
from hostagent.protocols.counter.state import (
    CERTAIN,
    MOST_ENTRIES_BYTES,
    Ballot,
    Entry,
    Rules,
    TokenState,
    encode_state,
    reformed,
)
from scenarios.catalogue import find
from testbed.errors import CannotRun
from testbed.running.settings import choose
from tests.hostagent.world import World

LIST = Rules(3, "list", "cycle")


def token(*entries, cycle=2, members=0b111, hosts=3, **fields):
    made = {
        "generation": 0,
        "hop": 5,
        "next": 0,
        "top": 0,
        "done": (0,) * hosts,
        "groups": (),
        "local": (),
        "overload": 0,
        "still": 0,
    }
    return TokenState(**made | {"cycle": cycle, "members": members, "entries": entries} | fields)


def entry(cycle, origin, *, have, first=1, runs=((1, 0b111),), hosts=3):
    return Entry(cycle * hosts + origin, origin, first, runs, have)


def tokens(world):
    return [packet for packet in world.sent if isinstance(packet.message, Token)]


def names_messages(packet):
    """Whether it is a token with entries."""
    return isinstance(packet.message, Token | Known) and msgspec.msgpack.decode(packet.message.chunk, type=TokenState).entries


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


def kill(world, host):
    world[host].timers.clear()
    world[host].life = None


def delivered(world, hosts=None):
    return [world.delivered(host) for host in hosts or world.hosts]


def test_an_owner_counts_itself_in_adds_what_it_sent_and_all_commit_when_everybody_has_a_cycle():
    """Figure 2: A adds a1 in cycle 1, B and C count themselves in, and A removes its entry when the token is back."""
    world = World(Counter, 3)
    world.broadcast("h1")
    run(world, 1.0)
    states = [msgspec.msgpack.decode(packet.message.chunk, type=TokenState) for packet in tokens(world)[::2]]
    assert [[(e.first, e.last, bin(e.have)) for e in state.entries] for state in states[:4]] == [
        [(1, 1, "0b1")],
        [(1, 1, "0b11")],
        [(1, 1, "0b111")],
        [],
    ]
    assert delivered(world) == [[("h1", 1)]] * 3


def test_a_cycle_is_committed_when_it_is_complete_and_all_before_it_are():
    """Section 2.3, the first of the two situations."""
    done = entry(1, 0, have=0b111), entry(1, 1, have=0b111)
    assert LIST.frontier(token(*done)) == 2 * 3 - 1
    assert LIST.frontier(token(entry(1, 0, have=0b011), entry(1, 1, have=0b111))) == 1 * 3 - 1
    assert LIST.frontier(token(entry(1, 0, have=0b011), entry(2, 1, have=0b111), cycle=3)) == 1 * 3 - 1


def test_a_cycle_is_committed_when_the_token_has_it_no_more():
    """Section 2.3, the second situation: the sender has removed what everybody has."""
    assert LIST.frontier(token(cycle=4)) == 4 * 3 - 1


def test_a_cycle_that_is_not_over_is_not_committed():
    assert LIST.frontier(token(entry(2, 0, have=0b111), cycle=2)) == 2 * 3 - 1


def test_with_commit_entry_an_entry_does_not_wait_for_its_cycle():
    rules = Rules(3, "list", "entry")
    assert rules.frontier(token(entry(2, 0, have=0b111), entry(2, 1, have=0b010), cycle=2, top=7)) == 6
    assert rules.frontier(token(entry(2, 0, have=0b111), cycle=2, top=6)) == 6


def test_inside_a_cycle_hosts_come_in_the_order_of_the_list_or_of_the_list_from_another_host_each_time():
    """Section 2.3, the two orders."""
    rotating = Rules(3, "rotating", "cycle")
    assert sorted(range(3), key=lambda place: LIST.position(4, place)) == [0, 1, 2]
    assert [sorted(range(3), key=lambda place: rotating.position(cycle, place)) for cycle in (3, 4, 5)] == [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
    ]


@pytest.mark.parametrize("parameters", [{}, {"order": "rotating"}, {"commit": "entry"}], ids=["list", "rotating", "entry"])
@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_all_hosts_deliver_in_one_order_and_a_message_is_a_datagram_to_each_host_or_one_to_all(parameters, multicasts):
    world = World(Counter, 4, multicasts=multicasts, **parameters)
    for number in range(20):
        world.broadcast(world.hosts[number % 4])
        run(world, world.now_s + 0.002)
    run(world, world.now_s + 1.0)
    assert len(delivered(world)[0]) == 20
    assert all(one == delivered(world)[0] for one in delivered(world))
    data = [packet for packet in world.sent if packet.purpose is Purpose.DATA]
    assert len(data) == (20 if multicasts else 60)


def test_a_message_to_a_group_is_committed_by_its_destinations_and_goes_to_them_alone():
    """Section 6: the IDs field."""
    world = World(Counter, 4, groups={1: ("h2", "h4")})
    world.broadcast("h1", to=1)
    world.broadcast("h2", to=("h2", "h3"))
    run(world, 1.0)
    assert delivered(world) == [[], [("h1", 1), ("h2", 1)], [("h2", 1)], [("h1", 1)]]
    assert {packet.to for packet in world.sent if isinstance(packet.message, Msg)} == {"h2", "h3", "h4"}


def test_an_entry_needs_its_destinations_or_all_members_if_a_destination_is_out_of_the_list():
    to_two = ((1, 0b011),)
    assert entry(1, 0, have=0b011, runs=to_two).is_complete(0b111)
    assert not entry(1, 0, have=0b011, runs=to_two).is_complete(0b101)
    assert entry(1, 0, have=0b101, runs=to_two).is_complete(0b101)


def test_messages_to_few_are_counted_once_more_when_all_of_them_have_them():
    rules, everybody = Rules(5, "list", "cycle"), 0b11111
    few, many = (entry(1, 1, have=ids, runs=((1, ids),), hosts=5) for ids in (0b00011, 0b00111))
    assert rules.counted_again(few, everybody, 0).have == CERTAIN | 0b00001
    assert rules.counted_again(many, everybody, 0) == many
    for have, position in ((everybody, 4), (CERTAIN | 0b00011, 4), (CERTAIN | 0b00111, 9)):
        assert rules.frontier(token(msgspec.structs.replace(few, have=have), hosts=5, members=everybody)) == position
    assert rules.frontier(token(many, hosts=5, members=everybody)) == 9


def test_a_message_to_few_has_one_place_in_the_order_also_if_all_of_them_are_gone_when_the_next_list_is_formed():
    """h1 is the last to count itself in, and nobody hears of it; h2 is cut off, and back before h1 is."""
    world = World(Counter, 5, commit="entry")
    world.broadcast("h2", to=("h1", "h2"))
    world.broadcast("h3")
    run(world, 0.1, lambda packet: packet.sender == "h1" and names_messages(packet))
    kill(world, "h1")
    run(world, 30.0, lambda packet: "h2" in {packet.sender, packet.to})
    assert world["h3"].core._ring.latest.members == 0b11100
    run(world, 60.0)
    world.restart("h1")
    run(world, 120.0)
    assert delivered(world) == [[("h3", 1), ("h2", 1)]] * 2 + [[("h3", 1)]] * 3


def test_messages_that_few_have_do_not_take_others_of_their_entry_from_a_list():
    """h3 counts itself in last, and nobody hears of it; the first message of h1 is with h1 alone, which is gone."""

    def lose(packet):
        return packet.sender == "h3" and names_messages(packet) and not packet.message.generation

    world = World(Counter, 3, sends="in turn")
    world.broadcast("h1", to=("h1",))
    world.broadcast("h1")
    run(world, 0.1, lose)
    kill(world, "h1")
    run(world, 30.0, lose)
    assert delivered(world, ("h2", "h3")) == [[("h1", 2)]] * 2
    world.restart("h1")
    run(world, 60.0)
    assert delivered(world) == [[("h1", 1), ("h1", 2)], [("h1", 2)], [("h1", 2)]]


def test_a_lost_message_is_asked_for_when_the_token_names_it_and_each_request_has_a_number():
    world = World(Counter, 3)
    lost = []
    world.broadcast("h1")
    run(world, 1.0, lambda packet: isinstance(packet.message, Msg) and packet.to == "h3" and not lost and not lost.append(packet))
    (request,) = [packet for packet in world.sent if isinstance(packet.message, Req)]
    assert (request.sender, request.to, request.message.missing) == ("h3", "h1", ((1, 1),))
    assert [p.to for p in world.sent if p.purpose is Purpose.REPAIR] == ["h3"]
    assert delivered(world) == [[("h1", 1)]] * 3


def test_a_request_is_answered_once_for_each_number():
    world = World(Counter, 3)
    world.broadcast("h1")
    world.lose(kind=Msg)
    for number in (7, 7, 8, 7):
        world["h1"].life.receive("h3", [Req(0, "h1", 1, ((1, 1),), number)], expensive=False)
    assert sum(packet.purpose is Purpose.REPAIR for packet in world.sent) == 2


def test_a_request_that_is_not_answered_is_repeated_with_the_next_number_to_another_host_that_has_the_message():
    world = World(Counter, 3)
    world.broadcast("h1")
    run(world, 2.0, lambda packet: isinstance(packet.message, Msg) and packet.to == "h3" and packet.sender == "h1")
    requests = [packet for packet in world.sent if isinstance(packet.message, Req)]
    assert [packet.to for packet in requests] == ["h1", "h2"]
    assert requests[1].message.number == requests[0].message.number + 1
    assert delivered(world) == [[("h1", 1)]] * 3


def test_a_message_that_is_lost_while_an_older_one_is_asked_for_is_asked_for_at_once():
    """Section 2.3: a loss is found out within two cycles, also while a request that was lost waits to be repeated."""
    world = World(Counter, 3)

    def lose(packet):
        return isinstance(packet.message, Req | Msg) and {"h1", "h3"} == {packet.sender, packet.to}

    world.broadcast("h1")
    run(world, 0.05, lose)
    world.broadcast("h1")
    run(world, 0.1, lose)
    requests = [packet.message.missing for packet in world.sent if isinstance(packet.message, Req)]
    assert requests == [((1, 1),), ((1, 2),)]


def test_a_token_that_is_lost_is_reissued_and_its_owner_is_found_out_as_soon_as_it_speaks():
    """Section 3.3, the lost token condition."""
    world = World(Counter, 3)
    lost = []
    world.broadcast("h1")
    run(
        world,
        2.0,
        lambda packet: isinstance(packet.message, Token) and packet.to == "h2" and not lost and not lost.append(packet),
    )
    assert lost
    assert delivered(world) == [[("h1", 1)]] * 3
    assert not [packet for packet in world.sent if isinstance(packet.message, Reform)]


def test_an_owner_that_does_not_answer_several_tries_is_out_of_the_list():
    """Section 3.3: after L tries the next owner has failed."""
    world = World(Counter, 3)
    kill(world, "h2")
    world.broadcast("h1")
    run(world, 10.0)
    assert delivered(world, ("h1", "h3")) == [[("h1", 1)]] * 2
    assert world["h1"].core._ring.latest.members == 0b101
    assert world["h3"].core.env.groups[0] == ("h1", "h3")


def test_a_host_that_was_out_of_the_list_joins_again_and_gets_what_was_for_it():
    world = World(Counter, 3)
    run(world, 0.5)
    kill(world, "h2")
    world.broadcast("h1")
    run(world, 10.0)
    world.restart("h2")
    run(world, 30.0)
    assert delivered(world) == [[("h1", 1)]] * 3
    assert [world[host].core._ring.latest.members for host in world.hosts] == [0b111] * 3


def test_a_minority_commits_nothing_and_keeps_its_list():
    world = World(Counter, 5)
    for host in ("h3", "h4", "h5"):
        kill(world, host)
    world.broadcast("h1")
    run(world, 30.0)
    assert delivered(world, ("h1", "h2")) == [[], []]
    assert world["h1"].core._ring.latest.members == 0b11111


def test_a_token_that_comes_again_is_given_up_and_its_sender_is_told_of_the_newer_one():
    """Section 3.3, the duplicate token condition: no host owns a token twice."""
    world = World(Counter, 3)
    world.broadcast("h1")
    run(world, 0.004)
    old = next(packet for packet in tokens(world) if packet.to == "h2")
    run(world, 1.0)
    held = [details for event, details in world["h2"].traced if event == "token"]
    world["h2"].life.receive("h1", [old.message], expensive=False)
    assert [details for event, details in world["h2"].traced if event == "token"] == held
    assert world.sent[-1].to == "h1"
    assert world["h2"].core._ring.latest.version > (old.message.generation, old.message.hop)


def test_who_has_promised_a_generation_refuses_tokens_of_lower_ones():
    world = World(Counter, 3)
    world.broadcast("h1")
    world.lose()
    world["h2"].life.receive("h3", [Reform(0, "h3", 0, 5, 0, 9)], expensive=False)
    assert isinstance(world.sent[-1].message, Vote)
    run(world, 0.01)
    assert world["h2"].core._ring.latest.hop == 0
    world.restart("h2")
    assert world["h2"].core._ring.reformation.promised == 5


def test_a_host_that_knows_a_newer_token_does_not_vote_but_tells_of_it():
    world = World(Counter, 3)
    world.broadcast("h1")
    run(world, 1.0)
    world["h2"].life.receive("h3", [Reform(0, "h3", 0, 5, 0, 0)], expensive=False)
    assert (world.sent[-1].to, type(world.sent[-1].message).__name__) == ("h3", "Known")
    assert world["h2"].core._ring.reformation.promised == 0


def ballot(done=0, committed=(), open_=(), generation=0, rides=True):
    return Ballot(generation, done, (0,), rides, committed, open_)


def test_a_new_list_starts_with_what_anybody_may_have_to_commit_and_everybody_counts_again():
    state = token(entry(2, 0, have=0b011), done=(5, 5, 2), groups=((0, 0b111, 0),))
    before = entry(1, 1, have=0b111)
    made = reformed(state, 4, 0, {0: ballot(5, ((before, True),)), 2: ballot(2)})
    assert made.members == 0b101
    assert [(one.position, one.have) for one in made.entries] == [(before.position, CERTAIN), (6, 0)]
    assert (made.generation, made.hop, made.cycle) == (4, state.hop + 1, state.cycle + 1)
    assert made.groups == ((0, 0b111, 4),)


def test_what_no_voter_has_is_left_out_with_all_later_messages_of_its_origin():
    lost, later = entry(2, 1, have=0b010), entry(3, 1, have=0b011, first=2)
    made = reformed(token(lost, later, entry(3, 2, have=0b100)), 4, 0, {0: ballot(), 2: ballot()})
    assert [one.origin for one in made.entries] == [2]
    kept = reformed(token(lost, later), 4, 0, {0: ballot(open_=((lost, True),)), 2: ballot()})
    assert [one.first for one in kept.entries] == [1, 2]


def test_what_a_voter_has_committed_or_knows_to_be_complete_stays_though_no_voter_has_its_messages():
    known = entry(2, 1, have=CERTAIN | 0b100, runs=((1, 0b010),))
    committed = ballot(8, ((entry(2, 1, have=0b111, runs=known.runs), False),))
    for state, vote in ((token(known), ballot()), (token(), committed)):
        made = reformed(state, 4, 0, {0: ballot(), 2: vote})
        assert made.entries == (msgspec.structs.replace(known, have=CERTAIN),)


def test_messages_of_one_entry_may_be_with_different_voters_also_of_older_generations():
    both = entry(2, 0, have=0, runs=((1, 0b011), (1, 0b101)))
    first, second = (((msgspec.structs.replace(both, have=have), False),) for have in (0b010, 0b100))
    made = reformed(token(both, generation=4), 8, 0, {1: ballot(open_=first), 2: ballot(generation=4, open_=second)})
    assert made.entries == (both,)


def test_a_host_says_what_it_has_of_entries_that_it_has_not_learned():
    """A host that is not in the list hears its token, too."""
    world = World(Counter, 3)
    world["h1"].core._data.keep("h2", 1, b"hello")
    named = entry(1, 1, have=0b010)
    assert world["h1"].core._data.ballot(token(named)) == ((), ((msgspec.structs.replace(named, have=0b011), True),))


def test_what_was_left_out_of_a_newer_generation_does_not_come_back():
    state = token(generation=4)
    made = reformed(state, 8, 0, {0: ballot(generation=4), 1: ballot(generation=0, open_=((entry(2, 1, have=0b010), True),))})
    assert made.entries == ()


def test_a_host_that_joins_or_leaves_a_group_does_so_in_a_new_list_that_everybody_installs():
    world = World(Counter, 3, groups={1: ("h1", "h2")})
    run(world, 0.1)
    world["h3"].life.join(1)
    world["h1"].life.leave(1)
    run(world, 20.0)
    assert [world[host].core.env.groups[1] for host in world.hosts] == [("h2", "h3")] * 3
    world.broadcast("h1", to=1)
    run(world, 30.0)
    assert delivered(world) == [[], [("h1", 1)], [("h1", 1)]]


def test_who_leaves_everybodys_group_leaves_the_list_when_nothing_for_it_is_under_way():
    """Section 3.3, case two."""
    world = World(Counter, 4)
    run(world, 0.1)
    world.broadcast("h1")
    world["h3"].life.leave(0)
    run(world, 60.0)
    world.broadcast("h1")
    run(world, 70.0)
    assert world["h1"].core._ring.latest.members == 0b1011
    assert delivered(world) == [[("h1", 1), ("h1", 2)], [("h1", 1), ("h1", 2)], [("h1", 1)], [("h1", 1), ("h1", 2)]]
    world["h3"].life.join(0)
    run(world, 120.0)
    assert world["h1"].core._ring.latest.members == 0b1111


def test_a_host_sends_a_window_of_messages_between_two_turns_and_the_others_wait():
    world = World(Counter, 3, window=5)
    for _ in range(12):
        world.broadcast("h2")
    assert len([packet for packet in world.sent if isinstance(packet.message, Msg)]) == 10
    run(world, 1.0)
    assert delivered(world) == [[("h2", number) for number in range(1, 13)]] * 3


def test_messages_that_wait_at_their_source_do_not_count_as_a_full_buffer():
    world = World(Counter, 3, window=5, buffer=20)
    for _ in range(100):
        world.broadcast("h2")
    run(world, 3.0)
    assert delivered(world) == [[("h2", number) for number in range(1, 101)]] * 3


def test_messages_wait_while_a_destination_says_that_its_buffer_is_nearly_full():
    """Section 3.2: the local and localC fields."""
    world = World(Counter, 3)
    flow = world["h1"].core._flow
    flow.hear(token(local=((2, 7),), cycle=7))
    assert not flow.may_send(0b111)
    assert flow.may_send(0b011)
    flow.hear(token(cycle=7))
    assert not flow.may_send(0b100)
    flow.hear(token(cycle=8))
    assert flow.may_send(0b111)


def test_nobody_sends_while_the_network_is_overloaded():
    """Section 3.2: the global and globalC fields."""
    world = World(Counter, 3, overload=2)
    flow = world["h1"].core._flow
    assert flow.fields(token(entry(2, 0, have=1, runs=((2, 0b111),))), 0, 0) == ((), 2)
    flow.hear(token(overload=2))
    assert not flow.may_send(0b011)
    flow.hear(token(cycle=3))
    assert flow.may_send(0b011)


def test_a_buffer_that_is_three_quarters_full_is_nearly_full():
    world = World(Counter, 3, buffer=400)
    fields = world["h1"].core._flow.fields
    assert fields(token(local=((1, 1),)), 0, 300) == (((0, 2), (1, 1)), 0)
    assert fields(token(local=((0, 1),)), 0, 299) == ((), 0)


def test_an_idle_ring_costs_what_it_may_and_a_message_wakes_it():
    world = World(Counter, 6)
    run(world, 5.0)
    before = len(world.sent)
    run(world, 65.0)
    assert len(world.sent) - before <= 60 * CounterParameters().idle_packets_per_second + 5
    world.broadcast("h4")
    run(world, world.now_s + 0.2)
    assert delivered(world) == [[("h4", 1)]] * 6


def test_a_message_that_does_not_go_to_an_owner_at_rest_wakes_it_by_a_call():
    world = World(Counter, 6, groups={1: ("h5", "h6")})
    run(world, 0.1)
    world.broadcast("h5", to=1)
    run(world, world.now_s + 0.2)
    assert delivered(world, ("h5", "h6")) == [[("h5", 1)]] * 2


def test_a_token_may_be_heard_by_its_next_and_its_last_owner_alone_and_by_all_when_it_may_rest():
    world = World(Counter, 6, heard_by="neighbours")
    run(world, 0.1)
    before = len(tokens(world))
    world.broadcast("h4")
    run(world, world.now_s + 0.2)
    assert delivered(world) == [[("h4", 1)]] * 6
    told = {}
    for packet in tokens(world)[before:]:
        told.setdefault((packet.message.hop, packet.sender), []).append(packet.to)
    counts = [len(hosts) for hosts in told.values()]
    assert set(counts) == {2, 5}
    assert counts.count(2) >= 6
    owner, heard = next((owner, hosts) for (_, owner), hosts in told.items() if len(hosts) == 2)
    place = world.hosts.index(owner)
    assert heard == [world.hosts[place - 1], world.hosts[(place + 1) % 6]]
    assert [details for host in world.hosts for event, details in world[host].traced if event == "reform"] == []


def test_on_a_network_that_multicasts_everybody_hears_every_token():
    world = World(Counter, 6, multicasts=True, heard_by="neighbours")
    world.broadcast("h4")
    run(world, 0.2)
    assert {packet.to for packet in tokens(world)} == {0}


def test_messages_may_be_sent_in_turn_right_before_the_token_that_names_them():
    world = World(Counter, 3, sends="in turn")
    for _ in range(4):
        world.broadcast("h2")
    assert [packet for packet in world.sent if isinstance(packet.message, Msg)] == []
    run(world, 1.0)
    assert delivered(world) == [[("h2", number) for number in range(1, 5)]] * 3
    sent = [(type(packet.message), packet.sender) for packet in world.sent if packet.to == "h3" and packet.sender == "h2"]
    assert sent[:5] == [(Msg, "h2")] * 4 + [(Token, "h2")]


def test_a_message_that_waits_for_its_turn_wakes_an_owner_at_rest():
    world = World(Counter, 6, sends="in turn", heard_by="neighbours")
    run(world, 5.0)
    world.broadcast("h4")
    run(world, world.now_s + 0.2)
    assert delivered(world) == [[("h4", 1)]] * 6


def test_a_token_longer_than_a_datagram_is_cut_into_several_and_heard_when_all_have_arrived():
    value = bytes(range(256)) * 20
    pieces = cut(Token, "h1", (3, 9), value)
    assert len(pieces) == -(-len(value) // LONGEST_CHUNK)
    assembly = Assembly()
    assert [assembly.take("h1", piece) for piece in reversed(pieces)] == [None] * (len(pieces) - 1) + [value]


def test_a_token_stays_short_enough_to_be_cut_however_much_is_under_way(monkeypatch):
    """h5 gets no messages for a while, so no entry is ever complete, and each message has other destinations than the one before it."""
    assert MOST_ENTRIES_BYTES < LONGEST_CHUNK * MOST_PIECES / 2
    most = 3000
    monkeypatch.setattr("hostagent.protocols.counter.protocol.MOST_ENTRIES_BYTES", most)
    world, longest = World(Counter, 5, flow_control=False), 0
    for turn in range(6):
        for host in ("h1", "h2", "h3"):
            for number in range(26):
                world.broadcast(host, to=(host, "h4" if number % 2 else "h5"))
        run(world, 0.02 * (turn + 1), lambda packet: isinstance(packet.message, Msg) and packet.to == "h5")
        entries = world["h4"].core._ring.latest.entries
        longest = max(longest, sum(entry.most_bytes for entry in entries))
        assert len(encode_state(entries)) <= longest
    assert 0.8 * most < longest <= most
    run(world, 20.0)
    assert {host: len(world.delivered(host)) for host in ("h1", "h4", "h5")} == {"h1": 156, "h4": 234, "h5": 234}


def test_a_host_that_restarts_goes_on_with_its_messages_and_delivers_nothing_twice():
    world = World(Counter, 3)
    for _ in range(5):
        world.broadcast("h2")
    world.lose()
    world.restart("h2")
    run(world, 3.0)
    world.restart("h3")
    world.broadcast("h2")
    run(world, 10.0)
    assert delivered(world) == [[("h2", number) for number in range(1, 7)]] * 3


def test_a_host_that_restarts_does_not_try_a_generation_again():
    """Votes for it may still come, from hosts that went by another token."""
    world = World(Counter, 3)
    for _ in range(2):
        world["h2"].core._ring.reformation.start()
        world.restart("h2")
    assert {packet.message.generation for packet in world.sent if isinstance(packet.message, Reform)} == {4, 7}


def test_the_next_owner_is_the_next_member_of_the_list():
    assert [following(0b1011, place, 4) for place in (0, 1, 3)] == [1, 3, 0]


@pytest.mark.parametrize(
    ("parameters", "hosts", "sentence"),
    [
        ({}, 61, "at most 60 hosts"),
        ({"order": "rotating", "commit": "entry"}, 3, "needs commit=cycle"),
        ({"longest_wait_ms": 1.0}, 3, "every token counts as lost"),
        ({"buffer": 100}, 3, "must hold what all 3 hosts send"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_with_a_sentence(parameters, hosts, sentence):
    core = PROTOCOLS["counter"]
    with pytest.raises(ValueError, match=sentence):
        core.check(core.Parameters(**parameters), tuple(f"h{n}" for n in range(1, hosts + 1)))


def test_the_default_numbers_are_for_as_many_hosts_as_a_token_has_room_for():
    for hosts in (1, 2, MOST_HOSTS):
        Counter.check(CounterParameters(), tuple(f"h{n}" for n in range(1, hosts + 1)))


@pytest.mark.parametrize(
    ("protocol", "parameters", "sentence"),
    [
        ("counter", {"token_owner_ms": 0}, "token_owner_ms=0: must be a number of at least 0.1"),
        ("counter", {"window": 0}, "window=0: must be a whole number of at least 1"),
        ("totem", {"window_size": 0}, "window_size=0: must be a whole number of at least 1"),
    ],
)
def test_a_time_or_a_window_of_zero_is_refused_with_a_sentence(protocol, parameters, sentence):
    with pytest.raises(CannotRun, match=sentence):
        choose(find("clusters").build({}), (protocol,), {protocol: parameters})


def test_a_token_whose_list_lacks_its_own_host_is_refused():
    assert not token(members=0b110, next=0).is_sound(3)
    assert token(members=0b110, next=1).is_sound(3)


def test_a_host_alone_is_a_list_by_itself():
    world = World(Counter, 1)
    world.broadcast("h1")
    run(world, 1.0)
    assert delivered(world) == [[("h1", 1)]]


def test_a_host_alone_rests_when_there_is_nothing_to_do():
    world = World(Counter, 1)
    run(world, 10.0)
    assert sum(details["held"] for event, details in world["h1"].traced if event == "token") < 30
