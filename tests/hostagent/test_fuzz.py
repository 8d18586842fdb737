"""A short campaign of mutated datagrams through every protocol; `tests/hostagent/fuzz.py` makes long ones."""

import pytest

from hostagent.contract import wire
from hostagent.protocols import PROTOCOLS
from tests.hostagent.fuzz import campaign, variants


def test_no_datagram_makes_any_protocol_fail():
    outcomes = campaign(20_000)
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
