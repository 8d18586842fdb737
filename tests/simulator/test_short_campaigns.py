"""Every ordered protocol keeps its promises in a short campaign; long ones are run by hand."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case

CAMPAIGNS = [
    ("spo", {}, "unicast", 12),
    ("spo", {}, "multicast", 12),
    ("spo", {"window": 150, "buffers": 150}, "multicast", 12),
]


def within(protocol, parameters, medium):
    """The cases that have only trouble which the protocol claims to survive."""
    drawn = (draw_case(protocol, seed, parameters, medium)[0] for seed in itertools.count())
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(("protocol", "parameters", "medium", "cases"), CAMPAIGNS)
def test_a_protocol_keeps_its_promises_in_a_short_campaign(protocol, parameters, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(protocol, parameters, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert sum(judgement.verdict == "holds" for _, judgement in judged) > cases // 2
