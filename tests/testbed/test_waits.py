"""Times to wait that are shorter than a round trip of the network are refused with a sentence."""

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios.catalogue import find
from testbed.errors import CannotRun
from testbed.running.settings import choose
from topologies import clusters, grid
from topologies.paths import round_trip_ms


def chosen(protocol, settings=None, **parameters):
    return choose(find("clusters").build({"k": "3", "shape": "line", **(settings or {})}), (protocol,), {protocol: parameters})


@pytest.mark.parametrize(("protocol", "name"), [(core.name, name) for core in PROTOCOLS.values() for name in core.waits])
def test_a_wait_below_a_round_trip_is_refused(protocol, name):
    sentence = f"protocol {protocol}: {name}=399: a round trip takes 400 ms on this network, .* choose 400 or more"
    with pytest.raises(CannotRun, match=sentence):
        chosen(protocol, {"delay": "100ms"}, **{name: 399.0})
    assert chosen(protocol, {"delay": "100ms"}, **{name: 400.0})
    assert chosen(protocol, **{name: 399.0})


def test_a_round_trip_is_the_longest_of_two_hosts():
    assert round_trip_ms(grid(2, 3, 1)) == 0.0
    assert round_trip_ms(grid(2, 3, 1, delay_ms=10.0)) == 60.0
    assert round_trip_ms(clusters(4, 3, "ring", delay_ms=20.0)) == 80.0
