"""Totem in short campaigns: it keeps its promises, and some cases split rings and lose members for good."""

import itertools

import pytest

from simulator.cases import run
from simulator.shrink import broken
from simulator.swarm import draw_case

CASES = 20


@pytest.mark.parametrize(
    ("delivery", "medium"), [("agreed", "unicast"), ("agreed", "multicast"), ("safe", "unicast"), ("safe", "multicast")]
)
def test_totem_keeps_its_promises_in_a_short_campaign(delivery, medium):
    drawn = (draw_case("totem", seed, {"delivery": delivery}, medium)[0] for seed in itertools.count())
    within = itertools.islice((case for case in drawn if not case.beyond), CASES)
    assert {case.seed: found for case in within if (found := broken(run(case).judgement))} == {}


def test_campaigns_split_rings_and_lose_members_for_good():
    kinds = {kind for seed in range(CASES) for kind in draw_case("totem", seed)[1]}
    assert {"partition", "cut-off-for-good", "crash-for-good", "crash", "crash-while-sending"} <= kinds
