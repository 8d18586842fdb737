"""Views and safe delivery, on histories made by hand: who is asked, and who is not."""

from itertools import chain
from operator import itemgetter

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import not_tested
from analysis.judging.history import make
from analysis.judging.judge import CHECKS, Verdict
from hostagent.contract.promises import Guarantee, Step
from runfiles.format import FaultRecord
from tests.analysis import group_mutants as g
from tests.analysis import plays
from tests.analysis.stage import SECOND, Stage, numbered, promise, star

G = Guarantee
ALL = ("h1", "h2", "h3")
MS = 10**6


def sent(host, at_ms, sequence=1, to=ALL, group=1):
    return host, at_ms * MS, "broadcast", host, sequence, {"group": group, "to": list(to)}


def mark(host, at_ms, event="deliver", origin="h1", sequence=1):
    return host, at_ms * MS, event, origin, sequence, {}


def view(host, at_ms, number, members=ALL, group=1):
    return host, at_ms * MS, "view", "", 0, {"group": group, "view": number, "members": list(members)}


def asked(host, at_ms, event="join", group=1):
    return host, at_ms * MS, event, "", 0, {"group": group}


def judged(guarantee, *events, hosts=4, faults=(), ended_s=20, **changes):
    history = make(tuple(f"h{n}" for n in range(1, hosts + 1)), numbered(*events), ended_s * SECOND, ())
    held_to = msgspec.structs.replace(promise(), **changes)
    return CHECKS[guarantee](history, held_to, Connectivity(star(hosts), faults, ended_s * SECOND))


def test_a_message_from_outside_the_group_was_sent_in_no_view():
    events = view("h2", 0, 1, ("h2", "h3")), sent("h1", 1, to=("h2", "h3")), mark("h2", 2)
    assert judged(G.SENDING_VIEW, *events).verdict is Verdict.NOT_TESTED
    inside = view("h2", 0, 1, ("h2", "h3")), sent("h3", 1, to=("h2", "h3")), mark("h2", 2, origin="h3")
    assert judged(G.SENDING_VIEW, *inside).reason == (
        "h2 delivered message 1 of h3 at 0.001 s in view 1 of group 1, but h3 sent it at 0.000 s in view 0"
    )


def test_a_host_that_has_left_may_deliver_what_was_sent_before():
    events = sent("h1", 1), view("h2", 2, 1, ("h1", "h3")), mark("h2", 3)
    assert judged(G.SENDING_VIEW, *events).verdict is Verdict.NOT_TESTED


def test_the_views_of_other_groups_do_not_count():
    events = view("h2", 0, 1, group=2), sent("h1", 1), mark("h2", 2)
    assert judged(G.SENDING_VIEW, *events) == not_tested("no member delivered a message to a group whose view changed")


def test_who_comes_new_did_not_see_the_view_before():
    """h4 installs view 1 as the others do, but was no member of the initial view."""
    old = [view(host, 5, 1, (*ALL, "h4")) for host in (*ALL, "h4")]
    events = sent("h1", 1), *(mark(host, 2) for host in ALL), *old
    finding = judged(G.VIEW_AGREEMENT, *events)
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 3)


def test_views_agree_on_what_is_for_both_hosts():
    """A message that was broadcast in an earlier view is for the members of that view."""
    events = sent("h1", 1, to=("h1", "h2")), *(view(host, 2, 1) for host in ALL), mark("h1", 3), mark("h2", 3)
    later = [view(host, 5, 2) for host in ALL]
    assert judged(G.VIEW_AGREEMENT, *events, *later).verdict is Verdict.HOLDS
    assert "but only h1 delivered message 1 of h1" in judged(G.VIEW_AGREEMENT, *events[:-1], *later).reason


def test_views_agree_on_what_was_not_taken_back():
    events = sent("h1", 1), mark("h1", 1), mark("h2", 2), mark("h2", 3, "take-back"), view("h1", 5, 1), view("h2", 5, 1)
    assert judged(G.VIEW_AGREEMENT, *events).reason == (
        "h1 and h2 both went from view 0 to view 1 of group 1, at 0.004 s and 0.004 s, "
        "but only h1 delivered message 1 of h1 in between, at 0.000 s"
    )
    for at_ms in (3, 4):
        again = *events[:4], mark("h2", at_ms), *events[4:]
        assert judged(G.VIEW_AGREEMENT, *again).verdict is Verdict.HOLDS


def test_installing_the_same_view_again_after_a_restart_is_no_new_view():
    events = (
        *(view(host, 0, 1) for host in ALL),
        sent("h1", 1),
        *(mark(host, 2) for host in ALL),
        view("h2", 3, 1),
        *(view(host, 5, 2) for host in ALL),
    )
    finding = judged(G.VIEW_AGREEMENT, *events)
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 3)


def test_views_that_follow_others_are_not_compared():
    """h2 misses view 1, so what it delivered between 0 and 2 is nobody else's business."""
    events = sent("h1", 1), mark("h1", 1), view("h1", 2, 1), view("h1", 3, 2), mark("h2", 2), view("h2", 3, 2)
    assert judged(G.VIEW_AGREEMENT, *events).verdict is Verdict.NOT_TESTED


def test_views_may_take_the_patience_of_the_protocol_to_converge():
    stage = plays.joins(g.IgnoresRequests)
    for patience_ms, verdict, end in ((13_000, Verdict.VIOLATED, "14.000 s"), (13_001, Verdict.UNKNOWN, "too soon to tell")):
        finding = CHECKS[G.VIEW_CONVERGENCE](stage.history(), promise(patience_ms), stage.connectivity())
        assert finding.verdict is verdict
        assert finding.reason.endswith(end)


def test_without_requests_or_with_a_host_away_views_need_not_converge():
    assert judged(G.VIEW_CONVERGENCE, sent("h1", 1)) == not_tested("no host asked to join or to leave a group")
    stage = Stage(g.Synchronous, 4, members={1: ALL})
    stage.broadcast("h2", to=1)
    stage.crash("h3")
    stage.join("h4", 1)
    stage.run(10)
    finding = CHECKS[G.VIEW_CONVERGENCE](stage.history(), promise(), stage.connectivity())
    assert finding == not_tested("at the end a host was down or cut off")


def test_the_last_request_of_a_host_counts():
    events = sent("h1", 0), asked("h3", 1, "leave"), asked("h3", 2), *(view(host, 3, 2) for host in ALL)
    assert judged(G.VIEW_CONVERGENCE, *events).verdict is Verdict.HOLDS
    others = *events[:3], *(view(host, 3, 2, ("h1", "h2")) for host in ("h1", "h2"))
    assert judged(G.VIEW_CONVERGENCE, *others).reason == (
        "h1 had view 2 of group 1 with h1, h2, though h3 asked to join at 0.002 s, when the run ended at 20.000 s"
    )


def test_a_member_that_never_asked_must_not_vanish_from_the_view():
    events = sent("h1", 0), asked("h4", 1), *(view(host, 3, 1, ("h1", "h2", "h4")) for host in ("h1", "h2", "h4"))
    assert "h1 had view 1 of group 1 with h1, h2, h4, without h3," in judged(G.VIEW_CONVERGENCE, *events).reason


def test_who_left_and_joined_again_before_any_view_was_installed_is_still_a_member():
    elsewhere = sent("h2", 0, group=2)
    events = elsewhere, asked("h1", 1, "leave"), asked("h1", 2)
    assert judged(G.VIEW_CONVERGENCE, *events).verdict is Verdict.HOLDS
    assert judged(G.VIEW_CONVERGENCE, *events, view("h2", 3, 1)).reason.startswith("h1 had no view of group 1,")
    assert judged(G.VIEW_CONVERGENCE, elsewhere, asked("h1", 2)).reason.startswith("h1 had no view of group 1,")


def test_safe_is_about_commits_where_a_protocol_says_so():
    for core, verdict in ((g.CommitsWhatIsSafe, Verdict.HOLDS), (g.CommitsAfterOne, Verdict.VIOLATED)):
        stage = plays.last_first(core)
        held_to = msgspec.structs.replace(promise(), safe_at=Step.COMMIT)
        finding = CHECKS[G.SAFE](stage.history(), held_to, stage.connectivity())
        assert finding.verdict is verdict
        assert CHECKS[G.SAFE](stage.history(), promise(), stage.connectivity()).verdict is Verdict.VIOLATED
    assert finding.reason == "h1 committed message 3 of h1 at 0.002 s, but h2 received it only at 0.005 s"
    assert [event.event for event in finding.events] == ["commit", "receive"]


def test_who_never_received_a_message_keeps_it_from_being_safe_unless_the_view_has_gone_on_without_it():
    events = sent("h1", 1), mark("h1", 1, "receive"), mark("h2", 2, "receive"), mark("h1", 5)
    assert judged(G.SAFE, *events).reason == "h1 delivered message 1 of h1 at 0.004 s, but h3 never received it"
    gone = *events[:3], view("h1", 4, 1, ("h1", "h2")), mark("h1", 5)
    finding = judged(G.SAFE, *gone)
    assert (finding.verdict, finding.cases) == (Verdict.HOLDS, 1)


def test_a_message_to_its_origin_alone_tests_no_safety():
    assert judged(G.SAFE, sent("h1", 1, to=("h1",)), mark("h1", 2)).verdict is Verdict.NOT_TESTED


def test_the_times_of_a_host_whose_clock_was_set_back_do_not_count_for_safety():
    events = sent("h1", 1), mark("h1", 2), mark("h2", 9, "receive"), mark("h3", 1, "receive"), mark("h2", 3)
    assert judged(G.SAFE, *events).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("guarantee", [G.GENUINE, G.ONE_TOKEN])
def test_without_a_record_of_datagrams_their_promises_are_unknown(guarantee):
    assert judged(guarantee, sent("h1", 1)).reason == "the datagrams between hosts are not known: ./castbed analyse reads them"


def test_another_generation_is_another_token_and_a_crash_takes_a_token_along():
    stage = Stage(g.Ring)
    stage.broadcast("h1")
    stage.run(1)
    holder = next(host for host in stage.hosts if stage[host].core.token and "core/on" in stage[host].timers)
    stage.crash(holder)
    other = stage["h1" if holder != "h1" else "h2"]
    generation = other.core.token.generation + 1
    for number, verdict in ((generation, Verdict.HOLDS), (generation - 1, Verdict.VIOLATED)):
        other.core.hold(g.Token(0, other.host, 0, number, 99))
        other.carry_out()
        assert CHECKS[G.ONE_TOKEN](stage.history(), promise(), stage.connectivity()).verdict is verdict


def held(host, generation, since_ms, until_ms=None):
    yield host, since_ms * MS, "token", "", 0, {"generation": generation, "held": True}
    if until_ms is not None:
        yield host, until_ms * MS, "token", "", 0, {"generation": generation, "held": False}


@pytest.mark.parametrize(
    ("turns", "longest_ms"),
    [
        ((held("h1", 1, 0, 10), held("h2", 2, 10, 20)), None),
        ((held("h1", 1, 0, 25), held("h2", 2, 10, 20)), 15.0),
        # The older token is on its way for a while, and the third generation begins later than the second.
        ((held("h1", 1, 0, 5), held("h2", 2, 10, 20), held("h3", 3, 30, 40), held("h3", 1, 50, 60)), 50.0),
        # A token dies with its owner.
        ((held("h4", 1, 0), held("h2", 2, 10, 20)), 2.0),
        ((held("h4", 1, 0), held("h2", 2, 15, 20)), None),
    ],
)
def test_how_long_a_token_lives_beside_one_of_a_later_generation_is_told(turns, longest_ms):
    events = sorted((sent("h1", 0), *chain(*turns)), key=itemgetter(1))
    history = make(("h1", "h2", "h3", "h4"), numbered(*events), SECOND, (), ())
    crash = FaultRecord(fault="crash", target="h4", asked_ns=12 * MS, applied_ns=12 * MS)
    connectivity = Connectivity(star(4), [crash], SECOND)
    finding = CHECKS[G.ONE_TOKEN](history, promise(), connectivity)
    told = f"a token lived for up to {longest_ms:.3f} ms beside one of a later generation" if longest_ms else ""
    assert (finding.verdict, finding.longest_ms, finding.reason) == (Verdict.HOLDS, longest_ms, told)
    # Rings that split each have a token.
    splits = msgspec.structs.replace(promise(), guarantees=(G.VIEW_PROGRESS,))
    assert CHECKS[G.ONE_TOKEN](history, splits, connectivity).longest_ms is None


def test_a_line_about_a_token_without_a_generation_is_the_protocols_own():
    history = make(("h1",), numbered(("h1", 0, "token", "h1", 1, {"group": 1})), SECOND, ())
    assert history.tokens == ()


def test_only_what_is_broadcast_in_the_last_view_is_due_to_others():
    """h2 lacks a message of the view before the last, and then one of the last."""
    views = [view(host, 5, 1, ALL, group=0) for host in ALL]
    before = sent("h1", 1, to=("h1", "h2"), group=0), mark("h1", 1), *views
    after = sent("h1", 6, 2, group=0), mark("h1", 6, sequence=2), mark("h3", 6, sequence=2)
    assert judged(G.VIEW_PROGRESS, *before, hosts=3).verdict is Verdict.HOLDS
    assert judged(G.VIEW_PROGRESS, *before, *after, hosts=3).reason == (
        "h2 never delivered message 2 of h1, which h1 broadcast at 0.005 s in its last view, until the end at 19.999 s, "
        "long after the last fault"
    )
    assert judged(G.VIEW_PROGRESS, *before, *after, hosts=3, quorum=4).verdict is Verdict.NOT_TESTED
    assert judged(G.VIEW_PROGRESS, *before, *after, hosts=3, patience_ms=30_000.0).verdict is Verdict.UNKNOWN
