"""A short campaign of the propagation graph with failures: graphs are formed anew, tails are taken back, and all promises hold."""

import itertools

import pytest

from scenarios.faults import LinkChange
from simulator.cases import Case, run
from simulator.swarm import draw_case
from tests.mutants import non_atomic

CASES = 4
# Figure 7.5: h1 and h2 go on in the old graph when the others, a majority, have formed a new one.
TWO_TREES = Case(
    protocol="propagation-graph",
    seed=1,
    topology="clusters:k=5,size=1,shape=line",
    sources=("h1", "h5"),
    messages=80,
    interval_ms=100.0,
    heal_for_ms=80_000.0,
    faults=(
        LinkChange(at_ms=3000, link="s2-s3", towards="s3", loss=1.0),
        LinkChange(at_ms=4000, link="s2-s3", towards="s2", loss=1.0),
    ),
    parameters={"failures": "non-atomic", "recover": "rollback"},
)


@pytest.mark.parametrize("recover", ["new-member", "rollback"])
def test_the_propagation_graph_keeps_its_promises_whoever_fails(recover):
    parameters = {"failures": "non-atomic", "recover": recover}
    drawn = (draw_case("propagation-graph", seed, parameters)[0] for seed in itertools.count(1))
    results = {case.seed: run(case) for case in itertools.islice((case for case in drawn if not case.beyond), CASES)}
    assert {seed: result.judgement.reasons for seed, result in results.items() if result.judgement.verdict == "violated"} == {}
    assert {event for result in results.values() for event in result.happened} >= {"formed", "excluded"}


def test_hosts_are_left_behind_in_many_schedules_and_only_where_deliveries_are_taken_back():
    kinds = {
        recover: [draw_case("propagation-graph", seed, {"failures": "non-atomic", "recover": recover})[1] for seed in range(100)]
        for recover in ("new-member", "rollback")
    }
    assert not any("left-behind" in drawn for drawn in kinds["new-member"])
    assert sum("left-behind" in drawn for drawn in kinds["rollback"]) > 30


def test_a_host_that_takes_nothing_back_is_caught_where_there_are_two_trees():
    found = run(TWO_TREES)
    assert found.judgement.verdict == "holds"
    assert "take-back" in found.happened
    assert run(TWO_TREES, non_atomic.surviving(non_atomic.TakesNothingBack)).judgement.verdict == "violated"
