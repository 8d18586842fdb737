"""The timestamp protocol in a short campaign, in its modes and on both media."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case


def within(parameters, medium):
    drawn = (draw_case("timestamp", seed, parameters, medium)[0] for seed in itertools.count(1))
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(
    ("parameters", "medium", "cases"),
    [
        ({}, "unicast", 15),
        ({}, "multicast", 15),
        ({"silent": "null"}, "unicast", 15),
        ({"detector": "suspect"}, "unicast", 5),
    ],
    ids=["answer", "multicast", "null", "suspect"],
)
def test_a_short_campaign_finds_nothing(parameters, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(parameters, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert any(judgement.verdict == "holds" for _, judgement in judged)
