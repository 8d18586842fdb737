"""How soon the token site goes on after a site has died, in virtual time."""

import itertools

import pytest

from hostagent.protocols.token_site.protocol import TokenSite
from scenarios import Scenario, Workload
from scenarios.faults import Crash
from simulator.engine import simulate
from topologies import find


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
