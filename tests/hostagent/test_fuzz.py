"""A short campaign of mutated datagrams through every protocol; `tests/hostagent/fuzz.py` makes long ones."""

import pytest

from hostagent.contract import wire
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.cluster_tree.core import LONGEST_ROUND_TRIP_S
from tests.hostagent.fuzz import campaign, variants
from tests.hostagent.world import World


def test_no_datagram_makes_any_protocol_fail():
    outcomes = campaign(1000 * len(variants()))
    assert {variant.split()[0] for variant in outcomes} == set(PROTOCOLS)
    assert {outcome for found in outcomes.values() for outcome in found} == {"accepted", *wire.REASONS}
    assert all(found["accepted"] > sum(found.values()) / 5 for found in outcomes.values())


def test_choices_of_parameters_are_variants():
    assert {"cluster-tree", "cluster-tree mode=literal", "best-effort links=none"} <= set(map(str, variants()))


def test_the_campaign_finds_a_codec_that_takes_hosts_that_do_not_exist(monkeypatch):
    monkeypatch.setattr(wire, "_rules", lambda _: ())
    with pytest.raises((LookupError, ValueError)) as found:
        campaign(50_000)
    assert "cluster-tree" in found.value.__notes__[0]


def test_a_host_that_nobody_ever_answers_goes_on_asking():
    """The wait doubles each time; doubled a thousand times it is no number any more."""
    world = World(ClusterTree, 2)
    core = world["h2"].core
    tree = core.tree("h1")
    tree.parent, tree.unanswered = "h1", 5000
    core.declare(tree)
    assert world["h2"].timers["core/NP2/h1"] == LONGEST_ROUND_TRIP_S
