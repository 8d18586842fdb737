"""The logs of a run while agents write them, are killed in the middle of a commit, and start again."""

from types import SimpleNamespace

import msgspec

from hostagent.contract.events import Event, commit
from hostagent.runtime.storage import Storage
from runfiles.event_logs import read_log
from testbed.running.growing_logs import EventLogs


def deliveries(*numbers):
    return [Event(at_ns=number, event="deliver", origin="h1", sequence=number) for number in numbers]


def test_a_log_that_is_cut_back_at_a_restart_is_read_on_and_every_event_once(tmp_path):
    files = tmp_path / "h1.storage", tmp_path / "h1.jsonl"
    logs = EventLogs(SimpleNamespace(event_logs=lambda: [("h1", files[1])]))
    seen, reference = [], 0
    for lost in (False, True) * 3:
        unfinished = commit(deliveries(*[1000] * 3))
        for cut in (1, len(unfinished) // 2, len(unfinished) - 1):
            kept = Storage(*files)
            reference += 1
            kept.commit({"last": msgspec.msgpack.encode(reference)}, deliveries(reference, reference))
            kept.close()
            with files[1].open("ab") as log:
                log.write(unfinished[:cut])
            seen += [event.sequence for _, event in logs.news()]
            assert read_log("h1", files[1]).problem == ""
            if lost:
                files[0].unlink()
    assert seen == [number for number in range(1, reference + 1) for _ in range(2)]
    assert [event.sequence for _, event in read_log("h1", files[1]).events] == seen


def test_a_commit_that_is_damaged_is_told_and_nothing_from_there_on_is_believed(tmp_path):
    log = tmp_path / "h1.jsonl"
    log.write_bytes(commit(deliveries(1, 2)) + commit(deliveries(3)).replace(b"3", b"4", 1) + commit(deliveries(5)))
    read = read_log("h1", log)
    assert [event.sequence for _, event in read.events] == [1, 2]
    assert read.problem == "the event log of h1 is damaged from line 3 on"
