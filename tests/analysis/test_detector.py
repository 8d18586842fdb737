"""The figures of a failure detector, from suspicions and faults made by hand."""

import pytest

from analysis.figures.detection import described_detection, detection
from analysis.judging.connectivity import Connectivity
from analysis.judging.history import Suspicion, make
from runfiles.format import FaultRecord
from tests.analysis.stage import SECOND, numbered, star

HOSTS = ("h1", "h2", "h3")


def fault(kind: str, target: str, at_s: float, **details: object) -> FaultRecord:
    return FaultRecord(fault=kind, target=target, asked_ns=round(at_s * SECOND), applied_ns=round(at_s * SECOND), details=details)


def figures(events, *faults, ended_s=100):
    logged = [(host, round(at_s * SECOND), event, "", 0, details) for at_s, host, event, details in events]
    history = make(HOSTS, numbered(*logged), ended_s * SECOND, ())
    return detection(history, faults, Connectivity(star(3), faults, ended_s * SECOND))


def suspect(at_s, host, suspected):
    return at_s, host, "suspect", {"host": suspected}


def trust(at_s, host, trusted):
    return at_s, host, "trust", {"host": trusted}


def start(at_s, host):
    return at_s, host, "start", {"incarnation": 1}


def test_where_nobody_was_suspected_there_are_no_figures():
    assert figures([start(0, "h1")], fault("crash", "h2", 5)) is None


def test_a_crash_is_noticed_by_each_host_after_its_own_time():
    found = figures([suspect(12, "h1", "h3"), suspect(14, "h2", "h3")], fault("crash", "h3", 10))
    assert [(crash.host, crash.after_ms) for crash in found.crashes] == [("h3", {"h1": 2000.0, "h2": 4000.0})]
    assert (found.detection_ms_p50, found.detection_ms_max) == (3000.0, 4000.0)
    assert (found.false_suspicions, found.wrongly_suspected_ms) == (0, 0.0)
    assert described_detection(found) == "crashes noticed in 3.0 s, at most 4.0; 0 wrong suspicions, 0.0 s"


def test_a_crash_that_nobody_noticed_before_the_restart_is_not_noticed_later():
    found = figures([suspect(15, "h1", "h3")], fault("crash", "h3", 10), fault("restart", "h3", 11))
    assert found.crashes[0].after_ms == {}
    assert found.detection_ms_p50 is None
    assert found.false_suspicions == 1


def test_a_second_crash_is_one_of_its_own_and_one_of_a_dead_host_is_none():
    faults = (fault("crash", "h3", 10), fault("crash", "h3", 11), fault("restart", "h3", 20), fault("crash", "h3", 30))
    found = figures([suspect(13, "h1", "h3"), trust(21, "h1", "h3"), suspect(34, "h1", "h3")], *faults)
    assert [crash.after_ms for crash in found.crashes] == [{"h1": 3000.0}, {"h1": 4000.0}]


def test_a_host_that_was_suspected_before_it_crashed_was_not_noticed_to_crash():
    found = figures([suspect(8, "h1", "h3")], fault("crash", "h3", 10))
    assert found.crashes[0].after_ms == {}
    assert (found.false_suspicions, found.wrongly_suspected_ms) == (1, 2000.0)


def test_a_suspicion_of_a_host_that_runs_and_is_connected_is_wrong_until_it_is_taken_back():
    found = figures([suspect(10, "h1", "h2"), trust(13, "h1", "h2"), suspect(90, "h2", "h1")])
    assert (found.crashes, found.false_suspicions, found.wrongly_suspected_ms) == ((), 2, 13_000.0)
    assert described_detection(found) == "no crash noticed; 2 wrong suspicions, 13.0 s"


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        (fault("pause", "h3", 10), fault("resume", "h3", 20)),
        (fault("link-down", "s0-s3", 10), fault("link-up", "s0-s3", 20)),
    ],
)
def test_a_suspicion_of_a_host_that_is_paused_or_cut_off_is_not_wrong_but_gets_wrong_when_that_is_over(broken, mended):
    found = figures([suspect(15, "h1", "h3"), trust(21, "h1", "h3")], broken, mended)
    assert (found.crashes, found.false_suspicions, found.wrongly_suspected_ms) == ((), 0, 1000.0)


def test_a_host_that_starts_again_suspects_nobody():
    events = [suspect(10, "h1", "h2"), start(20, "h1")]
    logged = [(host, round(at_s * SECOND), event, "", 0, more) for at_s, host, event, more in events]
    history = make(HOSTS, numbered(*logged), SECOND, ())
    assert history.suspicions == (Suspicion(10 * SECOND, "h1", "h2", True), Suspicion(20 * SECOND, "h1", "h2", False))
