"""Hosts that a majority treats as failed (third paper, section 7.3): what is forgiven them, and what is due to those who start over."""

import msgspec
import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.history import make
from analysis.judging.judge import Verdict, check_of
from hostagent.contract.promises import Guarantee, Order, Scope, Strength
from tests.analysis.stage import promise, star

HOSTS = ("h1", "h2", "h3")
S = 1_000_000_000
ONE, OTHER = ("h1", 1), ("h2", 1)
OPERATIONAL, ROLLBACK, STRICT = (
    Order(Scope.MULTIPLE_GROUP, strength) for strength in (Strength.OPERATIONAL, Strength.ROLLBACK, Strength.STRICT)
)


def history(*lines):
    """h1 delivers one message and then the other; h2 and h3 the other way round, and later."""
    events = [
        (0, "h1", "broadcast", ONE, {}),
        (0, "h2", "broadcast", OTHER, {}),
        (1, "h1", "deliver", ONE, {}),
        (2, "h1", "deliver", OTHER, {}),
        *((5 + at, host, "deliver", message, {}) for host in ("h2", "h3") for at, message in ((0, OTHER), (1, ONE))),
        *lines,
    ]
    ordered = sorted(events, key=lambda event: event[0])
    logged = (
        (host, place, round(at * S), event, *message, details)
        for place, (at, host, event, message, details) in enumerate(ordered)
    )
    return make(HOSTS, logged, 60 * S, damage=())


def excluded(at, by=("h2", "h3"), host="h1"):
    nobody = ("", 0)
    return [
        (at, by[0], "excluded", nobody, {"host": host, "graph": 3}),
        *((at, other, "accepted", nobody, {"graph": 3}) for other in by),
    ]


def failed(at, host="h1"):
    return at, host, "failed", ("", 0), {}


def verdict(promised, told, **changes):
    return check_of(promised)(told, msgspec.structs.replace(promise(), **changes), Connectivity(star(3), ended_ns=60 * S)).verdict


def test_what_a_host_delivered_before_it_was_excluded_may_differ():
    assert verdict(OPERATIONAL, history()) is Verdict.VIOLATED
    assert (
        verdict(OPERATIONAL, history(*excluded(3))) is Verdict.HOLDS
        or verdict(OPERATIONAL, history(*excluded(3))) is Verdict.NOT_TESTED
    )
    assert verdict(STRICT, history(*excluded(3))) is Verdict.VIOLATED


def test_an_exclusion_by_a_minority_forgives_nothing():
    assert verdict(OPERATIONAL, history(*excluded(3, by=("h2",)))) is Verdict.VIOLATED


def test_what_it_delivers_after_it_knows_must_be_in_order():
    assert verdict(OPERATIONAL, history(*excluded(0.2), failed(0.5))) is Verdict.VIOLATED
    assert verdict(OPERATIONAL, history(*excluded(0.2), failed(3))) is not Verdict.VIOLATED


def test_what_the_excluding_host_delivers_at_the_same_instant_comes_after_the_exclusion():
    """In a simulation a manager excludes a host and delivers what it lacks in one step, which takes no time."""
    assert verdict(OPERATIONAL, history(*excluded(5))) is not Verdict.VIOLATED
    assert verdict(OPERATIONAL, history(*excluded(5.5))) is Verdict.VIOLATED


def test_what_others_delivered_before_the_exclusion_is_not_forgiven():
    assert verdict(OPERATIONAL, history(*excluded(8))) is Verdict.VIOLATED


def test_with_rollback_a_host_that_is_back_must_have_put_it_right():
    assert verdict(ROLLBACK, history(*excluded(3), failed(10))) is Verdict.VIOLATED
    again = [(11, "h1", "take-back", message, {}) for message in (OTHER, ONE)]
    again += [(12, "h1", "deliver", OTHER, {}), (13, "h1", "deliver", ONE, {})]
    assert verdict(ROLLBACK, history(*excluded(3), failed(10), *again)) is Verdict.HOLDS


@pytest.mark.parametrize("guarantee", [Guarantee.CONVERGENCE, Guarantee.PROGRESS])
def test_to_a_host_that_starts_over_only_what_is_sent_afterwards_is_due(guarantee):
    late = ("h2", 2)
    sent = [(20, "h2", "broadcast", late, {}), *((21, host, "deliver", late, {}) for host in ("h2", "h3"))]
    missed = [(4, "h2", "broadcast", ("h2", 3), {}), *((6, host, "deliver", ("h2", 3), {}) for host in ("h2", "h3"))]
    recovered = (15, "h1", "recovered", ("", 0), {})
    assert verdict(guarantee, history(*missed)) is Verdict.VIOLATED
    assert verdict(guarantee, history(*missed, recovered), starts_over=True) is Verdict.HOLDS
    assert verdict(guarantee, history(*missed, recovered)) is Verdict.VIOLATED
    assert verdict(guarantee, history(*missed, recovered, *sent), starts_over=True) is Verdict.VIOLATED


def test_what_was_taken_back_for_good_need_not_be_delivered_elsewhere():
    only = [(3, "h3", "broadcast", ("h3", 1), {}), (4, "h3", "deliver", ("h3", 1), {})]
    assert verdict(Guarantee.CONVERGENCE, history(*only)) is Verdict.VIOLATED
    assert verdict(Guarantee.CONVERGENCE, history(*only, (9, "h3", "take-back", ("h3", 1), {}))) is Verdict.HOLDS


def test_a_host_that_starts_over_is_a_new_site_whose_order_begins_there():
    told = history(*excluded(1.2), failed(1.5), (1.5, "h1", "recovered", ("", 0), {}))
    assert verdict(OPERATIONAL, told) is Verdict.VIOLATED
    assert verdict(OPERATIONAL, told, starts_over=True) is not Verdict.VIOLATED
    assert verdict(ROLLBACK, told, starts_over=True) is Verdict.VIOLATED
