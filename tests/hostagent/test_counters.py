"""Counters in a shared file."""

import os
import signal

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import REASONS
from hostagent.runtime import counters
from hostagent.runtime.counters import NAMES, open_counters, read_counters


def test_all_start_at_zero(tmp_path):
    open_counters(tmp_path / "c")
    assert read_counters(tmp_path / "c") == dict.fromkeys(NAMES, 0)


def test_there_is_one_for_every_purpose_and_every_reason_to_refuse():
    assert {NAMES[counters.SENT_FOR[purpose]] for purpose in Purpose} == {"sent_data", "sent_repair", "sent_control"}
    assert {NAMES[counters.REFUSED[reason]] for reason in REASONS} == {f"refused_{reason}" for reason in REASONS}
    assert len(set(NAMES)) == len(NAMES)


def test_anybody_may_look_while_they_count(tmp_path):
    counts, _ = open_counters(tmp_path / "c")
    counts[counters.RECEIVED] += 1
    assert read_counters(tmp_path / "c")["received"] == 1
    counts[counters.RECEIVED] += 2**40
    assert read_counters(tmp_path / "c")["received"] == 2**40 + 1


def test_a_killed_process_loses_nothing_and_the_next_goes_on(tmp_path):
    for total in (3, 6):
        pid = os.fork()
        if pid == 0:
            counts, _ = open_counters(tmp_path / "c")
            for _ in range(3):
                counts[counters.DELIVERED] += 1
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert read_counters(tmp_path / "c") == dict.fromkeys(NAMES, 0) | {"delivered": total}
