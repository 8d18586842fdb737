"""What no protocol may send."""

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios import Scenario, Workload
from simulator.engine import simulate
from topologies import lan


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_no_host_sends_itself_a_datagram(protocol):
    """It would cross no link, so that nobody sees it leave, and its receiver refuses it."""
    network = lan(5, loss=0.02)
    scenario = Scenario(
        network=network, workload=Workload(messages=1000, interval=0.5, payload=64, settle=1000.0), sources=network.hosts
    )
    to_itself = []

    def look(_at_ns, packet):
        if packet.destination == packet.sender:
            to_itself.append([type(part.message).__name__ for part in packet.parts])

    core = PROTOCOLS[protocol]
    simulate(scenario, core, core.Parameters(), 1, on_transmit=look)
    assert to_itself == []
