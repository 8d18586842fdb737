"""Ballots of the two-phase protocol: hosts take over at random, lose packets and restart, and a message never has two final counters.

Campaigns hardly ever reach what these worlds do, as few of their messages have several ballots.
"""

from random import Random

import pytest

from hostagent.protocols.two_phase.protocol import TwoPhase
from tests.hostagent.world import World
from tests.mutants.two_phase import CONTESTED

STEPS = 150
GROUPS = {1: ("h1", "h2"), 2: ("h2", "h3")}
CAUGHT_BY = ((5, 18), (3, 90), (3, 53), (3, 63))
"""For each of CONTESTED a number of hosts and the first seed with which a message has two final counters."""


def contest(core, seed, size=3):
    """The final counters that two messages had at any host at any time."""
    random, world = Random(seed), World(core, size, seed=seed, groups=GROUPS, failover="elect")
    counters = {}
    for host in random.sample(world.hosts, k=2):
        world.broadcast(host, to=random.choice((0, *GROUPS)))
    for _ in range(STEPS):
        step, host = random.randrange(12), random.choice(world.hosts)
        agreement = world[host].core.agreement
        undecided = [held for held in agreement.held.values() if not held.decided]
        if step == 0 and undecided:
            agreement._take_over(random.choice(undecided))
            world[host].carry_out()
        elif step == 1:
            world.restart(host)
        elif step == 2:
            world.lose(to=host)
        elif world.in_flight:
            world.hand_over(random.randrange)
        for one in world.hosts:
            for message, held in world[one].core.agreement.held.items():
                counters.setdefault(message, set()).update({held.decided} - {0})
    return counters


def is_decided_once(core, seed, size=3):
    return all(len(final) <= 1 for final in contest(core, seed, size).values())


@pytest.mark.parametrize("size", [3, 5])
def test_whoever_takes_over_a_message_has_one_final_counter(size):
    runs = [contest(TwoPhase, seed, size) for seed in range(150)]
    assert [seed for seed, counters in enumerate(runs) if any(len(final) > 1 for final in counters.values())] == []
    assert sum(len(final) for counters in runs for final in counters.values()) > 100


@pytest.mark.parametrize(("core", "size", "seed"), [(core, *how) for core, how in zip(CONTESTED, CAUGHT_BY, strict=True)])
def test_voters_with_one_thing_broken_would_decide_twice(core, size, seed):
    assert not is_decided_once(core, seed, size)
    assert is_decided_once(TwoPhase, seed, size)
