"""P1 to P4 and Q1 to Q3 of the third paper, section 6.3: protocols that keep a bound, protocols broken on purpose, and when a bound binds."""
# ruff: noqa: E501 - one row, one sentence

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import not_tested, unknown
from analysis.judging.history import Recovery, Transit, View, make
from analysis.judging.judge import Verdict, judge
from analysis.judging.properties.timing.bounds import check
from analysis.judging.properties.timing.states import Handling, States, handlings
from hostagent.contract.promises import TimeBound, Timing
from hostagent.protocols.basic import Basic
from tests.analysis import mutants as m
from tests.analysis import plays
from tests.analysis import timed_mutants as t
from tests.analysis.stage import SECOND, Stage, numbered, promise, star

MS = 10**6


def bound(timing, bound_ms, process_ms=1, network_ms=20, **others):
    return TimeBound(timing=Timing(timing), bound_ms=bound_ms, process_ms=process_ms, network_ms=network_ms, **others)


RIGHT = [
    (bound("P1", 10), t.Prompt, plays.quiet_day, 8, 0.0),
    (bound("P2", 30), t.Prompt, plays.quiet_day, 12, 2.0),
    (bound("P3", 50, others=1), t.ByMajority, plays.quiet_day, 12, 4.0),
    (bound("P3", 50, others=1), t.ByMajority, plays.one_is_down, 5, 4.0),
    (bound("P4", 1200), Basic, plays.loss, 2, 544.345136),
    (bound("Q1", 30), m.Relay, plays.source_dies_half_way, 7, 3.0),
    (bound("Q2", 6000), Basic, plays.long_partition, 3, 4343.399587),
    (bound("Q3", 30), t.Chain, plays.from_the_first, 6, 1.0),
]

# fmt: off
BROKEN = [
    (bound("P1", 10), t.SitsOnIt, plays.quiet_day, "h2 delivered message 1 of h1 at 0.501 s, 500.000 ms after h2 received it at 0.001 s; P1 allows 10 ms"),
    (bound("P1", 10), t.ForgetsEverySecond, plays.quiet_day, "h2 never delivered message 2 of h1, though h2 received it at 2.001 s; P1 allows 10 ms"),
    (bound("P1", 10), t.WaitsForTheNext, plays.quiet_day, "h2 delivered message 1 of h1 at 1.000 s, 999.000 ms after h2 received it at 0.001 s; P1 allows 10 ms"),
    (bound("P2", 30), t.SourceDawdles, plays.quiet_day, "h1 delivered message 1 of h1 at 0.200 s, 200.000 ms after h1 broadcast it at 0.000 s; P2 allows 31 ms"),
    (bound("P2", 30), t.SitsOnIt, plays.quiet_day, "h1 delivered message 1 of h1 at 0.500 s, 500.000 ms after h1 broadcast it at 0.000 s; P2 allows 31 ms"),
    (bound("P2", 30), t.LeavesOneOut, plays.quiet_day, "h3 never delivered message 1 of h1, though h1 broadcast it at 0.000 s; P2 allows 31 ms"),
    (bound("P3", 50, others=1), t.NeedsEverybody, plays.one_is_down, "h1 never delivered message 2 of h1, though h1 received it at 2.000 s; P3 allows 50 ms"),
    (bound("P3", 50, others=1), t.SaysItLate, plays.one_is_down, "h1 delivered message 1 of h1 at 0.304 s, 304.000 ms after h1 received it at 0.000 s; P3 allows 50 ms"),
    (bound("P3", 50, others=1), t.TellsNobody, plays.one_is_down, "h2 never delivered message 1 of h1, though h2 received it at 0.001 s; P3 allows 50 ms"),
    (bound("P4", 1200), m.Bare, plays.loss, "h3 never delivered message 1 of h1, though h1 sent it at 0.000 s and the condition of P4 held from 0.000 s on; P4 allows 1200 ms"),
    (bound("P4", 1200), m.StopsRetrying, plays.loss, "h3 never delivered message 1 of h1, though h1 sent it at 0.000 s and the condition of P4 held from 0.000 s on; P4 allows 1200 ms"),
    (bound("P4", 1200), m.TakesOneAckForAll, plays.loss, "h3 never delivered message 1 of h1, though h1 sent it at 0.000 s and the condition of P4 held from 0.000 s on; P4 allows 1200 ms"),
    (bound("Q1", 30), m.SkipsTheRelay, plays.source_dies_half_way, "h3 never delivered message 2 of h1, though h2 delivered it at 1.001 s; Q1 allows 30 ms"),
    (bound("Q1", 30), m.RelaysToTheSource, plays.source_dies_half_way, "h3 never delivered message 2 of h1, though h2 delivered it at 1.001 s; Q1 allows 30 ms"),
    (bound("Q1", 30), m.RelaysOnlyTheFirst, plays.source_dies_half_way, "h3 never delivered message 2 of h1, though h2 delivered it at 1.001 s; Q1 allows 30 ms"),
    (bound("Q2", 6000), m.StopsRetrying, plays.long_partition, "h3 never delivered message 1 of h1, though h1 broadcast it at 0.000 s and the condition of Q2 held from 0.000 s on; Q2 allows 6001 ms"),
    (bound("Q2", 6000), m.GivesUpAfterThree, plays.long_partition, "h3 never delivered message 1 of h1, though h1 broadcast it at 0.000 s and the condition of Q2 held from 3.813 s on; Q2 allows 6001 ms"),
    (bound("Q2", 6000), m.TakesOneAckForAll, plays.long_partition, "h3 never delivered message 1 of h1, though h1 broadcast it at 0.000 s and the condition of Q2 held from 0.000 s on; Q2 allows 6001 ms"),
    (bound("Q3", 30), t.StopsHalfWay, plays.from_the_first, "h3 never delivered message 1 of h1, though h2 delivered it at 0.001 s; Q3 allows 30 ms"),
    (bound("Q3", 30), t.PassesOnTheFirst, plays.from_the_first, "h2 never delivered message 2 of h1, though h1 delivered it at 1.000 s; Q3 allows 30 ms"),
    (bound("Q3", 30), t.PassesOnLate, plays.from_the_first, "h3 delivered message 1 of h1 at 0.202 s, 201.000 ms after h2 delivered it at 0.001 s; Q3 allows 30 ms"),
]
# fmt: on


def judged(asked, stage):
    return check(stage.history(), asked, stage.connectivity())


@pytest.mark.parametrize(("asked", "core", "play", "cases", "longest_ms"), RIGHT)
def test_the_unbroken_protocol_keeps_its_bound_and_the_longest_time_is_told(asked, core, play, cases, longest_ms):
    finding = judged(asked, play(core))
    assert (finding.verdict, finding.cases, finding.longest_ms) == (Verdict.HOLDS, cases, longest_ms)
    assert finding.reason == f"the longest took {longest_ms:.3f} ms of the {finding.bound_ms:g} ms allowed"


@pytest.mark.parametrize(("asked", "core", "play", "sentence"), BROKEN)
def test_a_protocol_broken_on_purpose_is_caught_with_a_counterexample(asked, core, play, sentence):
    stage = play(core)
    finding = judged(asked, stage)
    assert (finding.verdict, finding.reason) == (Verdict.VIOLATED, sentence)
    assert len(finding.events) == 2
    assert finding.longest_ms > finding.bound_ms
    happened = {(at_ns, host, event, origin, sequence) for host, at_ns, event, origin, sequence, _ in stage.events}
    happened |= {(sent.left_ns, sent.sender, "send", sent.origin, sent.sequence) for sent in stage.history().transits}
    for event in finding.events:
        assert (msgspec.structs.astuple(event) in happened) == (event.event != "missing")


def test_every_bound_has_at_least_three_mutants():
    for timing in Timing:
        assert len({core for asked, core, _, _ in BROKEN if asked.timing is timing}) >= 3
        assert timing in {asked.timing for asked, *_ in RIGHT}


@pytest.mark.parametrize(("asked", "core", "play"), [row[:3] for row in BROKEN])
def test_a_damaged_history_and_one_without_datagrams_are_unknown(asked, core, play):
    stage = play(core)
    assert check(stage.history(damage=("cut",)), asked, stage.connectivity()) == unknown("cut")
    silent = stage.history()._replace(transits=None)
    assert check(silent, asked, stage.connectivity()) == unknown(
        "the datagrams between hosts are not known: ./castbed analyse reads them"
    )


@pytest.mark.parametrize("timing", Timing)
def test_a_condition_that_never_came_about_tests_nothing(timing):
    """Nobody but the source, which is cut off and down at once, has anything."""
    stage = Stage(t.Prompt)
    stage.broadcast("h1")
    stage.crash("h1")
    stage.lose()
    stage.run(1)
    history = stage.history()._replace(deliveries=())
    assert check(history, bound(timing, 10, others=1), stage.connectivity()) == not_tested(
        f"the condition of {timing} never came about"
    )


def test_a_judgement_has_a_finding_for_each_bound_by_its_name():
    stage = plays.quiet_day(t.Prompt)
    asked = msgspec.structs.replace(promise(), time_bounds=(bound("P1", 10), bound("P2", 0.5, process_ms=0), bound("Q3", 1)))
    judgement = judge(stage.history(), asked, stage.connectivity())
    assert list(judgement.findings) == ["P1 within 10 ms", "P2 within 0.5 ms", "Q3 within 1 ms"]
    assert (judgement.verdict, judgement.not_tested) == (Verdict.VIOLATED, ("Q3 within 1 ms",))
    assert asked.needs_transits


# When the conditions hold


@pytest.mark.parametrize(("asked", "core", "play"), [row[:3] for row in RIGHT])
def test_nothing_is_judged_where_groups_change(asked, core, play):
    stage = play(core)
    changed = stage.history()._replace(views=(View(0, "h1", 1, 1, ("h1", "h2")),))
    assert check(changed, asked, stage.connectivity()) == not_tested("groups change in this run, and the model has none that do")


def test_a_host_is_not_sent_what_it_overhears_from_a_host_that_is_not_its_parent():
    """h1 sends to a group, and its only child is h2: h3 hears a message that it is to get from h2, which does not pass it on."""
    stage = plays.from_the_first(t.StopsHalfWay)
    sent = (Transit(0, MS, "h1", host, "h1", 1, 0, carries=True, shared=True) for host in ("h2", "h3"))
    history = stage.history()
    history = history._replace(transits=(*sent, *(one for one in history.transits if one.sender != "h1")))
    finding = check(history, bound("P4", 30), stage.connectivity())
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 1)


def test_a_lost_copy_is_absence_of_reach_and_so_no_case_of_p2():
    """The first copy to h3 is lost: h1 and h2 are two cases, h3 is none, although nobody injected a fault."""
    finding = judged(bound("P2", 30), plays.loss(t.Prompt))
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 2)


def test_a_datagram_that_takes_longer_than_phi_n_is_absence_of_reach():
    stage = plays.quiet_day(t.SitsOnIt)
    fast, slow = bound("P2", 30, network_ms=2), bound("P2", 30, network_ms=1.5)
    assert (judged(fast, stage).cases, judged(slow, stage).cases) == (12, 8)


def test_a_host_that_takes_longer_than_phi_p_has_failed():
    """h2 has a message on its link for 5 ms before it marks it as received."""
    broadcast = "h1", 0, "broadcast", "h1", 1, {"to": ["h2"]}
    events = broadcast, ("h2", 6 * MS, "receive", "h1", 1, {}), ("h2", 6 * MS, "deliver", "h1", 1, {})
    transits = (Transit(0, MS, "h1", "h2", "h1", 1, 0, carries=True),)
    history = make(("h1", "h2"), numbered(*events), SECOND, (), transits)
    assert list(handlings(history)) == [Handling(MS, 6 * MS, "h2")]
    for process_ms, verdict in ((5, Verdict.VIOLATED), (4.9, Verdict.NOT_TESTED)):
        asked = bound("P2", 0.5, process_ms=process_ms)
        assert check(history, asked, Connectivity(star(2), (), SECOND)).verdict is verdict


def test_what_arrived_while_the_agent_was_down_was_not_handled():
    events = ("h2", 5 * MS, "start", "", 0, {}), ("h2", 9 * MS, "receive", "h1", 1, {})
    arrivals = [Transit(0, at_ms * MS, "h1", "h2", "h1", 1, 0, carries=True) for at_ms in (3, 8, 11)]
    history = make(("h1", "h2"), numbered(*events), SECOND, (), tuple(arrivals))
    assert list(handlings(history)) == [Handling(8 * MS, 9 * MS, "h2")]


def test_a_host_is_up_when_it_has_recovered_if_its_protocol_says_when_that_is():
    stage = Stage(t.Prompt)
    stage.crash("h3")
    stage.run(1)
    stage.restart("h3")
    stage.run(9)
    history = stage.history()
    for recoveries, since_s in (((), 1), ((Recovery(3 * SECOND, "h3", complete=True),), 3)):
        states = States(history._replace(recoveries=recoveries), stage.connectivity(), bound("P1", 10), 10 * MS)
        assert states.since("h3", "h3", SECOND // 2) == since_s * SECOND + 1
        assert states.since("h1", "h3", SECOND // 2) == SECOND + 1


def test_the_condition_must_hold_for_all_of_the_bound():
    lost = [Transit(at_ms * MS, None, "h1", "h2", "h1", 1, 0, carries=True) for at_ms in (10, 15, 40)]
    history = make(("h1", "h2"), (), SECOND, (), tuple(lost))
    states = States(history, Connectivity(star(2), (), SECOND), bound("P4", 9), 9 * MS)
    told = {from_ms: states.since("h2", "h1", from_ms * MS) / MS for from_ms in (0, 1, 12, 16, 30, 31, 41)}
    assert told == pytest.approx({0: 0, 1: 15, 12: 15, 16: 16, 30: 30, 31: 40, 41: 41}, abs=1e-5)
    assert states.since("h1", "h2", MS) == states.since("h2", "h1", MS)


def test_a_bound_that_the_end_of_the_run_cuts_short_is_no_case():
    stage = Stage(t.ForgetsEverySecond)
    for _ in range(2):
        stage.broadcast("h1")
    stage.run(0.02)
    assert judged(bound("P1", 10), stage).verdict is Verdict.VIOLATED
    finding = judged(bound("P1", 30), stage)
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 2)


def test_who_was_a_parent_for_less_than_the_bound_is_not_asked():
    events = [
        ("h3", 0, "parent", "", 0, {"source": "h1", "parent": "h2"}),
        ("h1", 0, "broadcast", "h1", 1, {}),
        ("h2", MS, "deliver", "h1", 1, {}),
        ("h3", 5 * MS, "parent", "", 0, {"source": "h1", "parent": "h1"}),
    ]
    history = make(("h1", "h2", "h3"), numbered(*events), SECOND, (), ())
    connectivity = Connectivity(star(3), (), SECOND)
    assert check(history, bound("Q3", 4), connectivity).verdict is Verdict.VIOLATED
    assert check(history, bound("Q3", 5), connectivity).verdict is Verdict.NOT_TESTED


def test_a_tree_that_is_not_that_of_the_origin_counts_where_hosts_report_no_other():
    events = [
        ("h3", 0, "parent", "", 0, {"source": "h2", "parent": "h2"}),
        ("h1", 0, "broadcast", "h1", 1, {}),
        ("h2", MS, "deliver", "h1", 1, {}),
    ]
    history = make(("h1", "h2", "h3"), numbered(*events), SECOND, (), ())
    assert check(history, bound("Q3", 4), Connectivity(star(3), (), SECOND)).cases == 1
