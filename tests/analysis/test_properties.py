"""Each checker is shown protocols broken on purpose, and the protocol that they were made from; then histories that say nothing."""

import re

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import not_tested
from analysis.judging.history import History, make
from analysis.judging.judge import CHECKS, ORDER_CHECKS, Verdict, check_of
from hostagent.contract.promises import Carrier, Guarantee, Scope
from hostagent.protocols.basic import Basic
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.uniform import Uniform
from tests.analysis import mutants as m
from tests.analysis import plays
from tests.analysis.cast import BROKEN, CAUSAL, CHECKED, COMMITTED, MULTIPLE_GROUP, MULTIPLE_SOURCE, ORDERS, RIGHT, SINGLE_SOURCE
from tests.analysis.stage import SECOND, Stage, numbered, promise, star
from tests.mutants.parts import NeverSuspects, with_part
from tests.mutants.watchful import ByMajority

G = Guarantee
ABSENCE = re.compile("never delivered|but only")


def judged(guarantee, stage, damage=(), **changes):
    return check_of(guarantee)(stage.history(damage), promised(stage, **changes), stage.connectivity())


def promised(stage, **changes):
    """What the stage is held to; a protocol with a token says which of its kinds of messages that is."""
    return msgspec.structs.replace(promise(**changes), token_kind=getattr(stage.core, "token_kind", None))


@pytest.mark.parametrize(("guarantee", "core", "play"), RIGHT)
def test_the_unbroken_protocol_holds(guarantee, core, play):
    finding = judged(guarantee, play(core))
    assert (finding.verdict, finding.reason, finding.events) == (Verdict.HOLDS, "", ())
    assert finding.cases > 0


@pytest.mark.parametrize(("guarantee", "core", "play", "sentence"), BROKEN)
def test_a_protocol_broken_on_purpose_is_caught_with_a_counterexample(guarantee, core, play, sentence):
    stage = play(core)
    finding = judged(guarantee, stage)
    assert (finding.verdict, finding.reason) == (Verdict.VIOLATED, sentence)
    assert 1 <= len(finding.events) <= 6
    assert finding.cases > 0
    happened = {(at_ns, host, event, origin, sequence) for host, at_ns, event, origin, sequence, _ in stage.events}
    happened |= {(sent.left_ns, sent.sender, "send", sent.origin, sent.sequence) for sent in stage.history().transits}
    for event in finding.events:
        assert (msgspec.structs.astuple(event) in happened) == (event.event != "missing")


@pytest.mark.parametrize(("guarantee", "core", "play", "sentence"), [row for row in BROKEN if not ABSENCE.search(row[3])])
def test_the_events_of_a_counterexample_break_the_promise_by_themselves(guarantee, core, play, sentence):
    stage = play(core)
    whole = stage.history()
    kept = {msgspec.structs.astuple(event) for event in judged(guarantee, stage).events}

    def among(event, marked):
        return tuple(one for one in marked if (one.at_ns, one.host, event, *one.message) in kept)

    alone = whole._replace(
        deliveries=among("deliver", whole.deliveries),
        commits=among("commit", whole.commits),
        taken_back=among("take-back", whole.taken_back),
        samples=tuple(s for s in whole.samples if s.host != "h1" or (s.at_ns, s.host, "sample", "", 0) in kept),
    )
    assert check_of(guarantee)(alone, promised(stage), stage.connectivity()).reason == sentence


def test_every_promise_has_a_checker_and_every_checker_at_least_three_mutants():
    assert list(CHECKS) == list(Guarantee)
    assert list(ORDER_CHECKS) == list(Scope)
    for promised in CHECKED:
        assert len({core for checked, core, _, _ in BROKEN if checked == promised}) >= 3, promised
        assert promised in {checked for checked, _, _ in RIGHT}
    assert {checked for checked, *_ in BROKEN} == {*CHECKED}


@pytest.mark.parametrize("guarantee", CHECKED)
def test_an_empty_history_tests_nothing_and_is_unknown_if_something_is_missing(guarantee):
    empty = History(("h1", "h2"), (), (), SECOND)
    finding = check_of(guarantee)(empty, promise(), Connectivity(star(2)))
    assert (finding.verdict, finding.reason, finding.cases) == (Verdict.NOT_TESTED, "no message was broadcast", 0)
    cut = check_of(guarantee)(empty._replace(damage=("cut",)), promise(), Connectivity(star(2)))
    assert (cut.verdict, cut.reason, cut.cases) == (Verdict.UNKNOWN, "cut", 0)


def test_how_many_cases_each_checker_judges():
    """Two hosts of three broadcast twice each and everything arrives: four messages, twelve deliveries."""
    stage = plays.quiet_day(Basic)
    assert {str(promised): judged(promised, stage).cases for promised in CHECKED} == {
        "no creation": 12,
        "no duplication": 12,
        "validity": 12,
        "agreement": 12,
        "uniform agreement": 12,
        "convergence": 12,
        "progress": 12,
        "one global order": 3,
        "no gaps": 9,
        "same position": 0,
        "rollback discipline": 0,
        "quiescence": 3,
        "bounded memory": 3,
        "cluster tree": 1,
        "failure detection": 0,
        "sending view": 0,
        "view agreement": 0,
        "view convergence": 0,
        "progress in the last view": 1,
        "safe": 1,
        "genuine": 0,
        "one token": 0,
        "single-source order (strict)": 6,
        "causal order (strict)": 9,
        "multiple-source order (strict)": 3,
        "multiple-group order (strict)": 3,
        "multiple-source order (operational)": 3,
        "multiple-source order (rollback)": 3,
        "multiple-source order (strict, of commit)": 0,
    }


@pytest.mark.parametrize(
    ("guarantee", "why"),
    [
        (G.AGREEMENT, "no host was due to deliver a message of another"),
        (G.UNIFORM_AGREEMENT, "no host was due to deliver a message of another"),
        (SINGLE_SOURCE, "no host delivered two messages of one origin"),
        (MULTIPLE_SOURCE, "no two hosts delivered the same two messages of a group"),
        (MULTIPLE_GROUP, "no two hosts delivered the same two messages"),
        (CAUSAL, "no host delivered a message and one that may have caused it"),
        (COMMITTED, "no two hosts committed the same two messages of a group"),
        (G.ACYCLIC_ORDER, "no host delivered two messages that others delivered too"),
        (G.NO_GAPS, "no host delivered two messages of a group"),
        (G.SAME_POSITION, "no two deliveries of one group carried ordinals"),
        (G.ROLLBACK_DISCIPLINE, "nothing was committed, taken back or delivered again"),
        (G.CONVERGENCE, "no two hosts that were connected at the end were due to have the same message"),
        (G.QUIESCENCE, "at the end a host was down or cut off, so there was something left to do"),
        (G.BOUNDED_MEMORY, "at the end a host was down or cut off, so there was something left to do"),
        (G.CLUSTER_TREE, "at the end a host was down or cut off"),
        (G.FAILURE_DETECTION, "nobody was suspected wrongly, and nobody was silent for more than 5 s"),
    ],
)
def test_one_message_that_reaches_nobody_tests_little(guarantee, why):
    stage = Stage(Basic)
    stage.isolate("h1")
    stage.broadcast("h1")
    stage.run(20)
    assert judged(guarantee, stage) == not_tested(why)


def test_what_nobody_delivers_tests_neither_creation_nor_duplication():
    stage = plays.deliver_and_die(m.Bare)
    history = stage.history()._replace(deliveries=())
    for guarantee in (G.NO_CREATION, G.NO_DUPLICATION):
        assert check_of(guarantee)(history, promise(), stage.connectivity()) == not_tested("no message was delivered")


@pytest.mark.parametrize(("guarantee", "core", "play"), RIGHT)
def test_a_damaged_history_is_unknown_even_if_nothing_wrong_is_seen(guarantee, core, play):
    stage = play(core)
    finding = judged(guarantee, stage, damage=("the event log of h2 is cut",))
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, "the event log of h2 is cut")


SHOWN = {
    *(G.NO_DUPLICATION, G.ACYCLIC_ORDER, G.SAME_POSITION, G.ROLLBACK_DISCIPLINE),
    *(G.SENDING_VIEW, G.SAFE, G.GENUINE, G.ONE_TOKEN),
    *ORDERS,
}


@pytest.mark.parametrize(("guarantee", "core", "play", "sentence"), BROKEN)
def test_in_a_damaged_history_what_is_there_counts_and_what_is_missing_does_not(guarantee, core, play, sentence):
    stage = play(core)
    finding = judged(guarantee, stage, damage=("cut",))
    shown = (guarantee in SHOWN and "never" not in sentence) or (
        (guarantee is G.NO_CREATION and ", before h" in sentence) or (guarantee is G.NO_GAPS and "without" not in sentence)
    )
    assert finding.verdict is (Verdict.VIOLATED if shown else Verdict.UNKNOWN)


WITH_PATIENCE = {G.VALIDITY, G.AGREEMENT, G.UNIFORM_AGREEMENT, G.CONVERGENCE, G.PROGRESS, G.QUIESCENCE, G.BOUNDED_MEMORY}
LIVENESS = [row[:3] for row in BROKEN if row[0] in WITH_PATIENCE]


@pytest.mark.parametrize(("guarantee", "core", "play"), LIVENESS)
def test_a_run_that_ends_before_the_patience_is_over_is_unknown_and_tests_no_rest(guarantee, core, play):
    finding = judged(guarantee, play(core), patience_ms=60_000)
    at_rest = guarantee in {G.QUIESCENCE, G.BOUNDED_MEMORY}
    assert finding.verdict is (Verdict.NOT_TESTED if at_rest else Verdict.UNKNOWN)
    assert "too soon" in finding.reason or "the run ended before" in finding.reason


def test_the_sentences_of_runs_that_were_too_short():
    assert judged(G.VALIDITY, plays.loss(m.Bare), patience_ms=20_001).reason == (
        "h3 had not delivered message 1 of h1 when the run ended at 20.000 s: too soon to tell"
    )
    assert judged(G.BOUNDED_MEMORY, plays.many_messages(m.KeepsEverythingForEver), patience_ms=60_000).reason == (
        "h1 kept 21 items at 11.000 s, with nothing left to do, more than the 12 stated, "
        "but the run ended before it had to be at rest, at 60.900 s"
    )


def test_a_truncated_log_in_which_the_end_is_missing_is_not_a_violation():
    stage = plays.loss(Basic)
    stage.events = [event for event in stage.events if event[0] != "h3"]
    finding = check_of(G.VALIDITY)(
        stage.history(damage=("the event log of h3 is damaged from line 1 on",)), promise(), stage.connectivity()
    )
    assert finding.verdict is Verdict.UNKNOWN


def test_a_host_that_stays_away_or_lost_its_storage_is_held_to_nothing():
    for restart in (False, True):
        stage = Stage(Basic)
        stage.crash("h3")
        stage.broadcast("h1")
        stage.run(5)
        if restart:
            stage.restart("h3", storage="lost")
            stage.core = m.Bare
        stage.run(10)
        stage.events = [event for event in stage.events if event[0] != "h3"]
        for guarantee in (G.VALIDITY, G.AGREEMENT, G.UNIFORM_AGREEMENT, G.CONVERGENCE, G.PROGRESS):
            assert judged(guarantee, stage).verdict is Verdict.HOLDS


def test_a_host_without_its_storage_may_deliver_again_but_not_twice_in_one_life():
    stage = Stage(m.ForgetsToDeduplicate)
    stage.broadcast("h1")
    stage.run(1)
    stage.crash("h2")
    stage.restart("h2", storage="lost")
    stage["h2"].core.env.deliver("h1", 1, b"")
    stage["h2"].carry_out()
    stage.run(1)
    assert judged(G.NO_DUPLICATION, stage).verdict is Verdict.HOLDS
    stage["h2"].core.env.deliver("h1", 1, b"")
    stage["h2"].carry_out()
    assert judged(G.NO_DUPLICATION, stage).reason == "h2 delivered message 1 of h1 twice, at 1.000 s and 2.000 s"


def test_source_cut_off_after_partial_broadcast():
    """First paper, section 1: held against a protocol in which all share the responsibility, not against one in which the source has it."""
    stage = Stage(m.Bare)
    stage.broadcast("h1")
    stage.lose("h3")
    stage.run(1)
    stage.isolate("h1")
    stage.run(20)
    assert judged(G.VALIDITY, stage, carrier=Carrier.ORIGIN).verdict is Verdict.HOLDS
    assert judged(G.VALIDITY, stage, carrier=Carrier.ANYONE, patience_ms=500).verdict is Verdict.VIOLATED
    assert judged(G.AGREEMENT, stage).reason.startswith("h3 never delivered message 1 of h1, which h1 delivered at 0.000 s")


def test_a_host_that_delivers_alone_and_dies_owes_nothing_to_those_it_could_not_reach():
    stage = Stage(m.DeliversAtOnce)
    stage.isolate("h1")
    stage.broadcast("h1")
    stage.run(1)
    stage.crash("h1")
    stage.run(20)
    assert judged(G.UNIFORM_AGREEMENT, stage).verdict is Verdict.NOT_TESTED


def test_with_a_host_down_for_good_nobody_has_to_come_to_rest():
    stage = Stage(Basic)
    stage.crash("h3")
    stage.broadcast("h1")
    stage.run(60)
    for guarantee in (G.QUIESCENCE, G.BOUNDED_MEMORY):
        finding = judged(guarantee, stage)
        assert finding == not_tested("at the end a host was down or cut off, so there was something left to do")


def test_a_stated_background_is_let_pass_and_more_is_not():
    stage = plays.many_messages(m.ChattersForEver)
    assert judged(G.QUIESCENCE, stage, background=10).verdict is Verdict.HOLDS
    assert judged(G.QUIESCENCE, stage, background=7).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("guarantee", "core", "of_all", "of_each", "kept", "broken"),
    [
        (G.QUIESCENCE, m.ChattersForEver, "background_per_second", "background_per_source", 10.0, 7.0),
        (G.BOUNDED_MEMORY, m.KeepsEverythingForEver, "retained", "retained_per_source", 21, 20),
    ],
)
def test_what_is_stated_for_each_source_counts_for_those_that_broadcast(guarantee, core, of_all, of_each, kept, broken):
    stage = plays.many_messages(core)
    for stated, verdict in ((kept, Verdict.HOLDS), (broken, Verdict.VIOLATED)):
        asked = msgspec.structs.replace(promise(), **{of_all: 0, of_each: stated})
        assert check_of(guarantee)(stage.history(), asked, stage.connectivity()).verdict is verdict


def test_without_samples_rest_is_unknown():
    stage = plays.many_messages(Basic)
    stage.events = [event for event in stage.events if event[2] != "sample"]
    assert judged(G.QUIESCENCE, stage).reason == (
        "after the last broadcast or fault there are too few samples of h3, 0; a rate takes two"
    )
    assert judged(G.BOUNDED_MEMORY, stage).reason == "h3 was not sampled after the last broadcast or fault"


def test_a_silence_or_a_suspicion_that_lasts_to_the_end_and_not_for_long_enough_is_unknown():
    silent, wrong = Stage(with_part(LazyReliable, "detector", NeverSuspects)), Stage(LazyReliable)
    for stage in (silent, wrong):
        stage.broadcast("h1")
        stage.run(1)
    silent.crash("h3")
    wrong.isolate("h3")
    for stage in (silent, wrong):
        stage.run(4)
    wrong.rejoin("h3")
    wrong.in_flight.clear()
    assert judged(G.FAILURE_DETECTION, silent).reason == (
        "h1 did not suspect h3, which was silent from 1.000 s to 5.000 s: too soon to tell"
    )
    wrong.now_s += 0.5
    assert judged(G.FAILURE_DETECTION, wrong).reason == (
        "h3 suspected h2 from 5.000 s to 5.500 s, though both ran and were connected: too soon to tell"
    )


def test_who_starts_again_may_take_its_time_anew_to_suspect_and_who_was_down_itself_saw_no_silence():
    stage = Stage(with_part(LazyReliable, "detector", NeverSuspects))
    stage.broadcast("h1")
    stage.crash("h3")
    for _ in range(3):
        stage.run(4)
        for host in ("h1", "h2"):
            stage.crash(host)
            stage.restart(host)
    stage.restart("h3")
    stage.run(1)
    assert judged(G.FAILURE_DETECTION, stage).verdict is Verdict.NOT_TESTED
    assert judged(G.FAILURE_DETECTION, stage, patience_ms=3000).verdict is Verdict.VIOLATED


def left_alone(core, *, cut_off):
    """h1 and h2 have the message and die; h3, perhaps cut off meanwhile, does not, and lives on."""
    stage = Stage(core)
    if cut_off:
        stage.isolate("h3")
    stage.broadcast("h1")
    stage.lose("h3")
    for _ in range(4):
        stage.hand_over()
        stage.lose("h3")
    stage.crash("h1")
    stage.crash("h2")
    if cut_off:
        stage.rejoin("h3")
    stage.run(30)
    return stage


@pytest.mark.parametrize("cut_off", [False, True])
def test_with_a_detector_a_message_is_owed_to_all_that_are_not_suspected_connected_or_not(cut_off):
    held_to = promise_of(Uniform)
    for core, verdict in ((Uniform, Verdict.NOT_TESTED), (ByMajority, Verdict.VIOLATED)):
        stage = left_alone(core, cut_off=cut_off)
        assert check_of(G.UNIFORM_AGREEMENT)(stage.history(), held_to, stage.connectivity()).verdict is verdict


def test_who_is_suspected_wrongly_is_not_owed_what_dead_hosts_delivered():
    stage = left_alone(ByMajority, cut_off=True)
    suspicion = ("h1", 0, "suspect", "", 0, {"host": "h3"}), ("h2", 0, "suspect", "", 0, {"host": "h3"})
    for known, verdict in ((suspicion[:1], Verdict.VIOLATED), (suspicion, Verdict.NOT_TESTED)):
        history = make(stage.hosts, numbered(*known, *stage.events), stage.now_ns, ())
        assert check_of(G.UNIFORM_AGREEMENT)(history, promise_of(Uniform), stage.connectivity()).verdict is verdict


def promise_of(core):
    """What a core promises, with the patience of the stage."""
    return msgspec.structs.replace(core.promise(core.Parameters(), 3), patience_ms=5000.0)


def to_a_group(*delivered):
    """h1 broadcasts to h1 and h2 of three hosts, and some hosts deliver."""
    events = (("h1", 0, "broadcast", "h1", 1, {"group": 1, "to": ["h1", "h2"]}),)
    events += tuple((host, 1000, "deliver", "h1", 1, {}) for host in delivered)
    return make(("h1", "h2", "h3"), numbered(*events), 60 * SECOND, ())


def test_messages_to_a_group_are_owed_to_its_members_only_and_created_elsewhere():
    network = Connectivity(star(3), ended_ns=60 * SECOND)
    for guarantee in (G.VALIDITY, G.AGREEMENT, G.UNIFORM_AGREEMENT, G.CONVERGENCE, G.PROGRESS):
        for_all, lacking = to_a_group("h1", "h2"), to_a_group("h1")
        assert CHECKS[guarantee](for_all, promise(), network).verdict == Verdict.HOLDS
        assert CHECKS[guarantee](lacking, promise(), network).reason.startswith("h2 never delivered message 1 of h1")
    outside = CHECKS[G.NO_CREATION](to_a_group("h1", "h3"), promise(), network)
    assert outside.reason == "h3 delivered message 1 of h1 at 0.000 s, which h1 broadcast at 0.000 s to other hosts only"


def test_a_protocol_that_stops_for_good_converges_and_makes_no_progress():
    stage = plays.source_crashes(m.AllAck)
    assert judged(G.CONVERGENCE, stage).verdict is Verdict.NOT_TESTED
    assert judged(G.PROGRESS, stage).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("quorum", "verdict"), [(2, Verdict.VIOLATED), (3, Verdict.NOT_TESTED)])
def test_where_fewer_hosts_are_connected_than_a_protocol_needs_nothing_is_due(quorum, verdict):
    """h3 is cut off for good; of h1 and h2, only h1 has its message."""
    stage = Stage(m.StopsRetrying)
    stage.isolate("h3")
    stage.broadcast("h1")
    stage.lose()
    stage.run(20)
    needs = msgspec.structs.replace(promise(), quorum=quorum)
    for guarantee in (G.CONVERGENCE, G.PROGRESS):
        assert check_of(guarantee)(stage.history(), needs, stage.connectivity()).verdict is verdict
