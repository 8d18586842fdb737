"""The timestamp protocol in a short campaign, in both modes and on both media."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case


def within(silent, medium):
    drawn = (draw_case("timestamp", seed, {"silent": silent}, medium)[0] for seed in itertools.count(1))
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(("silent", "medium"), [("answer", "unicast"), ("null", "unicast"), ("answer", "multicast")])
def test_a_short_campaign_finds_nothing(silent, medium):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(silent, medium), 15)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert any(judgement.verdict == "holds" for _, judgement in judged)
