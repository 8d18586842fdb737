"""The token site under random faults, and how soon it goes on after a token site has died, in virtual time."""

import itertools

import pytest

from hostagent.protocols.token_site.protocol import TokenSite
from scenarios import Scenario, Workload
from scenarios.faults import Crash
from simulator.cases import run
from simulator.engine import simulate
from simulator.swarm import draw_case
from topologies import find


@pytest.mark.parametrize(("parameters", "medium"), [({}, "unicast"), ({}, "multicast"), ({"resilience": 0}, "unicast")])
def test_it_keeps_its_promises_in_whatever_it_claims_to_survive(parameters, medium):
    drawn = (draw_case("token-site", seed, parameters, medium)[0] for seed in itertools.count())
    within = itertools.islice((case for case in drawn if not case.beyond), 6)
    judged = {case.seed: run(case).judgement for case in within}
    assert {seed: judgement.reasons for seed, judgement in judged.items() if judgement.verdict != "holds"} == {}


@pytest.mark.parametrize("victim", ["h1", "h2", "h5"])
def test_a_dead_site_stops_the_others_for_less_than_half_a_second(victim):
    """Production systems take half a second to three seconds."""
    stream = Workload(messages=200, interval=10.0, settle=2000.0)
    network = find("clusters:k=1,size=5,shape=line")
    scenario = Scenario(network=network, sources=("h3",), faults=(Crash(at_ms=1003, host=victim),), workload=stream)
    outcome = simulate(scenario, TokenSite, TokenSite.Parameters(), 1)
    times = [event.at_ns / 1e6 for host, event in outcome.events if host == "h4" and event.event == "deliver"]
    assert len(times) == 200
    assert max(after - before for before, after in itertools.pairwise(times)) < 500
