"""Random cases, the files that keep them, and failing ones made small."""

import itertools
from pathlib import Path

import msgspec
import pytest

from analysis.judging.findings import Verdict
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Guarantee
from hostagent.parts.delivery import Copy
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Ack, Basic
from scenarios import ScenarioError
from scenarios.faults import Crash, Partition, Restart, trunks
from simulator.cases import Case, load, run
from simulator.shrink import broken, shrink
from simulator.swarm import TROUBLES, draw_case
from topologies import find

DRAWN = 400


@pytest.fixture(scope="module")
def drawn():
    return [draw_case("basic", seed) for seed in range(DRAWN)]


class NeverRepeats(Basic):
    """Takes a copy sent for a copy received."""

    name = "never-repeats"

    def on_timer(self, name):
        """Do nothing."""


class ForgetsToDeduplicate(Basic):
    """Delivers whatever comes."""

    name = "forgets-to-deduplicate"

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.env.deliver(message.origin, message.sequence, message.payload)
            self.env.send(sender, Ack(0, message.origin, message.sequence), Purpose.CONTROL)
        else:
            super().on_message(sender, message, expensive)


class ForgetsAtRestart(Basic):
    """Starts with an empty head."""

    name = "forgets-at-restart"

    def on_start(self, stored):
        """Forget what was delivered, which the part that remembers it has just been given."""
        self.delivery._delivered._sets.clear()
        super().on_start(stored)


def test_every_kind_of_trouble_and_every_pair_of_kinds_is_drawn(drawn):
    pairs = {pair for _, on in drawn for pair in itertools.combinations(sorted(on), 2)}
    assert {kind for _, on in drawn for kind in on} == set(TROUBLES)
    assert pairs == set(itertools.combinations(sorted(TROUBLES), 2))


def test_some_hosts_stay_dead_from_one_to_all_but_one_and_sources_among_them(drawn):
    dying = [case for case, on in drawn if "crash-for-good" in on]
    shares = {(len(case.dead), len(find(case.topology).hosts)) for case in dying}
    assert {dead for dead, _ in shares} >= {1, 2, 3, 4, 5}
    assert all(1 <= dead < hosts for dead, hosts in shares)
    assert any(dead == hosts - 1 for dead, hosts in shares if hosts > 4)
    assert any(set(case.sources) <= set(case.dead) for case in dying)
    assert not any(case.dead for case, on in drawn if "crash-for-good" not in on)
    for case in dying:
        revived = {fault.host for fault in case.faults if isinstance(fault, Restart)}
        assert revived.isdisjoint(case.dead)


def test_hosts_die_before_all_broadcasts_at_a_delivery_and_in_the_middle_of_a_message(drawn):
    deaths = [fault for case, _ in drawn for fault in case.faults if isinstance(fault, Crash) and fault.host in case.dead]
    assert {0.0} < {death.at_ms for death in deaths}
    assert {death.when.event for death in deaths if death.when} == {"deliver", "send"}
    assert any(death.when.sequence and death.when.event == "send" and death.when.nth > 1 for death in deaths if death.when)


def test_a_part_of_the_network_stays_cut_off_and_never_all_of_it(drawn):
    cut = [case for case, on in drawn if "cut-off-for-good" in on]
    assert 0 < len(cut) < len(drawn)
    assert [case for case, _ in drawn if case.cut_off] == cut
    assert all(set(case.cut_off) < set(find(case.topology).switches) for case in cut)


def test_what_a_protocol_does_not_claim_to_survive_is_drawn_seldom_and_marked(drawn):
    marked = [(case.beyond, not Basic.beyond.isdisjoint(on)) for case, on in drawn]
    assert all(beyond == holds for beyond, holds in marked)
    assert 0 < sum(beyond for beyond, _ in marked) < DRAWN / 5


def test_impairments_of_links_may_be_beyond_a_protocol_too(monkeypatch):
    class Fragile(Basic):
        beyond = frozenset({"loss", "crash"})

    monkeypatch.setitem(PROTOCOLS, "basic", Fragile)
    for seed in range(100):
        case, on = draw_case("basic", seed)
        assert case.beyond == bool(on & Fragile.beyond)
        assert ("loss=" in case.topology) == ("loss" in on)


def test_too_many_hosts_lost_for_good_are_beyond_a_protocol_that_needs_a_majority(monkeypatch):
    class Majority(Basic):
        beyond = frozenset()

        @classmethod
        def most_lost(cls, parameters, hosts):  # noqa: ARG003 - as in Core
            return (hosts - 1) // 2

    monkeypatch.setitem(PROTOCOLS, "basic", Majority)
    for seed in range(100):
        case, _ = draw_case("basic", seed)
        network = find(case.topology)
        lost = {*case.dead, *(host for host in network.hosts if network.access_switch(host) in case.cut_off)}
        assert case.beyond == (2 * len(lost) >= len(network.hosts))


def test_a_number_always_gives_the_same_case(drawn):
    assert [draw_case("basic", seed) for seed in range(DRAWN)] == drawn


def test_every_case_makes_sense_and_names_its_own_seed(drawn):
    for seed, (case, _) in enumerate(drawn):
        assert case.scenario().network.hosts
        assert case.seed == seed


def test_a_drawn_partition_cuts_something(drawn):
    partitions = [(case.topology, fault) for case, _ in drawn for fault in case.faults if isinstance(fault, Partition)]
    assert len(partitions) > DRAWN / 10
    for topology, fault in partitions:
        (side,) = fault.sides
        assert any((trunk.a in side) != (trunk.b in side) for trunk in trunks(find(topology)))


def test_a_case_reads_back_from_its_file_and_runs_the_same(tmp_path, drawn):
    for number, (case, _) in enumerate(drawn[:50]):
        path = tmp_path / f"{number}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(case)))
        assert load(path) == case
    assert run(load(path)) == run(case)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Input data was truncated"),
        ("{}", "missing required field `protocol`"),
        ('{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "doughnut"}', "doughnut"),
        ('{"protocol": "gossip", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1"}', "there is no protocol 'gossip'"),
        (
            '{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1", "parameters": {"retry": 1}}',
            "unknown field `retry`",
        ),
        (
            '{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1", "sources": ["h99"]}',
            "source 'h99' is not a host",
        ),
        (
            '{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1", "messages": 0}',
            "there must be at least one",
        ),
        ('{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1", "dead": ["h99"]}', "host 'h99'"),
        ('{"protocol": "basic", "seed": 1, "heal_for_ms": 1, "topology": "figure-3-1", "cut_off": ["s99"]}', "switch 's99'"),
    ],
)
def test_a_bad_case_is_refused_in_a_sentence_that_names_its_file(tmp_path, text, sentence):
    path = tmp_path / "case.json"
    path.write_text(text)
    with pytest.raises(ScenarioError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"case {path}: ")
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_case_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("mutant", "promise"),
    [
        (NeverRepeats, Guarantee.VALIDITY),
        (ForgetsToDeduplicate, Guarantee.NO_DUPLICATION),
        (ForgetsAtRestart, Guarantee.NO_DUPLICATION),
    ],
)
def test_a_broken_protocol_is_caught_and_its_case_made_small(monkeypatch, mutant, promise):
    monkeypatch.setitem(PROTOCOLS, mutant.name, mutant)
    case = next(case for case in within(mutant.name) if promise in broken(run(case).judgement))
    small = shrink(case)
    assert broken(run(small).judgement) & broken(run(case).judgement)
    assert len(small.faults) <= 2 < len(case.faults)
    assert small.messages <= case.messages
    assert len(small.sources) <= len(case.sources)
    if broken(run(small).judgement) <= broken(run(case).judgement):
        assert shrink(small) == small
    assert run(small) == run(small)


def test_a_small_case_breaks_what_the_large_one_broke(monkeypatch):
    monkeypatch.setitem(PROTOCOLS, NeverRepeats.name, NeverRepeats)
    found = ((case, broken(run(case).judgement)) for case in itertools.islice(within(NeverRepeats.name), 30))
    failing = list(itertools.islice(((case, wanted) for case, wanted in found if wanted), 3))
    assert len(failing) == 3
    for case, wanted in failing:
        assert broken(run(shrink(case)).judgement) & wanted


def test_a_case_that_breaks_nothing_stays_as_it_is():
    case = Case(protocol="basic", seed=1, topology="clusters:k=2,size=1,shape=line,delay=1ms", heal_for_ms=1000.0, messages=2)
    assert shrink(case) == case


def test_basic_keeps_its_promises_in_whatever_it_claims_to_survive():
    results = {case.seed: run(case).judgement for case in itertools.islice(within("basic"), 40)}
    assert {seed: judgement.reasons for seed, judgement in results.items() if judgement.verdict == "violated"} == {}
    # Of forty runs, most tell something.
    assert sum(judgement.verdict == "holds" for judgement in results.values()) > 20


def within(protocol):
    """Cases of a protocol that hold nothing beyond what it claims to survive."""
    drawn = (draw_case(protocol, seed)[0] for seed in range(1000))
    return (case for case in drawn if not case.beyond and not case.groups)


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "cases").glob("*.json")), ids=lambda path: path.stem)
def test_cases_that_failed_once_hold_now(path):
    """Shrunk by campaigns; docs/track-record.md says what was wrong."""
    assert run(load(path)).judgement.verdict == "holds"


def test_messages_of_some_cases_go_to_groups_if_the_protocol_knows_them(drawn):
    grouped = [case for case, _ in drawn if case.groups]
    assert len(drawn) / 5 < len(grouped) < len(drawn) / 2
    assert {len(group.members) for case in grouped for group in case.groups} >= {1, 2, 3, 4, 5}
    assert not any(draw_case("cluster-tree", seed)[0].groups for seed in range(DRAWN))


def test_a_protocol_that_says_how_has_little_room_in_some_cases_and_all_else_is_the_same(monkeypatch):
    cases = [draw_case("spo", seed)[0] for seed in range(DRAWN)]
    assert len(cases) / 3 < sum(bool(case.parameters) for case in cases) < 2 * len(cases) / 3
    asked = draw_case("spo", next(case.seed for case in cases if "window" in case.parameters), {"window": 5000})[0]
    assert asked.parameters["window"] == 5000
    monkeypatch.setattr(PROTOCOLS["spo"], "scarce", lambda random, hosts: {})  # noqa: ARG005 - the signature of what it replaces
    roomy = [draw_case("spo", seed)[0] for seed in range(DRAWN)]
    assert [msgspec.structs.replace(case, parameters={}) for case in cases] == roomy


def test_a_case_with_groups_is_refused_for_a_protocol_that_knows_none(tmp_path, drawn):
    grouped = next(case for case, _ in drawn if case.groups)
    path = tmp_path / "case.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(grouped, protocol="cluster-tree", parameters={})))
    with pytest.raises(ScenarioError, match="protocol cluster-tree knows no groups"):
        load(path)


@pytest.mark.parametrize("protocol", ["cluster-tree", "totem", "uniform"])
def test_a_brief_case_has_the_verdict_of_the_whole_one_in_less_time(protocol):
    for seed in range(1, 7):
        whole, brief = (run(draw_case(protocol, seed, brief=brief)[0]) for brief in (False, True))
        assert brief.events < whole.events, seed
        assert brief.judgement.verdict == whole.judgement.verdict, seed
        for promised, finding in brief.judgement.findings.items():
            assert finding.verdict in {whole.judgement.findings[promised].verdict, Verdict.NOT_TESTED}, (seed, promised)


def test_a_brief_case_still_waits_for_messages_that_are_due():
    seed = next(seed for seed in range(1, 100) if seed % 8 and Guarantee.VALIDITY in broken_by(NeverRepeats, seed))
    assert Guarantee.VALIDITY in broken_by(NeverRepeats, seed, brief=True)


def test_one_case_of_a_brief_campaign_in_eight_is_whole():
    brief = [draw_case("basic", seed, brief=True)[0] for seed in range(16)]
    assert [case.brief for case in brief].count(False) == 2
    assert [msgspec.structs.replace(case, brief=False) for case in brief] == [draw_case("basic", seed)[0] for seed in range(16)]


def broken_by(core, seed, *, brief=False):
    case, _ = draw_case("basic", seed, brief=brief)
    return frozenset() if case.beyond else broken(run(case, core).judgement)
