"""The token site (Chang and Maxemchuk 1984): numbers, passes, requests, rest, flow control, and the reformation phase with its tests."""

from collections import Counter
from random import Random

import msgspec
import pytest

from hostagent.contract.core import Core
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Promise
from hostagent.protocols.token_site.ledger import WINDOW, Ledger
from hostagent.protocols.token_site.messages import Ack, Agree, Commit, Data, Invite, NewList, Request, Supply, Taken
from hostagent.protocols.token_site.protocol import TokenSite
from tests.hostagent.world import World

HOSTS = ("h1", "h2", "h3", "h4", "h5")


def world_of(size=5, **parameters):
    return World(TokenSite, size, **parameters)


def sent(world, kind, purpose=None):
    return [packet for packet in world.sent if isinstance(packet.message, kind) and purpose in {None, packet.purpose}]


def rest(world, most=200):
    """Let timers expire until nobody waits for anything."""
    for _ in range(most):
        world.settle()
        if not world.timers():
            return
        world.expire()
    raise AssertionError(f"still waiting after {most} timers: {world.timers()}")


def wait_until(world, done, most=300):
    for _ in range(most):
        world.settle()
        if done():
            return
        world.expire()
    raise AssertionError(f"it never came about: {world.timers()}")


def settled(world, *hosts):
    """Whether these hosts, and no others, are in one list that is in force."""
    return all(world[host].core._lists.is_settled and set(world[host].core._lists.order) == set(hosts) for host in hosts)


def orders(world, *hosts):
    return {tuple(world.delivered(host)) for host in hosts}


def kill(world, *hosts):
    """These hosts are down: what is sent to them is lost, and their timers do not run."""
    for host in hosts:
        world[host].carry_out()
        world[host]._timers.clear()
    deliver = World.send

    def send(self, sender, to, part):
        deliver(self, sender, to, part)
        self._in_flight = [packet for packet in self._in_flight if packet.to not in self.dead and packet.sender not in self.dead]

    world.dead = {*getattr(world, "dead", ()), *hosts}
    world.send = send.__get__(world)
    world.in_flight = [packet for packet in world.in_flight if packet.to not in world.dead]


def generations(world):
    """The versions of all tokens that were ever held."""
    return {details["generation"] for host in world.hosts for event, details in world[host].traced if event == "token"}


def revive(world, host):
    world.dead.discard(host)
    world.restart(host)


@pytest.mark.parametrize("resilience", range(5))
@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_a_message_is_2_n_minus_1_data_packets_and_l_passes_of_the_token(resilience, multicasts):
    """Fourth paper, Tables 1 and 2; on a network that multicasts two. The passes are control packets."""
    world = world_of(resilience=resilience, multicasts=multicasts)
    copies = 1 if multicasts else 4
    for number in range(1, 8):
        world.broadcast("h3")
        world.settle()
        assert all(world.delivered(host) == [("h3", each) for each in range(1, number + 1)] for host in HOSTS)
        assert len(sent(world, Data, Purpose.DATA)) == len(sent(world, Ack, Purpose.DATA)) == number * copies
        assert len(sent(world, Ack, Purpose.CONTROL)) == number * resilience * copies
    assert not sent(world, Request)


@pytest.mark.parametrize("resilience", range(5))
def test_a_message_is_delivered_with_the_l_th_pass_and_not_before(resilience):
    """Third paper, section 2.2: once L sites have accepted the token since m was sent, m can be delivered."""
    world = world_of(resilience=resilience, multicasts=True)
    world.broadcast("h1")
    while not any(world.delivered(host) for host in HOSTS):
        assert len(sent(world, Ack)) <= resilience
        world.hand_over()
    # The site that numbered the message, and L others.
    assert len(sent(world, Ack)) == resilience + 1
    world.settle()
    assert orders(world, *HOSTS) == {(("h1", 1),)}


def test_the_token_goes_round_the_list_and_rests_when_all_are_known_to_have_everything():
    world = world_of()
    world.broadcast("h4")
    rest(world)
    assert [packet.sender for packet in sent(world, Ack)][::4] == ["h1", "h2", "h3", "h4", "h5"]
    assert len(sent(world, Taken)) == 2
    assert [world[host].core._ledger.base for host in HOSTS] == [1] * 5
    assert [world[host].core._token.is_held for host in HOSTS] == [True, False, False, False, False]
    quiet = len(world.sent)
    rest(world)
    assert len(world.sent) == quiet
    assert not any(key.startswith("log/") for host in HOSTS for key in world[host].kept("core.ledger"))


def test_one_acknowledgement_covers_all_messages_that_have_come_and_passes_cost_nothing_under_load():
    world = world_of(multicasts=True)
    for number in range(60):
        world.broadcast(HOSTS[number % 5])
    world.settle()
    assert orders(world, *HOSTS) == {tuple(world.delivered("h1"))}
    assert len(world.delivered("h1")) == 60
    assert len(sent(world, Ack, Purpose.DATA)) < 20


def test_messages_of_a_source_are_numbered_in_the_order_of_their_sequence():
    world = world_of()
    for _ in range(6):
        world.broadcast("h5")
    world.in_flight.sort(key=lambda packet: -packet.message.sequence)
    rest(world)
    assert orders(world, *HOSTS) == {tuple(("h5", number) for number in range(1, 7))}


def test_a_site_takes_the_token_only_when_it_has_everything_and_asks_the_one_that_passed_it():
    world = world_of()
    world.broadcast("h3")
    world.in_flight = [packet for packet in world.in_flight if packet.to != "h2" or not isinstance(packet.message, Data)]
    world.settle()
    assert not sent(world, Taken)
    assert not world["h2"].core._token.is_held
    world.expire()
    assert [(packet.sender, packet.to) for packet in world.in_flight if isinstance(packet.message, Request)] == [("h2", "h1")]
    rest(world)
    assert orders(world, *HOSTS) == {(("h3", 1),)}
    assert [packet.to for packet in sent(world, Supply, Purpose.REPAIR)] == ["h2"]


def test_what_is_overtaken_by_a_later_message_of_its_source_is_asked_for_at_once():
    world = world_of()
    world.broadcast("h3")
    world.in_flight = [packet for packet in world.in_flight if packet.to != "h4"]
    world.settle()
    world.broadcast("h3")
    world.settle()
    assert world.now_s == 0
    assert world.delivered("h4") == [("h3", 1), ("h3", 2)]


@pytest.mark.parametrize("kind", [Data, Ack, Taken, Supply, Request])
def test_any_lost_kind_of_message_is_made_good(kind):
    world = world_of()
    for _ in range(3):
        world.broadcast("h2")
        world.broadcast("h4")
        world.lose(to="h3", kind=Data)
        for _ in range(12):
            if world.in_flight:
                world.hand_over()
        world.lose(kind=kind)
    rest(world)
    assert not world.lacking()
    assert len(orders(world, *HOSTS)) == 1


def test_a_token_that_is_lost_is_offered_again_after_a_round_trip_and_there_is_no_reformation():
    world = world_of()
    world.broadcast("h3")
    while not isinstance(world.in_flight[0].message, Ack):
        world.hand_over()
    world.lose(to="h2", kind=Ack)
    rest(world)
    assert not sent(world, Invite)
    assert orders(world, *HOSTS) == {(("h3", 1),)}


def test_messages_wait_at_their_source_when_the_window_or_the_history_is_full():
    world = world_of(window=4, history=6)
    for _ in range(30):
        world.broadcast("h2")
    assert len(sent(world, Data)) == 4 * 4
    while world.in_flight:
        world.hand_over()
        for host in HOSTS:
            core = world[host].core
            assert core._ledger.last - core._token.stable <= 6
            assert all(len(waiting) <= 4 for waiting in core._ledger._unnumbered.values())
    rest(world)
    assert orders(world, *HOSTS) == {tuple(("h2", number) for number in range(1, 31))}


def test_with_resilience_the_default_is_the_largest_minority():
    assert [TokenSite.Parameters().resilience_among(hosts) for hosts in (1, 2, 3, 4, 5, 6)] == [0, 0, 1, 1, 2, 2]


def test_more_passes_than_other_hosts_are_refused_with_a_sentence():
    TokenSite.check(TokenSite.Parameters(resilience=4), HOSTS)
    with pytest.raises(
        ValueError, match="resilience=5: there are 5 hosts, so after 4 passes all have a message; choose from 0 to 4"
    ):
        TokenSite.check(TokenSite.Parameters(resilience=5), HOSTS)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"resilience": -1}, TokenSite.Parameters)


@pytest.mark.parametrize(("resilience", "lost", "quorum"), [(None, 2, 3), (0, 0, 5), (1, 1, 4), (2, 2, 3), (4, 2, 3)])
def test_how_many_hosts_may_be_lost_is_l_or_a_minority(resilience, lost, quorum):
    parameters = TokenSite.Parameters(resilience=resilience)
    assert TokenSite.most_lost(parameters, 5) == lost
    assert TokenSite.promise(parameters, 5).quorum == quorum


@pytest.mark.parametrize("dead", [("h1",), ("h2",), ("h1", "h2"), ("h4", "h5")])
def test_when_sites_die_the_others_make_a_new_list_without_them_and_go_on(dead):
    world = world_of()
    world.broadcast("h3")
    rest(world)
    kill(world, *dead)
    alive = tuple(host for host in HOSTS if host not in dead)
    world.broadcast("h3")
    wait_until(world, lambda: orders(world, *alive) == {(("h3", 1), ("h3", 2))})
    world.broadcast(alive[-1])
    wait_until(world, lambda: all(len(world.delivered(host)) == 3 for host in alive))
    wait_until(world, lambda: settled(world, *alive))
    assert len(orders(world, *alive)) == 1


def test_a_minority_makes_no_list():
    """The test of majority."""
    world = world_of()
    kill(world, "h1", "h2", "h3")
    world.broadcast("h4")
    for _ in range(100):
        world.settle()
        world.expire()
    assert not sent(world, NewList)
    assert not world.delivered("h4")


def test_without_all_but_l_of_the_last_list_no_list_is_made_though_there_is_a_majority():
    """The test of resiliency: with L = 1, a message may be at two sites alone."""
    world = world_of(resilience=1)
    kill(world, "h1", "h2")
    world.broadcast("h4")
    for _ in range(100):
        world.settle()
        world.expire()
    assert not sent(world, NewList)
    revive(world, "h2")
    wait_until(world, lambda: settled(world, "h2", "h3", "h4", "h5"))


def test_what_only_dead_sites_have_numbered_gets_another_number_and_the_site_that_comes_back_takes_it_back():
    world = world_of()
    world.broadcast("h1", b"mine")
    world.in_flight = []
    assert world["h1"].core._ledger.top == 1
    kill(world, "h1")
    world.broadcast("h2", b"theirs")
    alive = HOSTS[1:]
    wait_until(world, lambda: orders(world, *alive) == {(("h2", 1),)})
    revive(world, "h1")
    wait_until(world, lambda: orders(world, *HOSTS) == {(("h2", 1), ("h1", 1))})
    wait_until(world, lambda: settled(world, *HOSTS))


def test_a_host_that_comes_back_gets_what_it_missed_before_it_is_in_the_list_again():
    world = world_of()
    kill(world, "h5")
    for _ in range(3 * WINDOW):
        world.broadcast("h2")
    alive = HOSTS[:4]
    wait_until(world, lambda: all(len(world.delivered(host)) == 3 * WINDOW for host in alive), most=2000)
    revive(world, "h5")
    wait_until(world, lambda: not world.lacking() and settled(world, *HOSTS), most=2000)
    rest(world)
    assert len(orders(world, *HOSTS)) == 1
    assert [world[host].core._ledger.base for host in HOSTS] == [3 * WINDOW] * 5


def test_a_deposed_token_site_learns_it_from_those_that_it_acknowledges_to():
    world = world_of()
    stale = Ack(0, "h1", 0, 0, 9, 1, (), 0, 0, 0)
    kill(world, "h1")
    world.broadcast("h2")
    wait_until(world, lambda: settled(world, *HOSTS[1:]))
    world.dead.discard("h1")
    world["h2"].life.receive("h1", [stale], expensive=False)
    wait_until(world, lambda: settled(world, *HOSTS))
    assert world["h1"].core._lists.version > 0


def test_versions_are_unique_and_a_site_joins_no_list_older_than_one_that_it_joined():
    """The test of sequence."""
    world = world_of()
    for host in HOSTS:
        world[host].core._lists.originate()
    versions = [world[host].core._lists.promised for host in HOSTS]
    assert len(set(versions)) == 5
    world.settle()
    joined = [world[host].core._lists.promised for host in HOSTS]
    assert joined == [max(versions)] * 5
    world["h1"].life.receive("h2", [Invite(0, "h2", 0, min(versions), 0, 0)], expensive=False)
    assert world["h1"].core._lists.promised == max(versions)


@pytest.mark.parametrize(("silent", "rounds"), [("h1", 1), ("", 2)])
def test_a_host_that_was_silent_before_is_waited_for_only_as_long_as_the_others_took_to_answer(silent, rounds):
    world = world_of(first_ms=200.0)
    kill(world, "h1")
    world["h2"].core._lists.originate(silent)
    world.settle()
    invited_s = world.now_s
    while not sent(world, NewList):
        world.expire()
        world.settle()
    assert len([packet for packet in sent(world, Invite) if packet.to == "h1"]) == 1 + rounds
    assert (world.now_s - invited_s < 0.2) == bool(silent)


def test_the_first_site_of_a_list_makes_no_token_before_all_have_agreed():
    world = world_of()
    kill(world, "h1")
    world.broadcast("h3")
    agreed = 0
    for _ in range(30):
        while world.in_flight:
            is_last = isinstance(world.in_flight[0].message, Agree) and world.in_flight[0].sender == "h5"
            agreed += is_last
            if is_last:
                world.in_flight.pop(0)
            else:
                world.hand_over()
        world.expire()
    assert agreed
    assert generations(world) == {0}
    wait_until(world, lambda: settled(world, *HOSTS[1:]))
    assert len(generations(world)) == 2


def test_a_restarted_first_site_makes_no_second_token():
    world = world_of()
    world.broadcast("h1")
    world.settle()
    for _ in range(3):
        for host in HOSTS:
            world.restart(host)
        rest(world)
        held = Counter(world[host].core._token.is_held for host in HOSTS)
        assert held[True] == 1
    assert {world[host].core._lists.version for host in HOSTS} == {0}


def test_a_new_list_has_its_token_again_after_a_commit_was_lost():
    world = world_of()
    kill(world, "h1")
    world.broadcast("h3")
    lost = 0
    while not lost:
        while world.in_flight and not lost:
            lost = world.lose(kind=Commit)
            if world.in_flight:
                world.hand_over()
        if not lost:
            world.expire()
    wait_until(world, lambda: orders(world, *HOSTS[1:]) == {(("h3", 1),)})


@pytest.mark.parametrize("resilience", [None, 0, 4])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_network_does_there_is_one_order_and_in_the_end_everybody_has_everything(seed, resilience):
    world = world_of(4, seed=seed, resilience=None if resilience is None else min(resilience, 3))
    world.suffer(Random(seed), most_sent=3000)
    wait_until(world, lambda: not world.lacking(), most=3000)
    assert len(orders(world, *world.hosts)) == 1
    rest(world, most=1000)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_hosts_will_do(size):
    world = world_of(size)
    for _ in range(3):
        world.broadcast("h1")
    rest(world)
    assert not world.lacking()


class Keeper(Core):
    """A site with a ledger, and nothing else."""

    name, number, summary, assumes, messages = "keeper", 92, "", "", ()

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.ledger = self.add("ledger", lambda own: Ledger(own, lambda *_: None))

    @classmethod
    def promise(cls, parameters, hosts):  # noqa: ARG003 - the signature of the contract
        return Promise(guarantees=(), patience_ms=0.0, retained=0)


def test_numbers_are_taken_back_also_after_the_first_messages_of_the_same_chunk_were_forgotten():
    world = World(Keeper, 2)
    ledger = world["h1"].core.ledger
    for sequence in range(1, 11):
        ledger.offer("h2", sequence, b"")
    ledger.number_messages(10)
    ledger.deliver(6)
    ledger.forget(5)
    ledger.cut_after(7)
    world.restart("h1")
    again = world["h1"].core.ledger
    assert (again.base, again.delivered, again.top, again.numbered("h2")) == (5, 6, 7, 7)
    assert [again.entry(number) is not None for number in (5, 6, 7, 8)] == [False, True, True, False]
