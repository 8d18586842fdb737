"""The demo tests what it shows: every promise of its protocols, in virtual time."""

import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.judge import Verdict, judge
from hostagent.protocols import PROTOCOLS
from scenarios.catalogue import find
from simulator.cases import history_of
from simulator.engine import simulate

DEMO = {variant.protocol: variant.scenario for variant in find("clusters").build({})}


@pytest.mark.parametrize("protocol", DEMO)
def test_the_demo_tests_every_promise_of_its_protocols_in_less_than_a_minute(protocol):
    scenario, core = DEMO[protocol], PROTOCOLS[protocol]
    assert scenario.ends_ms(seed=1) <= 60_000
    outcome = simulate(scenario, core, core.Parameters(), seed=1, sample_ms=500.0)
    promise = core.promise(core.Parameters(), len(scenario.network.hosts))
    judgement = judge(history_of(outcome), promise, Connectivity(scenario.network, outcome.faults, outcome.ended_ns))
    assert {guarantee: finding.verdict for guarantee, finding in judgement.findings.items()} == dict.fromkeys(
        promise.guarantees, Verdict.HOLDS
    )
    assert judgement.not_tested == ()


def test_the_demo_without_parent_events_violates_the_tree():
    scenario, core = DEMO["cluster-tree"], PROTOCOLS["cluster-tree"]
    outcome = simulate(scenario, core, core.Parameters(), seed=1)
    outcome.events = [(host, event) for host, event in outcome.events if event.event != "parent"]
    promise = core.promise(core.Parameters(), len(scenario.network.hosts))
    judgement = judge(history_of(outcome), promise, Connectivity(scenario.network, outcome.faults, outcome.ended_ns))
    assert (judgement.verdict, judgement.reasons[0].split(",")[0]) == (Verdict.VIOLATED, "h2 has no parent")
