"""Views of the timestamp protocol under doubt: hosts are cut off, suspected, stand for election and restart at random, and never disagree.

Campaigns hardly ever reach what these worlds do, as their detectors err seldom.
"""

from itertools import combinations
from random import Random

import pytest

from hostagent.parts.election import Call
from hostagent.protocols.timestamp.messages import Install, Stamp
from hostagent.protocols.timestamp.protocol import Timestamp
from tests.hostagent.world import World
from tests.mutants.timestamp import DOUBTED

MESSAGES = 8
STEPS = 600
STEPS_OF_A_CUT = 60
CAUGHT_BY = (11, 533, 16, 52, 35, 16, 11, 11)
"""For each of DOUBTED the first seed with which hosts disagree."""


def fire_one(host, random):
    """Let any timer of a host expire, whenever it is due."""
    if host.timers:
        name = random.choice(sorted(host.timers))
        del host.timers[name]
        host.life.fire(name)
        host.carry_out()


def hand_over_one(world, cut, random):
    """Hand over any packet; those between a host that is cut off and another are lost."""
    world.in_flight = [packet for packet in world.in_flight if (packet.to in cut) == (packet.sender in cut)]
    if world.in_flight:
        world.hand_over(random.randrange)


def doubt(core, seed, size=3):
    """A run in which a minority is cut off and suspected, another one every so many steps; what each host has delivered, and the views."""
    random, world, cut = Random(seed), World(core, size, seed=seed, detector="suspect"), []
    for turn in range(STEPS):
        if turn % STEPS_OF_A_CUT == 0:
            cut = random.sample(world.hosts, k=random.randint(0, (size - 1) // 2))
        step, host = random.randrange(16), random.choice(world.hosts)
        views = world[host].core.views
        if step == 0 and sum(world[one].broadcasts for one in world.hosts) < MESSAGES:
            world.broadcast(host)
        elif step == 1:
            beyond = [peer for peer in world[host].peers if (peer in cut) != (host in cut) and random.random() < 0.9]
            views.detector.suspected = dict.fromkeys(beyond)
        elif step == 2 and views._wanted() != world[host].core.members:
            views.election.stand(views.election.role)
            world[host].carry_out()
        elif step == 3 and random.random() < 0.5:
            world.restart(host)
        elif step == 4:
            world.lose(to=host)
        elif step == 5:
            fire_one(world[host], random)
        else:
            hand_over_one(world, cut, random)
    return [world.delivered(host) for host in world.hosts], [world[host].core.view for host in world.hosts]


def agree(logs):
    """Whether of any two hosts one has delivered the beginning of what the other has."""
    return all(one[: len(other)] == other[: len(one)] for one, other in combinations(logs, 2))


@pytest.mark.parametrize(("size", "seeds"), [(3, 120), (5, 40)])
def test_whatever_the_detectors_say_all_hosts_deliver_in_one_order(size, seeds):
    runs = [doubt(Timestamp, seed, size) for seed in range(seeds)]
    assert [seed for seed, (logs, _) in enumerate(runs) if not agree(logs)] == []
    assert sum(max(views) for _, views in runs) > seeds
    assert sum(len(log) for logs, _ in runs for log in logs) > 2 * size * seeds


@pytest.mark.parametrize(("core", "seed"), tuple(zip(DOUBTED, CAUGHT_BY, strict=True)))
def test_hosts_with_one_thing_broken_would_disagree(core, seed):
    assert not agree(doubt(core, seed)[0])
    assert agree(doubt(Timestamp, seed)[0])


def suspect(world, host, *suspected):
    """A host suspects these hosts, and nobody else."""
    world[host].core.views.detector.suspected = dict.fromkeys(suspected)


def stand(world, host):
    views = world[host].core.views
    views.election.stand(views.election.role)
    world[host].carry_out()


def until_all_have_voted(world):
    """h3 is suspected, h1 stands, and all vote for it; no vote arrives. Then nobody suspects anybody."""
    for host in ("h1", "h2"):
        suspect(world, host, "h3")
    stand(world, "h1")
    while any(world[host].core.views.election.epoch(("h1", 0)) == 0 for host in world.hosts):
        world.hand_over()
    world.lose()
    for host in ("h1", "h2"):
        suspect(world, host)


def run(world, seconds):
    """Let time pass on a network that loses nothing; what was sent meanwhile."""
    before, end = len(world.sent), world.now_s + seconds
    while world.now_s < end:
        world.expire()
        world.settle()
    return [packet.message for packet in world.sent[before:]]


def test_a_host_that_nobody_needs_to_be_elected_stands_no_more_when_its_doubt_is_over():
    world = World(Timestamp, 3, detector="suspect")
    suspect(world, "h1", "h3")
    stand(world, "h1")
    world.settle()
    suspect(world, "h1")
    run(world, 5.0)
    assert not any(isinstance(message, Call) for message in run(world, 20.0))
    assert [world[host].core.view for host in world.hosts] == [0, 0, 0]


@pytest.mark.parametrize("restarted", [["h1"], ["h1", "h2", "h3"]], ids=["the candidate", "everybody"])
def test_hosts_that_have_voted_for_a_view_that_nobody_makes_elect_again_though_nobody_is_suspected_any_more(restarted):
    world = World(Timestamp, 3, detector="suspect")
    until_all_have_voted(world)
    for host in restarted:
        world.restart(host)
    world.broadcast("h2")
    run(world, 20.0)
    assert [world.delivered(host) for host in world.hosts] == [[("h2", 1)]] * 3
    assert not any(isinstance(message, Call) for message in run(world, 20.0))


def test_a_host_that_has_voted_and_does_not_hear_of_the_view_is_told_when_it_stands():
    world = World(Timestamp, 3, detector="suspect")
    until_all_have_voted(world)
    while world["h2"].core.view == 0 and world.now_s < 20.0:
        world.expire()
        while world.in_flight:
            world.in_flight = [
                packet for packet in world.in_flight if packet.to != "h3" or not isinstance(packet.message, Install | Stamp)
            ]
            if world.in_flight:
                world.hand_over()
    assert world["h2"].core.view > world["h3"].core.view == 0
    run(world, 20.0)
    assert {world[host].core.view for host in world.hosts} == {world["h2"].core.view}
    assert not any(isinstance(message, Call) for message in run(world, 20.0))
