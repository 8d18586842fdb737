"""How long a fault was felt: until nobody lacks a message, and until the tree or ring stands."""

import dataclasses

import pytest

from analysis.judging.healing import healings, told
from analysis.judging.history import BroadcastEvent, Delivery, History, TokenChange
from runfiles.format import FaultRecord
from runfiles.reading import load
from tests.analysis.synthetic import NETWORK, honest

SECOND = 10**9
HOSTS = NETWORK.hosts


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load(honest().write(tmp_path_factory.mktemp("healing") / "run"))


def fault(kind, target, at_s):
    at_ns = round(at_s * SECOND)
    return FaultRecord(fault=kind, target=target, asked_ns=at_ns, applied_ns=at_ns)


def history(late, count=20, ended_s=10, **more):
    """A message of h1 every tenth of a second that takes a millisecond, but for those in `late`: message, host, and seconds or None."""
    sent = {number: number * SECOND // 10 for number in range(count)}
    broadcasts = tuple(BroadcastEvent(at_ns, "h1", number) for number, at_ns in sent.items())
    found = []
    for number, at_ns in sent.items():
        for host in HOSTS:
            seconds = late.get((number, host), 0.001)
            if seconds is not None:
                found.append(Delivery(at_ns + round(seconds * SECOND), host, "h1", number))
    return History(HOSTS, broadcasts, tuple(sorted(found)), ended_s * SECOND, **more)


def healed(run, faults, happened):
    found = healings(dataclasses.replace(run, faults=tuple(faults)), happened)
    return [(one.cause, one.caught_up_ns, one.stands_ns) for one in found]


def test_a_fault_that_nobody_feels_takes_no_time(run):
    assert healed(run, [fault("link-down", "s1-s2", 0.55)], history({})) == [("link-down s1-s2", 0, None)]


def test_it_lasts_until_the_last_late_message_is_delivered(run):
    late = {(6, "h4"): 0.5, (7, "h4"): 0.2}
    ((_, caught_up_ns, _),) = healed(run, [fault("link-down", "s1-s2", 0.55)], history(late))
    assert caught_up_ns == pytest.approx((0.6 + 0.5 - 0.55) * SECOND)


def test_what_is_not_over_by_the_next_fault_is_counted_from_that(run):
    faults = [fault("link-down", "s1-s2", 0.55), fault("link-up", "s1-s2", 0.95)]
    down, up = healed(run, faults, history({(6, "h4"): 0.5}))
    assert down[1] is None
    assert up[1] == pytest.approx((1.1 - 0.95) * SECOND)


def test_a_message_that_is_never_delivered_is_lacked_to_the_end(run):
    assert healed(run, [fault("link-down", "s1-s2", 0.55)], history({(6, "h4"): None})) == [("link-down s1-s2", None, None)]


def test_hosts_that_are_down_lack_nothing_until_they_are_back(run):
    late = {(number, "h4"): None for number in range(6, 20)}
    assert healed(run, [fault("crash", "h4", 0.55)], history(late)) == [("crash h4", 0, None)]
    crash, restart = healed(run, [fault("crash", "h4", 0.55), fault("restart", "h4", 1.05)], history(late))
    assert (crash[1], restart[1]) == (0, None)


def test_what_died_with_its_source_is_lacked_by_nobody(run):
    late = {(19, host): None for host in HOSTS if host != "h1"}
    assert healed(run, [fault("crash", "h1", 1.9)], history(late)) == [("crash h1", 0, None)]


def test_a_ring_stands_when_the_token_has_been_round(run):
    token = [TokenChange(round(0.1 * n * SECOND), HOSTS[n % 4], 1, held=True) for n in range(4)]
    after = [TokenChange(round((1 + 0.1 * n) * SECOND), HOSTS[n], 2, held=True) for n in range(3)]
    happened = history({}, tokens=(*token, *after))
    assert healed(run, [fault("crash", "h4", 0.55)], happened) == [("crash h4", 0, round(0.65 * SECOND))]
    assert healed(run, [fault("crash", "h3", 0.55)], happened) == [("crash h3", 0, None)], "h4 never held it"


def test_times_are_told_in_words():
    assert [told(None), told(0), told(0, "stood"), told(1_500_000_000)] == ["did not", "at once", "stood", "1,500 ms"]
