"""Trans and Total in virtual time: what a message costs, and a long stream over links that lose packets."""

import pytest

from hostagent.protocols.trans_total.protocol import TransTotal
from scenarios import Scenario, Workload
from simulator.engine import simulate
from topologies import find


def streamed(topology, messages, interval, arrivals="steady", multicasts=False, **parameters):
    network = find(topology)
    workload = Workload(messages=messages, interval=interval, payload=64, settle=3000.0, arrivals=arrivals)
    scenario = Scenario(network=network, sources=network.hosts, workload=workload)
    return simulate(scenario, TransTotal, TransTotal.Parameters(**parameters), 1, pack_ms=None, multicasts=multicasts)


def orders(outcome):
    """What each host delivered."""
    found = {}
    for host, event in outcome.events:
        if event.event == "deliver":
            found.setdefault(host, []).append((event.origin, event.sequence))
    return found


def sent(outcome):
    return {
        kind: sum(counters[f"sent_{kind}"] for counters in outcome.counters.values()) for kind in ("data", "repair", "control")
    }


@pytest.mark.parametrize(("multicasts", "data", "null"), [(False, 4, 16), (True, 1, 4)], ids=["unicast", "multicast"])
def test_what_a_message_costs_among_silent_hosts(multicasts, data, null):
    outcome = streamed("clusters:k=5,size=1,shape=star", 20, 100.0, multicasts=multicasts)
    assert sent(outcome) == {"data": 20 * data, "repair": 0, "control": 20 * null}


@pytest.mark.parametrize("repair", ["asked", "anyone"])
def test_a_long_stream_over_links_that_lose_packets_has_one_order(repair):
    outcome = streamed("clusters:k=5,size=1,shape=star,delay=5ms,loss=2%", 600, 2.0, arrivals="poisson", repair=repair)
    found = orders(outcome)
    assert len(found) == 5
    assert len({tuple(order) for order in found.values()}) == 1
    assert {len(order) for order in found.values()} == {600}


@pytest.mark.parametrize("size", [3, 4])
def test_two_halves_that_each_hear_themselves_first_agree(size):
    """Two messages cross on a slow link, and each half of the hosts has most votes for its own message."""
    outcome = streamed(f"clusters:k=2,size={size},shape=line,delay=200ms,bandwidth=200kbit", 2 * size, 1.0)
    found = orders(outcome)
    assert len({tuple(order) for order in found.values()}) == 1
    assert {len(order) for order in found.values()} == {2 * size}
