"""Random changes of membership in campaigns: drawn for protocols that know membership, and survived by one that does."""

import itertools

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios.faults import Arrive, Depart, Join, Leave, name_of
from simulator.cases import run
from simulator.shrink import broken, shrink
from simulator.swarm import MEMBERSHIP, draw_case
from tests.hostagent.managed import Managed

DRAWN = 60


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(PROTOCOLS, Managed.name, Managed)


def changes(case):
    return [fault for fault in case.faults if isinstance(fault, Join | Leave | Arrive | Depart)]


def test_every_change_is_drawn_and_makes_sense_and_sources_are_always_there():
    drawn = [draw_case(Managed.name, seed) for seed in range(DRAWN)]
    for case, kinds in drawn:
        assert case.scenario().faults == case.faults
        assert {name_of(change) for change in changes(case)} == kinds & set(MEMBERSHIP)
        moving = {change.host for change in changes(case) if isinstance(change, Arrive | Depart)}
        assert moving.isdisjoint(case.sources)
    assert {kind for _, kinds in drawn for kind in kinds} >= set(MEMBERSHIP)


def test_changes_are_drawn_only_for_protocols_that_know_membership_and_survive_them(monkeypatch):
    assert not any(changes(draw_case("basic", seed)[0]) for seed in range(DRAWN))
    monkeypatch.setattr(Managed, "beyond", frozenset({"depart"}))
    for seed in range(DRAWN):
        case, kinds = draw_case(Managed.name, seed)
        assert case.beyond or "depart" not in kinds


def within():
    return (case for case in (draw_case(Managed.name, seed)[0] for seed in itertools.count()) if not case.beyond)


def test_the_managed_protocol_keeps_its_promises_whoever_comes_and_goes():
    judged = [(case.seed, run(case).judgement) for case in itertools.islice(within(), 20)]
    assert [(seed, judgement.reasons) for seed, judgement in judged if judgement.verdict == "violated"] == []
    assert any(judgement.verdict == "holds" for _, judgement in judged)


def test_a_protocol_that_forgets_a_host_is_caught_and_its_case_makes_sense_when_it_is_small(monkeypatch):
    """It sends to the members that the scenario names, whatever view it has installed."""

    class Stale(Managed):
        def on_multicast(self, to, sequence, payload):
            first = self.first.get(to.group, to.hosts)
            super().on_multicast(to._replace(hosts=first), sequence, payload)

        def on_start(self, stored):
            self.first = dict(self.env.groups)
            super().on_start(stored)

    monkeypatch.setitem(PROTOCOLS, Managed.name, Stale)
    case = next(
        case for case in within() if any(isinstance(change, Join) for change in changes(case)) and broken(run(case).judgement)
    )
    small = shrink(case)
    assert broken(run(small).judgement)
    assert len(changes(small)) == 1
