"""The two-phase protocol in a short campaign, in both modes and on both media."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case


def within(failover, medium):
    drawn = (draw_case("two-phase", seed, {"failover": failover}, medium)[0] for seed in itertools.count(1))
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(
    ("failover", "medium", "cases"),
    [("block", "unicast", 25), ("block", "multicast", 15), ("elect", "unicast", 8), ("elect", "multicast", 4)],
)
def test_a_short_campaign_finds_nothing(failover, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(failover, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert any(judgement.verdict == "holds" for _, judgement in judged)
