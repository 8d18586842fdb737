"""A campaign catches every protocol broken on purpose: each at the schedule that a search found, where the unbroken protocol holds."""

from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest

from hostagent.protocols import PROTOCOLS
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.trans_total.protocol import TransTotal
from scenarios.faults import Clock, Crash, DropMessage, Partition, Restart, Trigger
from scenarios.nonprogrammable_servers import cycle
from simulator.cases import Case, load, run
from simulator.swarm import draw_case
from tests.mutants import cluster_tree, recorded, trans_total
from tests.mutants.every import MUTANTS
from tests.mutants.mutant import MOST_SCHEDULES
from tests.mutants.parts import with_part

CASES = Path(__file__).parents[1] / "simulator" / "cases"
# Figure 4.1 of the first paper: h2 lacks message 98, h3 lacks 99, both have 100, and the source is cut off. Campaigns hardly ever draw it.
FIGURE_4_1 = Case(
    protocol="cluster-tree",
    seed=1,
    topology="clusters:k=3,size=1,shape=mesh",
    sources=("h1",),
    messages=100,
    heal_for_ms=40_000.0,
    faults=(
        DropMessage(at_ms=1930, host="h2", kind="Copy"),
        DropMessage(at_ms=1950, host="h3", kind="Copy"),
        Partition(at_ms=1990, sides=(("s1",),)),
    ),
    cut_off=("s1",),
)
# The fourteenth draw of the scenario `cycle`, in literal mode: a cycle of parents forms that lasts unless a host breaks it.
CYCLE = Case(
    protocol="cluster-tree",
    seed=1,
    topology="clusters:k=3,size=4,shape=ring,switches=2",
    sources=("h1",),
    messages=350,
    interval_ms=40.0,
    heal_for_ms=60_000.0,
    faults=cycle.scenario(draws=5)[-1].scenario.faults,
    parameters={"mode": "literal"},
)
# In literal mode: h2 is down while h1 gets the message, and then leads their cluster, cut off from the source, with less than h1 has.
OUTGROWN = Case(
    protocol="cluster-tree",
    seed=553,
    topology="clusters:k=2,size=2,shape=mesh",
    sources=("h3",),
    messages=1,
    interval_ms=10.0,
    settle_ms=500.0,
    heal_for_ms=51_000.0,
    faults=(
        Crash(when=Trigger("send", host="h2", nth=8), host="h2"),
        Crash(when=Trigger("send", host="h3", nth=4), host="h3"),
        Clock(at_ms=657, host="h1", offset_ms=-1931, drift_ppm=-74_152),
        Restart(at_ms=2190, host="h2"),
    ),
    cut_off=("s2",),
    parameters={"mode": "literal"},
)
FOUND = recorded.load()
CAUGHT = [mutant for mutant in MUTANTS if not mutant.harmless]


@cache
def verdict(protocol, seed, parameters):
    """The verdict on the unbroken protocol."""
    return run(draw_case(protocol, seed, msgspec.json.decode(parameters))[0]).judgement.verdict


@pytest.mark.parametrize("mutant", CAUGHT, ids=recorded.key)
def test_a_mutant_is_caught_where_the_protocol_holds(mutant):
    caught = FOUND[recorded.key(mutant)]
    assert caught.seed <= MOST_SCHEDULES
    assert mutant.breaks(caught.seed) >= set(caught.broken) > set()
    assert verdict(mutant.protocol, caught.seed, msgspec.json.encode(mutant.parameters)) == "holds"


@pytest.mark.parametrize(
    ("case", "core"),
    [
        (OUTGROWN, cluster_tree.KeepsALeaderThatHasLess),
        (load(CASES / "cluster-tree-407.json"), with_part(ClusterTree, "exchange", cluster_tree.ProbesTheHostItMet)),
        (FIGURE_4_1, with_part(ClusterTree, "exchange", cluster_tree.FillsNoGapsOfStrangers)),
        (CYCLE, cluster_tree.NeverBreaksCycles),
        (load(CASES / "trans-total-1547.json"), with_part(TransTotal, "reminders", trans_total.NeverAsksForVotes)),
    ],
    ids=["outgrown", "407", "figure-4-1", "cycle", "1547"],
)
def test_a_mutant_that_campaigns_seldom_catch_is_caught_by_a_case_of_its_own(case, core):
    assert run(case, core).judgement.verdict == "violated"
    assert run(case).judgement.verdict == "holds"


def test_every_protocol_has_at_least_eight_mutants_that_are_caught():
    of = Counter(mutant.protocol for mutant in CAUGHT)
    assert {name: of[name] for name in PROTOCOLS if of[name] < 8} == {}


def test_a_mutant_is_either_caught_or_has_a_reason_why_it_breaks_no_promise():
    assert set(FOUND) == set(map(recorded.key, CAUGHT))


def test_a_mutant_has_a_name_of_its_own_and_a_sentence():
    assert len(set(map(recorded.key, MUTANTS))) == len(MUTANTS)
    assert all(mutant.wrong.endswith(".") for mutant in MUTANTS)


def test_the_page_of_mutants_is_what_was_found():
    assert recorded.PAGE.read_text() == recorded.page(FOUND)
