"""A short campaign of the propagation graph with failures: graphs are formed anew, tails are taken back, and all promises hold."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case

CASES = 4


@pytest.mark.parametrize("recover", ["new-member", "rollback"])
def test_the_propagation_graph_keeps_its_promises_whoever_fails(recover):
    parameters = {"failures": "non-atomic", "recover": recover}
    drawn = (draw_case("propagation-graph", seed, parameters)[0] for seed in itertools.count(1))
    results = {case.seed: run(case) for case in itertools.islice((case for case in drawn if not case.beyond), CASES)}
    assert {seed: result.judgement.reasons for seed, result in results.items() if result.judgement.verdict == "violated"} == {}
    assert {event for result in results.values() for event in result.happened} >= {"formed", "excluded"}
