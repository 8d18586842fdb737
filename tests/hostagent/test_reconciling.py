"""One order out of several histories (third paper, sections 7.1.1 and 7.3), with the paper's own example."""

import msgspec
import pytest

from hostagent.contract.messages import LISTED, host_set, hosts_in
from hostagent.protocols.propagation_graph.reconciling import (
    Entry,
    Groups,
    Report,
    diverges_at,
    first_plan,
    for_host,
    make_plan,
    merged,
    rightful,
)

HOSTS = ("a", "b", "c", "d", "e")
ALPHA, BETA, GAMMA = 1, 2, 3
MEMBERS = {ALPHA: "abcde", BETA: "cde", GAMMA: "ab"}


def entry(group, number):
    """The n-th message to a group, of a source of its own."""
    origin = {ALPHA: "a", BETA: "c", GAMMA: "b"}[group]
    return Entry(group, origin, number, host_set(MEMBERS[group], HOSTS), b"payload")


A1, A2, A3 = (entry(ALPHA, number) for number in (1, 2, 3))
B1, B2, B3 = (entry(BETA, number) for number in (1, 2, 3))
G1 = entry(GAMMA, 1)


def report(*entries, accepted=0, members="abcde", lacking=(), wishes=None, forgotten=(), recovering=()):
    groups = {group: host_set(hosts, HOSTS) for group, hosts in MEMBERS.items()}
    passed = {one.flow: one.sequence for one in (*forgotten, *entries)}
    return Report(
        accepted,
        host_set(members, HOSTS),
        Groups(groups, dict.fromkeys(groups, 0)),
        list(passed.items()),
        list(entries),
        list(lacking),
        wishes or {},
        host_set(recovering, HOSTS),
    )


def plan(graph=5, *, keeps_for_all=False, **reports):
    return make_plan(graph, reports, HOSTS, keeps_for_all=keeps_for_all)


# Figure 7.1: c has failed. a and b have alpha-3, which d and e lack; d has beta-1, which e lacks.
FIGURE_7_1 = {
    "a": report(A1, G1, A2, A3),
    "b": report(A1, G1, A2, A3),
    "d": report(A1, A2, B1),
    "e": report(A1, A2),
}


def test_the_survivors_of_figure_7_1_get_what_others_have_in_an_order_that_suits_all():
    """Section 7.1.1: d and e must deliver alpha-3 and e must deliver beta-1; d has delivered beta-1, so e delivers it before alpha-3."""
    made = plan(**FIGURE_7_1)
    assert [one.message for one in made.order] == [B1.message, A3.message]
    assert hosts_in(made.members, HOSTS) == ("a", "b", "d", "e")
    assert dict(made.passed) == {A1.flow: 3, B1.flow: 1, G1.flow: 1}


def test_what_only_the_failed_host_delivered_is_not_part_of_the_order():
    """Figure 7.3: nobody knows of beta-2 and beta-3, which c delivered; their source submits them again."""
    made = plan(**FIGURE_7_1)
    assert B2.message not in [one.message for one in made.order]
    assert dict(made.passed)[B1.flow] == 1


def test_a_host_that_recovers_with_rollback_keeps_what_fits_and_takes_back_the_tail():
    """Figure 7.4: c delivered beta-2, alpha-3, beta-3; the others delivered alpha-3, beta-2, beta-3."""
    delivered, order = [A1, A2, B1, B2, A3, B3], [B1, A3, B2, B3]
    passed = {A1.flow: 3, B1.flow: 3}
    right = rightful("d", delivered, order, passed, HOSTS)
    assert right == [A1, A2, B1, A3, B2, B3]
    assert delivered[diverges_at(delivered, right) :] == [B2, A3, B3]
    assert diverges_at(order, rightful("d", order, order, passed, HOSTS)) == len(order)


def test_a_message_that_nobody_else_knows_is_taken_back_and_one_that_everybody_has_is_not():
    assert rightful("d", [A1, A2], [], {A1.flow: 1}, HOSTS) == [A1]
    assert rightful("d", [A1, A2], [], {A1.flow: 2}, HOSTS) == [A1, A2]
    assert diverges_at([A1, A2], [A1]) == 1
    assert diverges_at([A1, A2], [A1, A2]) == 2


def test_a_message_that_everybody_has_is_delivered_again_if_it_is_taken_back_with_one_before_it():
    """Nobody else knows beta-1, and all have alpha-1."""
    assert rightful("d", [B1, A1], [A2], {A1.flow: 2}, HOSTS) == [A1, A2]


def test_a_message_that_everybody_has_comes_before_one_that_was_lost_and_passed_on_again():
    """Others have beta-1 of the same graph before alpha-1, or of a later graph after it."""
    again, passed = msgspec.structs.replace(B1, graph=5), {A1.flow: 1, B1.flow: 1}
    assert rightful("d", [G1, B1, A1], [B1], passed, HOSTS) == [B1, A1]
    assert rightful("d", [G1, B1, A1], [again], passed, HOSTS) == [A1, again]


def test_a_message_that_everybody_has_keeps_its_side_of_those_that_another_host_has_too():
    """Host c delivered beta, gamma, alpha. Host a has gamma before alpha too; beta and gamma are both for c only."""
    beta, gamma, alpha = (
        Entry(LISTED, "a", number, host_set(to, HOSTS), b"") for number, to in ((1, "ce"), (2, "ac"), (3, "abc"))
    )
    passed = {one.flow: one.sequence for one in (beta, gamma, alpha)}
    assert rightful("c", [beta, gamma, alpha], [alpha, beta], passed, HOSTS) == [gamma, alpha, beta]
    assert rightful("c", [beta, gamma, alpha], [beta, alpha], passed, HOSTS) == [beta, gamma, alpha]


def test_what_every_host_that_stays_has_is_dropped_unless_it_is_kept_for_those_who_failed():
    reports = {host: report(A1) for host in "abd"}
    assert plan(**reports).order == []
    assert plan(keeps_for_all=True, **reports).order == [A1]
    assert plan(keeps_for_all=True, **{host: report(A1) for host in HOSTS}).order == []


def test_a_plan_continues_the_highest_one_that_was_accepted():
    """Host b has accepted a plan that the others know nothing of: it may have counted, so it stands, and c, not in it, has failed."""
    reports = {"a": report(A1, A2), "b": report(A2, A1, accepted=3, members="ab", lacking=[0, 1]), "c": report(A1)}
    made = plan(**reports)
    assert [one.message for one in made.order] == [A2.message, A1.message]
    assert hosts_in(made.recovering, HOSTS) == ("c",)


def test_a_host_that_was_in_the_plan_but_has_not_accepted_it_has_not_failed():
    reports = {"a": report(accepted=3, members="abc"), "b": report(A1), "c": report(accepted=3, members="abc")}
    assert hosts_in(plan(**reports).recovering, HOSTS) == ()


def test_a_message_that_was_accepted_and_not_delivered_is_still_owed():
    reports = {host: report(A1, accepted=3, lacking=[0] if host == "d" else ()) for host in HOSTS}
    assert plan(**reports).order == [A1]


def test_wishes_come_true_except_that_of_a_last_member_to_leave():
    reports = {host: report() for host in HOSTS}
    reports["d"] = report(wishes={GAMMA: True})
    reports["a"] = report(wishes={GAMMA: False})
    made = plan(**reports)
    assert hosts_in(made.groups.members[GAMMA], HOSTS) == ("b", "d")
    assert made.groups.since == {ALPHA: 0, BETA: 0, GAMMA: 5}
    alone = {host: report(wishes={GAMMA: False}) for host in ("a", "b")} | {"c": report()}
    assert hosts_in(plan(**alone).groups.members[GAMMA], HOSTS) == ("b",)


def test_a_host_is_sent_only_the_payloads_that_it_lacks():
    made = plan(**FIGURE_7_1)
    assert [one.payload for one in for_host(made, FIGURE_7_1["d"]).order] == [None, b"payload"]
    assert [one.payload for one in for_host(made, FIGURE_7_1["e"]).order] == [b"payload", b"payload"]


@pytest.mark.parametrize("order", [(A1, B1, A2), (B1, A1, A2), (A1, A2, B1)])
def test_every_history_is_a_part_of_the_merged_order(order):
    reports = {"a": report(*(one for one in order if one.group == ALPHA)), "c": report(*order), "d": report(*order[:2])}
    assert merged(reports, HOSTS, forgets_in_order=True) == list(order)


@pytest.mark.parametrize("keeps_for_all", [False, True])
def test_a_host_that_has_forgotten_a_settled_message_does_not_lack_it(keeps_for_all):
    """All have alpha-1; a and d know, e does not. d has delivered beta-2 before alpha-2, so e, which lacks both, must do the same."""
    reports = {
        "a": report(A2, forgotten=[A1]),
        "b": report(A2, forgotten=[A1]),
        "c": report(B1, B2, forgotten=[A1]),
        "d": report(B1, B2, A2, forgotten=[A1]),
        "e": report(A1, B1),
    }
    assert [one.message for one in plan(**reports, keeps_for_all=keeps_for_all).order] == [B2.message, A2.message]


def test_reports_that_contradict_each_other_still_give_an_order():
    reports = {"a": report(A1, A2), "b": report(A2, A1)}
    assert {one.message for one in merged(reports, HOSTS, forgets_in_order=True)} == {A1.message, A2.message}


@pytest.mark.parametrize("shown", [(B1,), ()])
def test_where_hosts_roll_back_what_a_host_has_forgotten_comes_before_all_that_it_shows_or_lacks(shown):
    """Host d has forgotten alpha-1, which a still shows, and had it before beta-1."""
    reports = {"c": report(B1, forgotten=[A1]), "d": report(*shown, forgotten=[A1]), "a": report(A1)}
    assert merged(reports, HOSTS, forgets_in_order=True) == [A1, B1]
    assert merged(reports, HOSTS, forgets_in_order=False) == [B1, A1]


def test_messages_to_the_same_listed_hosts_are_a_flow_of_their_own():
    one, other = (Entry(LISTED, "a", 1, host_set(to, HOSTS), b"") for to in ("ab", "cd"))
    assert one.flow != other.flow
    assert entry(ALPHA, 1).flow == entry(ALPHA, 2).flow


def test_the_first_plan_has_all_hosts_and_the_groups_of_the_run():
    first = first_plan(HOSTS, {0: HOSTS, GAMMA: ("a", "b")})
    assert hosts_in(first.members, HOSTS) == HOSTS
    assert list(first.groups.members) == [GAMMA]


@pytest.mark.parametrize("e", [report(A1), report(A1, A2, accepted=2, recovering="e")], ids=["has-not-heard", "has-not-begun"])
def test_a_host_that_was_to_recover_with_the_last_plan_and_has_not_begun_recovers_with_the_next_one(e):
    others = {host: report(A1, A2, A3, accepted=2, recovering="e") for host in "abd"}
    assert hosts_in(plan(**others, e=e).recovering, HOSTS) == ("e",)
    assert not hosts_in(plan(**others, e=report(A1, A2, A3, accepted=2)).recovering, HOSTS)
