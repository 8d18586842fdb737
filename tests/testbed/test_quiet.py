"""When nothing is in flight any more."""

import pytest

from scenarios.faults import LinkChange
from testbed.running.runner import QUIET_S, quiet_time_s
from topologies import clusters


def test_a_packet_may_take_longer_over_narrow_links_than_nothing_is_heard_of_it():
    """A full frame takes 1.2 s on a link of 10 kbit/s, and there are three switches on the longest way."""
    narrow = clusters(3, 1, "line", bandwidth_mbit=0.01)
    assert quiet_time_s(narrow, narrow.links, ()) == pytest.approx(QUIET_S + 3 * 1.2112)
    wide = clusters(3, 1, "line", bandwidth_mbit=100.0)
    assert quiet_time_s(wide, wide.links, ()) == pytest.approx(QUIET_S, abs=0.01)


def test_what_was_delayed_before_a_change_stays_delayed():
    network = clusters(2, 1, "line", bandwidth_mbit=100.0)
    change = LinkChange(at_ms=0, link="s1-s2", delay_ms=200.0, jitter_ms=50.0, bandwidth_mbit=0.001)
    assert quiet_time_s(network, network.links, (change,)) == pytest.approx(QUIET_S + 2 * 0.25, abs=0.01)
