"""Totem in virtual time: campaigns split rings and lose members for good, and hosts come late and depart."""

from scenarios.faults import Arrive, Depart
from simulator.cases import Case, run
from simulator.swarm import draw_case

CASES = 20


def test_campaigns_split_rings_and_lose_members_for_good():
    kinds = {kind for seed in range(CASES) for kind in draw_case("totem", seed)[1]}
    assert {"partition", "cut-off-for-good", "crash-for-good", "crash", "crash-while-sending"} <= kinds


def test_a_host_that_comes_late_is_taken_in_and_one_that_departs_is_left_out():
    """The last hosts of two clusters of three."""
    case = Case(
        protocol="totem",
        seed=1,
        topology="clusters:k=2,size=3,shape=line,delay=20ms",
        sources=("h1", "h4"),
        messages=200,
        interval_ms=50.0,
        heal_for_ms=200_000.0,
        faults=(Arrive(at_ms=3000.0, host="h3"), Depart(at_ms=6000.0, host="h6")),
    )
    judgement = run(case).judgement
    assert (judgement.verdict, judgement.findings["progress in the last view"].verdict) == ("holds", "holds")
