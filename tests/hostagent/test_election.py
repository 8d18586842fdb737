"""Election by majority: one host is elected in an epoch, whatever is lost, doubled or late, and whoever stands or restarts."""

# ruff: noqa: ARG002, ARG003 - a core has the signatures of the contract
from random import Random

import pytest

from hostagent.contract.core import Core
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Promise
from hostagent.parts.election import Call, Election, Refusal, Vote
from hostagent.parts.round_trips import RoundTrips
from tests.hostagent.world import World


class Electorate(Core):
    """Hosts that elect, and do nothing else. Everybody who is elected tells the others with a trace."""

    name, number, summary, assumes = "electorate", 90, "", ""
    messages = Election.messages

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.content, self.elected, self.better = False, [], False
        self.election = self.add(
            "election",
            lambda own: Election(
                own,
                RoundTrips(1.0),
                state=lambda _: self.env.host.encode(),
                on_elected=self._on_elected,
                accepts=lambda *_: not self.better,
                is_content=lambda _: self.content,
            ),
        )

    @classmethod
    def promise(cls, parameters, hosts):
        return Promise(guarantees=(), patience_ms=0.0, retained=0)

    def _on_elected(self, subject, epoch, states):
        self.elected.append((epoch, states))
        self.env.trace("elected", epoch=epoch)


def stand(world, host):
    election = world[host].core.election
    election.stand(election.role)
    world[host].carry_out()


def epoch(world, host):
    election = world[host].core.election
    return election.epoch(election.role)


def elected(world):
    """Who was elected, in any life, and in which epoch."""
    return [(host, details["epoch"]) for host in world.hosts for event, details in world[host].traced if event == "elected"]


def settle(world, host, in_epoch, who):
    election = world[host].core.election
    election.settled(election.role, in_epoch, who)
    world[host].carry_out()


def test_a_host_that_stands_is_elected_by_a_majority_and_gets_its_states():
    world = World(Electorate, 5)
    stand(world, "h2")
    world.settle()
    [(in_epoch, states)] = world["h2"].core.elected
    assert in_epoch == 1
    assert len(states) == 3
    assert all(state == host.encode() for host, state in states.items())
    assert "h2" in states
    assert {epoch(world, host) for host in world.hosts} == {1}


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
def test_an_election_costs_a_trial_and_a_ballot_and_all_of_it_is_control(multicasts):
    world = World(Electorate, 4, multicasts=multicasts)
    stand(world, "h1")
    world.settle()
    assert len(world.sent) == (2 + 6 if multicasts else 12)
    assert {packet.purpose for packet in world.sent} == {Purpose.CONTROL}


def test_a_host_alone_elects_itself():
    world = World(Electorate, 1)
    stand(world, "h1")
    assert elected(world) == [("h1", 1)]


def test_without_a_majority_nobody_is_elected_and_no_epoch_is_used_up():
    world = World(Electorate, 4)
    stand(world, "h1")
    for _ in range(10):
        world.lose(to="h3")
        world.lose(to="h4")
        world.settle()
        world.expire()
    assert elected(world) == []
    assert {epoch(world, host) for host in world.hosts} == {0}


def test_while_others_are_content_a_trial_is_refused_and_binds_nobody():
    world = World(Electorate, 3)
    for host in ("h2", "h3"):
        world[host].core.content = True
    stand(world, "h1")
    world.settle()
    assert sum(isinstance(packet.message, Refusal) for packet in world.sent) == 2
    assert {epoch(world, host) for host in world.hosts} == {0}
    world["h3"].core.content = False
    world.expire()
    world.settle()
    assert elected(world) == [("h1", 1)]


def test_a_host_that_has_voted_where_others_have_not_gets_an_election_from_those_who_are_content():
    world = World(Electorate, 3)
    settle(world, "h1", 4, "h2")
    for host in ("h2", "h3"):
        world[host].core.content = True
    stand(world, "h1")
    world.settle()
    assert elected(world) == [("h1", 5)]


def test_an_elector_votes_once_in_an_epoch_and_again_for_the_same_candidate_only():
    world = World(Electorate, 3)
    call = Call(0, "h1", 0, 1, trial=False, state=b"")
    for candidate in ("h1", "h2", "h1"):
        world["h3"].life.receive(candidate, [call], expensive=False)
    answers = [(packet.to, type(packet.message)) for packet in world.sent]
    assert answers == [("h1", Vote), ("h2", Refusal), ("h1", Vote)]


def test_a_vote_survives_a_restart():
    world = World(Electorate, 3)
    call = Call(0, "h1", 0, 1, trial=False, state=b"")
    world["h3"].life.receive("h1", [call], expensive=False)
    world.restart("h3")
    world["h3"].life.receive("h2", [call], expensive=False)
    assert [type(packet.message) for packet in world.sent] == [Vote, Refusal]
    assert epoch(world, "h3") == 1


def test_a_candidate_that_restarts_takes_no_late_votes_and_stands_for_a_new_epoch():
    world = World(Electorate, 3)
    stand(world, "h1")
    while epoch(world, "h2") == 0:
        world.hand_over()
    world.restart("h1")
    world.settle()
    assert elected(world) == []
    stand(world, "h1")
    world.settle()
    assert elected(world) == [("h1", 2)]


def test_an_elector_that_does_not_hear_who_was_elected_stands_itself():
    world = World(Electorate, 3)
    stand(world, "h1")
    while epoch(world, "h2") == 0:
        world.hand_over()
    world.in_flight = []
    world["h1"].timers.clear()
    while not elected(world):
        world.expire()
        while world.in_flight:
            world.lose(to="h1")
            if world.in_flight:
                world.hand_over()
    assert elected(world) in ([("h2", 2)], [("h3", 2)])


def test_when_it_is_settled_who_was_elected_nothing_goes_on():
    world = World(Electorate, 3)
    stand(world, "h1")
    world.settle()
    for host in ("h2", "h3"):
        settle(world, host, 1, "h1")
    assert not world.timers()
    assert not any(world[host].core.election.is_open(("h1", 0)) for host in world.hosts)


def test_that_somebody_was_elected_earlier_settles_nothing_for_a_host_that_has_voted_since():
    world = World(Electorate, 3)
    world["h3"].life.receive("h1", [Call(0, "h1", 0, 2, trial=False, state=b"")], expensive=False)
    settle(world, "h3", 1, "h2")
    assert epoch(world, "h3") == 2
    assert world["h3"].timers


def test_an_elector_that_must_not_vote_for_a_candidate_refuses_and_keeps_its_vote():
    world = World(Electorate, 3)
    world["h2"].core.better = world["h3"].core.better = True
    stand(world, "h1")
    world.settle()
    assert elected(world) == []
    stand(world, "h2")
    world["h3"].core.better = False
    world.settle()
    assert elected(world) == [("h2", 1)]


def test_of_two_candidates_at_once_one_is_elected_in_the_end():
    for seed in range(20):
        world = World(Electorate, 4, seed=seed)
        stand(world, "h1")
        stand(world, "h2")
        world.settle()
        for _ in range(20):
            if elected(world):
                break
            world.expire()
            world.settle()
        assert elected(world)
        assert len({in_epoch for _, in_epoch in elected(world)}) == len(elected(world))


def test_elections_about_several_subjects_do_not_touch_each_other_and_are_forgotten():
    world = World(Electorate, 3)
    for host, subject in (("h1", ("h3", 7)), ("h2", ("h3", 8))):
        world[host].core.election.stand(subject)
    world.settle()
    assert elected(world) == [("h1", 1), ("h2", 1)]
    assert sorted(world["h3"].kept("core.election")) == ["h3/7", "h3/8"]
    world["h3"].core.election.forget(("h3", 7))
    world["h3"].core.election.forget(("h3", 9))
    assert world["h3"].kept("core.election") == {"h3/8": [1, "h2"]}


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_network_does_no_two_are_elected_in_an_epoch_and_somebody_is_in_the_end(seed):
    world, random = World(Electorate, 4, seed=seed), Random(seed)
    for _ in range(300):
        match random.randrange(8):
            case 0:
                stand(world, random.choice(world.hosts))
            case 1:
                world.restart(random.choice(world.hosts))
            case 2 if len(world.in_flight) < 50:
                world.duplicate()
            case 3:
                world.lose(to=random.choice(world.hosts))
            case 4 if world.timers():
                world.expire()
            case _ if world.in_flight:
                world.hand_over(random.randrange)
    world.settle()
    before = len(elected(world))
    stand(world, "h1")
    for _ in range(60):
        if len(elected(world)) > before:
            break
        world.settle()
        world.expire()
    epochs = [in_epoch for _, in_epoch in elected(world)]
    assert len(epochs) == len(set(epochs)) > before
