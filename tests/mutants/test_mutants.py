"""A campaign catches every protocol broken on purpose: each at the schedule that a search found, where the unbroken protocol holds."""

from collections import Counter
from functools import cache

import msgspec
import pytest

from hostagent.protocols import PROTOCOLS
from simulator.cases import run
from simulator.swarm import draw_case
from tests.mutants import recorded
from tests.mutants.every import MUTANTS
from tests.mutants.mutant import MOST_SCHEDULES

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
