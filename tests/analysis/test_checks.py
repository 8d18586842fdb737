"""Each check is first shown a history that breaks the promise."""

from analysis.checks import PATIENCE_NS, Finding, Verdict, check, conclude, no_creation, no_duplication, validity
from analysis.history import Broadcast, Delivery, History

B = Broadcast(100, "h1", 1)
BOTH = (Delivery(100, "h1", "h1", 1), Delivery(200, "h2", "h1", 1))
LONG = 100 + PATIENCE_NS


def history(broadcasts=(B,), deliveries=BOTH, ended_ns=LONG, damage=()) -> History:
    return History(("h1", "h2"), tuple(broadcasts), tuple(deliveries), ended_ns, damage)


def test_everything_holds_in_a_history_that_keeps_every_promise():
    findings = check(history(), ("no creation", "no duplication", "validity"))
    assert {finding.verdict for finding in findings.values()} == {Verdict.HOLDS}
    assert conclude(findings, []) == (Verdict.HOLDS, ())


def test_a_delivery_without_a_broadcast_is_creation():
    finding = no_creation(history(deliveries=(*BOTH, Delivery(300, "h2", "h1", 7))))
    assert finding == Finding(Verdict.VIOLATED, "h2 delivered message 7 of h1, which h1 never broadcast")


def test_a_delivery_before_its_broadcast_is_creation():
    finding = no_creation(history(deliveries=(Delivery(99, "h2", "h1", 1), *BOTH)))
    assert finding.verdict is Verdict.VIOLATED
    assert "before h1 broadcast it" in finding.reason


def test_a_second_delivery_is_duplication_even_at_the_same_instant():
    for later_ns in (0, 1_000_000):
        finding = no_duplication(history(deliveries=(*BOTH, Delivery(200 + later_ns, "h2", "h1", 1))))
        assert finding.verdict is Verdict.VIOLATED
        assert finding.reason.startswith("h2 delivered message 1 of h1 twice")


def test_a_delivery_that_never_came_breaks_validity():
    finding = validity(history(deliveries=BOTH[:1]))
    assert finding.verdict is Verdict.VIOLATED
    assert finding.reason == "h2 had not delivered message 1 of h1 10.0 s after it was broadcast, when the run ended"


def test_a_run_that_ended_too_soon_leaves_validity_unknown():
    assert validity(history(deliveries=BOTH[:1], ended_ns=LONG - 1)).verdict is Verdict.UNKNOWN


def test_nothing_is_concluded_from_an_absence_in_a_damaged_history():
    damaged = history(broadcasts=(), deliveries=BOTH[:1], damage=("the event log of h2 is damaged",))
    findings = check(damaged, ("no creation", "no duplication", "validity"))
    assert {finding.verdict for finding in findings.values()} == {Verdict.UNKNOWN}


def test_what_a_damaged_history_does_show_counts():
    damaged = history(deliveries=(*BOTH, BOTH[1]), damage=("the event log of h2 is damaged",))
    assert check(damaged, ("no duplication",))["no duplication"].verdict is Verdict.VIOLATED


def test_an_empty_history_is_unknown_and_so_is_a_promise_without_a_check():
    assert check(history((), ()), ("validity",))["validity"].verdict is Verdict.UNKNOWN
    assert check(history(), ("total order",))["total order"].verdict is Verdict.UNKNOWN


def test_only_what_is_declared_is_checked():
    assert check(history(deliveries=()), ("no creation",)) == {"no creation": Finding(Verdict.HOLDS)}


def test_a_violation_outweighs_doubt_and_doubt_outweighs_the_rest():
    violated, unknown = Finding(Verdict.VIOLATED, "v"), Finding(Verdict.UNKNOWN, "u")
    assert conclude({"a": unknown, "b": violated}, ["d"]) == (Verdict.VIOLATED, ("v",))
    assert conclude({"a": unknown, "b": unknown}, ["d"]) == (Verdict.UNKNOWN, ("u", "d"))
    assert conclude({}, ["d"]) == (Verdict.UNKNOWN, ("d",))
