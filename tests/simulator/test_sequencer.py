"""The sequencer in short campaigns: it keeps its promises, and with failover a majority goes on within a bounded time."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case

ELECT = {"failover": "elect"}


def within(parameters, medium):
    """The first cases that have only trouble which the protocol claims to survive."""
    drawn = (draw_case("sequencer", seed, parameters, medium)[0] for seed in itertools.count())
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(
    ("parameters", "medium", "cases"), [({}, "unicast", 25), ({}, "multicast", 25), (ELECT, "multicast", 15)]
)
def test_the_sequencer_keeps_its_promises_in_a_short_campaign(parameters, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(parameters, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert sum(judgement.verdict == "holds" for _, judgement in judged) > cases // 2


def test_with_failover_hosts_that_die_for_good_are_survived_and_without_it_they_are_beyond():
    kinds = [draw_case("sequencer", seed, ELECT) for seed in range(60)]
    assert any("crash-for-good" in drawn and not case.beyond for case, drawn in kinds)
    assert not any(
        "crash-for-good" in drawn and not case.beyond for case, drawn in (draw_case("sequencer", seed) for seed in range(60))
    )
