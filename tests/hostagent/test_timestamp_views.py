"""Views of the timestamp protocol under doubt: hosts are cut off, suspected, stand for election and restart at random, and never disagree.

Campaigns hardly ever reach what these worlds do, as their detectors err seldom.
"""

from itertools import combinations
from random import Random

import pytest

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
