"""Every ordered protocol keeps its promises in a short campaign; long ones are run by hand."""

import itertools

import pytest

from simulator.cases import run
from simulator.swarm import draw_case

ELECT, SAFE = {"failover": "elect"}, {"delivery": "safe"}
CAMPAIGNS = [
    ("sequencer", {}, "unicast", 20),
    ("sequencer", {}, "multicast", 20),
    ("sequencer", ELECT, "multicast", 12),
    ("two-phase", {}, "unicast", 20),
    ("two-phase", {}, "multicast", 12),
    ("two-phase", ELECT, "unicast", 6),
    ("two-phase", ELECT, "multicast", 4),
    ("timestamp", {}, "unicast", 12),
    ("timestamp", {}, "multicast", 12),
    ("timestamp", {"silent": "null"}, "unicast", 12),
    ("timestamp", {"detector": "suspect"}, "unicast", 5),
    ("token-site", {}, "unicast", 6),
    ("token-site", {}, "multicast", 6),
    ("token-site", {"resilience": 0}, "unicast", 6),
    ("trans-total", {}, "unicast", 4),
    ("trans-total", {"repair": "anyone"}, "multicast", 4),
    ("counter", {}, "unicast", 12),
    ("counter", {}, "multicast", 12),
    ("counter", {"order": "rotating"}, "unicast", 6),
    ("counter", {"commit": "entry"}, "multicast", 6),
    ("optimistic", {}, "unicast", 8),
    ("optimistic", {}, "multicast", 8),
    ("totem", {}, "unicast", 12),
    ("totem", {}, "multicast", 12),
    ("totem", SAFE, "unicast", 12),
    ("totem", SAFE, "multicast", 12),
    ("spo", {}, "unicast", 12),
    ("spo", {}, "multicast", 12),
    ("spo", {"window": 150, "buffers": 150}, "multicast", 12),
]


def within(protocol, parameters, medium):
    """The cases that have only trouble which the protocol claims to survive."""
    drawn = (draw_case(protocol, seed, parameters, medium)[0] for seed in itertools.count())
    return (case for case in drawn if not case.beyond)


@pytest.mark.parametrize(
    ("protocol", "parameters", "medium", "cases"),
    CAMPAIGNS,
    ids=["-".join([name, *map(str, values.values()), medium]) for name, values, medium, _ in CAMPAIGNS],
)
def test_a_protocol_keeps_its_promises_in_a_short_campaign(protocol, parameters, medium, cases):
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(protocol, parameters, medium), cases)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert sum(judgement.verdict == "holds" for _, judgement in judged) >= cases // 2
