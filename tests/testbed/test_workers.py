"""Work in several processes: the same results in the same order, and an end that leaves no process behind."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.errors import CannotRun
from testbed.running.workers import spread
from tests.testbed.conftest import castbed, environment


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_items(jobs):
    assert list(spread(math.sqrt, range(50), jobs)) == [math.sqrt(number) for number in range(50)]


def test_nothing_to_do_starts_no_process():
    assert list(spread(os._exit, [], 2)) == []


def test_what_a_worker_raises_is_raised_here():
    with pytest.raises(ValueError, match="math domain error"):
        list(spread(math.sqrt, [4, -1, 9], 2))


def test_a_worker_that_is_killed_is_told_in_a_sentence():
    with pytest.raises(CannotRun, match="a worker process was killed"):
        list(spread(os._exit, [0], 1))


def test_a_caller_that_stops_early_does_not_wait_for_the_rest():
    results = spread(time.sleep, [0.0, *[3600.0] * 4], 2)
    next(results)
    results.close()


def test_jobs_are_for_this_machine():
    with pytest.raises(CannotRun, match="--jobs is for the cores of this machine"):
        spread(math.sqrt, [1], 2, lambda: pytest.fail("Spark must not be started"))


def test_a_campaign_says_the_same_with_any_number_of_workers():
    words = ("campaign", "--protocol", "best-effort", "--schedules", "30", "--json")
    one, three = castbed(*words, "--jobs", "1"), castbed(*words, "--jobs", "3")
    assert one.returncode == three.returncode == 0, one.stderr
    assert json.loads(one.stdout)["cases"] == 30
    # A set of pairs is told in no order.
    assert in_order(one) == in_order(three)


def in_order(done):
    told = json.loads(done.stdout)
    return {**told, "pairs": sorted(told["pairs"])}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_campaign_that_is_ended_leaves_no_worker_and_no_traceback(number, status):
    """Ctrl-C as a terminal does it: every process of the group gets the signal. A kill is for the command alone."""
    words = (sys.executable, "-m", "testbed", "campaign", "--protocol", "best-effort", "--schedules", "100000", "--jobs", "2")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True) as process:
        # The command, the tracker and the server of multiprocessing, and two workers.
        while len(group(process.pid)) < 5:
            assert process.poll() is None
            time.sleep(0.05)
        (os.kill if number == signal.SIGKILL else os.killpg)(process.pid, number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == status, told
    assert "Traceback" not in told
    deadline = time.monotonic() + 30
    while group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert group(process.pid) == []


def group(number):
    """The living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(process_group) == number and state != "Z":
            found.append(stat.parent.name)
    return found
