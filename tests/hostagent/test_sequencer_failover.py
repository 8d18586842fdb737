"""The sequencer with failover=elect: a majority goes on, in one strict order, with all that any of its hosts has."""

from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.election import Call, Vote
from hostagent.protocols.sequencer.messages import Accepted, Entry, Passed, Stable, Submission, Taken
from hostagent.protocols.sequencer.protocol import Sequencer
from tests.hostagent.test_sequencer import MEDIA, in_one_order, run_on, sent
from tests.hostagent.world import World
from tests.mutants.sequencer import VotesForWhoKnowsLess, inside


def world_of(size, **settings):
    return World(Sequencer, size, failover="elect", **settings)


def go_on_without(world, *dead, until, steps=400):
    """Hand over and expire what is not of these hosts, which are down, until something is true."""
    for _ in range(steps):
        for host in dead:
            world.lose(to=host)
            world[host].timers.clear()
        if until():
            return
        if world.in_flight:
            world.hand_over()
        else:
            world.expire()
    raise AssertionError("it never came")


def sequencers(world, host):
    """The sequencers that a host has had, with their epochs."""
    return [(details["epoch"], details["host"]) for event, details in world[host].traced if event == "sequencer"]


def doubt(world, *hosts):
    """Make hosts miss their sequencer."""
    for host in hosts:
        world[host].core._ordering._questions = 9


@MEDIA
def test_a_message_costs_an_entry_an_acceptance_and_the_news_that_it_is_stable_for_each_host(multicasts):
    world = world_of(4, multicasts=multicasts)
    world.broadcast("h2")
    world.settle()
    kinds = [type(packet.message) for packet in world.sent]
    copies = 1 if multicasts else 3
    assert [kinds.count(kind) for kind in (Submission, Entry, Accepted, Stable)] == [1, copies, 3, copies]
    assert [packet.purpose for packet in sent(world, Accepted, Stable)] == [Purpose.CONTROL] * (3 + copies)
    assert not world.lacking()


def test_nobody_delivers_before_a_majority_has_a_message():
    world = world_of(5)
    world.broadcast("h1")
    world.in_flight = [packet for packet in world.in_flight if packet.to == "h2"]
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[]] * 5
    run_on(world)
    assert not world.lacking()


def test_a_majority_goes_on_without_its_sequencer_and_tells_the_order_of_what_one_survivor_had():
    world = world_of(3)
    world.broadcast("h1", b"first")
    world.lose(to="h2")
    world.hand_over()
    world.broadcast("h2", b"second")
    go_on_without(world, "h1", until=lambda: len(world.delivered("h2")) == 2 == len(world.delivered("h3")))
    assert world.delivered("h2") == world.delivered("h3") == [("h1", 1), ("h2", 1)]
    assert sequencers(world, "h2")[-1] == sequencers(world, "h3")[-1] == (1, "h3")


def after_the_death_of_a_sequencer_that_had_delivered(core, seed):
    """What the survivors deliver: h3 has the message that h1 delivered, and h2, which sends the next one, does not."""
    world = World(core, 3, seed=seed, failover="elect")
    world.broadcast("h1")
    world.lose(to="h2")
    world.hand_over()
    world.hand_over()
    assert world.delivered("h1") == [("h1", 1)]
    world.in_flight = []
    world.broadcast("h2")
    doubt(world, "h2", "h3")
    world["h2"].core._ordering._election.stand(("h1", 0))
    go_on_without(world, "h1", until=lambda: ("h2", 1) in world.delivered("h2"))
    return world.delivered("h2")


def test_a_successor_knows_what_the_dead_sequencer_has_delivered_as_nobody_votes_for_one_that_does_not():
    outcomes = [after_the_death_of_a_sequencer_that_had_delivered(Sequencer, seed) for seed in range(12)]
    assert outcomes == [[("h1", 1), ("h2", 1)]] * 12
    broken = inside(VotesForWhoKnowsLess, "_ordering", "_election")
    outcomes = [after_the_death_of_a_sequencer_that_had_delivered(broken, seed) for seed in range(12)]
    assert [("h2", 1)] in outcomes


def test_a_message_that_only_the_dead_sequencer_had_gets_another_number_when_it_is_back():
    world = world_of(3)
    world.broadcast("h1", b"lost")
    world.lose()
    world.broadcast("h2")
    go_on_without(world, "h1", until=lambda: world.delivered("h3") == [("h2", 1)])
    world.restart("h1")
    run_on(world)
    assert world.delivered("h1") == world.delivered("h3") == [("h2", 1), ("h1", 1)]
    assert not world.lacking()


def test_a_former_sequencer_that_has_noticed_nothing_is_fenced():
    """It was cut off, not dead: what it sends in its old epoch is not accepted, and it is told who the sequencer is."""
    world = world_of(3)
    world.broadcast("h2")
    go_on_without(world, "h1", until=lambda: world.delivered("h3") == [("h2", 1)])
    world.in_flight = []
    world.broadcast("h1")
    assert {packet.message.epoch for packet in sent(world, Entry) if packet.sender == "h1"} == {0}
    before = world.delivered("h2") + world.delivered("h3")
    world.hand_over()
    world.hand_over()
    assert world.delivered("h2") + world.delivered("h3") == before
    assert any(isinstance(packet.message, Passed) and packet.to == "h1" for packet in world.sent)
    run_on(world)
    assert not world.lacking()
    assert in_one_order(world)


def test_a_source_that_was_not_told_is_sent_on_to_the_new_sequencer():
    world = world_of(5)
    world.broadcast("h2")
    go_on_without(world, "h1", "h5", until=lambda: world.delivered("h2") == world.delivered("h3") == [("h2", 1)])
    world.broadcast("h5")
    run_on(world)
    assert not world.lacking()


def test_without_a_majority_nothing_is_delivered_and_nothing_is_lost():
    world = world_of(4)
    world.broadcast("h2")
    for _ in range(60):
        for host in ("h3", "h4"):
            world.lose(to=host)
        if world.in_flight:
            world.hand_over()
        else:
            world.expire()
    assert [world.delivered(host) for host in world.hosts] == [[]] * 4
    run_on(world)
    assert not world.lacking()


def test_who_has_more_than_a_candidate_stands_itself():
    world = world_of(3)
    world.broadcast("h1")
    world.lose(to="h2")
    world.hand_over()
    world.in_flight = []
    doubt(world, "h2", "h3")
    world["h2"].core._ordering._election.stand(("h1", 0))
    go_on_without(world, "h1", until=lambda: world.delivered("h2") == [("h1", 1)])
    assert sequencers(world, "h2") == [(1, "h3")]


def test_while_the_sequencer_answers_a_candidate_is_refused_and_the_sequencer_is_asked():
    world = world_of(4)
    world["h2"].core._ordering._election.stand(("h1", 0))
    world.settle()
    assert [packet.message.trial for packet in sent(world, Call)] == [True] * 3
    assert not sent(world, Vote)
    assert sent(world, Accepted)
    run_on(world)
    assert [sequencers(world, host) for host in world.hosts] == [[]] * 4


def test_a_sequencer_that_restarts_at_once_goes_on_in_its_epoch():
    world = world_of(3)
    world.broadcast("h2")
    world.hand_over()
    world.lose()
    world.restart("h1")
    run_on(world)
    assert not world.lacking()
    assert {packet.message.epoch for packet in sent(world, Entry)} == {0}


def test_everybody_gets_what_a_group_gets_and_only_its_members_deliver_it():
    world = world_of(5, groups={1: ("h4", "h5")})
    world.broadcast("h2", to=1)
    world.broadcast("h2")
    world.broadcast("h3", to=("h1", "h5"))
    run_on(world)
    assert world.delivered("h4") == [("h2", 1), ("h2", 2)]
    assert len(world.delivered("h5")) == 3
    assert world.delivered("h3") == [("h2", 2)]
    assert in_one_order(world)


def test_a_gap_is_filled_by_the_sequencer():
    world = world_of(3)
    world.broadcast("h1")
    world.lose(to="h3")
    world.broadcast("h1")
    world.settle()
    assert world.delivered("h3") == [("h1", 1), ("h1", 2)]
    assert [packet.to for packet in world.sent if packet.purpose is Purpose.REPAIR] == ["h3"]


def test_a_lost_submission_is_asked_for():
    world = world_of(3)
    world.broadcast("h2")
    world.lose()
    run_on(world)
    assert sent(world, Taken)
    assert not world.lacking()


def test_what_all_have_is_forgotten_by_all():
    world = world_of(3)
    for number in range(20):
        world.broadcast(world.hosts[number % 3])
        world.settle()
    run_on(world)
    assert [len(world[host].kept("core.ordering.log.history")) for host in world.hosts] == [2, 2, 2]


def test_nobody_waits_for_a_dead_host_when_the_history_is_full_and_it_has_everything_when_it_is_back():
    """Also if another host than the sequencer of that time leads then."""
    world = world_of(3, history=4)
    for _ in range(300):
        world.broadcast("h1")
    go_on_without(world, "h3", until=lambda: len(world.delivered("h2")) == 300, steps=4000)
    assert world.delivered("h3") == []
    world.restart("h3")
    world.restart("h1")
    world.broadcast("h3")
    run_on(world)
    assert not world.lacking()
    assert in_one_order(world)
    assert [len(world[host].kept("core.ordering.log.history")) for host in world.hosts] == [2, 2, 2]


def test_a_host_that_comes_back_is_waited_for_again_when_it_lacks_less_than_the_history_holds():
    world = world_of(3, history=4)
    for _ in range(100):
        world.broadcast("h1")
    go_on_without(world, "h3", until=lambda: len(world.delivered("h2")) == 100, steps=2000)
    world.restart("h3")
    run_on(world)
    for _ in range(100):
        world.broadcast("h1")
    for _ in range(2000):
        world.lose(to="h3")
        if not world.in_flight:
            break
        world.hand_over()
    assert 100 < len(world.delivered("h2")) <= 104


def test_nothing_is_kept_for_a_host_that_has_lost_its_storage():
    world = world_of(3)
    for _ in range(12):
        world.broadcast("h1")
    run_on(world)
    world["h3"].storage.clear()
    world.restart("h3")
    for _ in range(12):
        world.broadcast("h1")
    run_on(world)
    assert [event for event, _ in world["h3"].traced].count("left-behind") == 1
    assert [len(world[host].kept("core.ordering.log.history")) for host in ("h1", "h2")] == [2, 2]
    assert len(world.delivered("h2")) == 24


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("settings", [{}, {"history": 3, "window": 2, "sequencer": "h3"}], ids=["default", "narrow"])
def test_whatever_the_network_does_there_is_one_order_and_nothing_is_missing_in_the_end(settings, seed):
    world = world_of(4, seed=seed, **settings)
    world.suffer(Random(seed), most_sent=400)
    run_on(world, steps=1000)
    assert in_one_order(world)
    assert not world.lacking()


def test_a_minority_may_be_lost_for_good_and_no_more():
    elect, none = Sequencer.Parameters(failover="elect"), Sequencer.Parameters()
    assert [Sequencer.most_lost(elect, hosts) for hosts in (1, 2, 3, 4, 5)] == [0, 0, 1, 1, 2]
    assert (Sequencer.promise(elect, 5).quorum, Sequencer.promise(none, 5).quorum) == (3, 0)
    assert Sequencer.beyond_with(none) - Sequencer.beyond_with(elect) == {"crash-for-good", "cut-off-for-good"}
