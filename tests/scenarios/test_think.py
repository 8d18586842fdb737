"""Think time: a source sends its next message some time after it delivered its previous one."""

import pytest

from hostagent.protocols.uniform import Uniform
from scenarios import Group, Scenario, ScenarioError, Workload
from scenarios.faults import Crash, Pause
from simulator.cases import history_of
from simulator.engine import simulate
from topologies import clusters

NETWORK = clusters(2, 2, "line", delay_ms=20.0)


def thinking(**options) -> Scenario:
    workload = Workload(messages=7, interval=30.0, arrivals="think", settle=500.0)
    return Scenario(network=NETWORK, sources=("h1", "h3"), workload=workload, **options)


def play(scenario):
    return simulate(scenario, Uniform, Uniform.Parameters(), 1)


def test_each_broadcast_comes_a_think_time_after_the_source_delivered_its_previous_one():
    history = history_of(play(thinking()))
    delivered = {delivery.message: delivery.at_ns for delivery in history.deliveries if delivery.host == delivery.origin}
    assert len(history.broadcasts) == 7
    for broadcast in history.broadcasts:
        if broadcast.sequence > 1:
            assert broadcast.at_ns == delivered[broadcast.origin, broadcast.sequence - 1] + 30_000_000


def test_the_run_settles_after_the_last_broadcast_and_not_at_the_latest_time():
    outcome = play(thinking())
    assert not outcome.problems
    assert outcome.ended_ns < thinking().ends_ms(1) * 1e6 / 2


def test_a_source_that_does_not_deliver_ends_the_run_at_the_latest_time_and_that_is_said():
    scenario = thinking(faults=(Crash(at_ms=50, host="h1"), Pause(at_ms=50, host="h3")))
    outcome = play(scenario)
    assert len(history_of(outcome).broadcasts) < 7
    assert outcome.ended_ns <= (scenario.ends_ms(1) + 200) * 1e6
    (problem,) = outcome.problems
    assert "broadcasts were not made: h1, h3 did not deliver" in problem


def test_a_source_that_never_delivers_its_messages_is_refused_and_so_are_bursts():
    with pytest.raises(ScenarioError, match="arrivals=think: h3 is not in group 'alpha'"):
        thinking(groups=(Group("alpha", ("h1", "h2")),))
    with pytest.raises(ScenarioError, match="arrivals=think: a source waits for the delivery of each message"):
        Workload(arrivals="think", at_once=2)
