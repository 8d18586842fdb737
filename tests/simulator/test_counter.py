"""The counter protocol in short campaigns: on both media it keeps its promises while a majority is left."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case


def within(parameters, medium):
    """The first cases that have only trouble which the protocol claims to survive."""
    drawn = (draw_case("counter", seed, parameters, medium)[0] for seed in itertools.count())
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(
    ("parameters", "medium", "cases"),
    [({}, "unicast", 20), ({}, "multicast", 20), ({"order": "rotating"}, "unicast", 8), ({"commit": "entry"}, "multicast", 8)],
)
def test_it_keeps_its_promises_in_a_short_campaign(parameters, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(parameters, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert sum(judgement.verdict == "holds" for _, judgement in judged) > cases // 2
