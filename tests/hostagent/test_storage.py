"""Stable storage: whatever is cut off, and wherever, the store and the event log tell the same story."""

import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.contract import events as events_of
from hostagent.contract.events import Event, committed
from hostagent.runtime import storage
from hostagent.runtime.storage import Storage
from tests.hostagent.arbitrary import unhurried


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "h1.storage", tmp_path / "h1.jsonl"


def commit(kept: Storage, sequence: int, lines: int = 1, **values: object) -> None:
    """Store values, and log so many deliveries of one message."""
    stored = {key: None if value is None else msgspec.msgpack.encode(value) for key, value in values.items()}
    kept.commit(stored, [Event(at_ns=sequence, event="deliver", origin="h1", sequence=sequence)] * lines)


def values(kept: Storage) -> dict[str, object]:
    return {key: msgspec.msgpack.decode(value) for key, value in kept.values.items()}


def logged(log: Path) -> list[int]:
    """What a reader believes of a log."""
    return [msgspec.json.decode(line, type=Event).sequence for line in committed(log.read_bytes()).lines]


def test_what_was_committed_is_there_after_a_restart(files):
    commit(Storage(*files), 1, name="value", number=5, raw=b"\x00", nested=[1, [2]])
    assert values(Storage(*files)) == {"name": "value", "number": 5, "raw": b"\x00", "nested": [1, [2]]}
    assert logged(files[1]) == [1]


def test_a_value_of_none_forgets(files):
    kept = Storage(*files)
    commit(kept, 1, gone=1, stays=2)
    commit(kept, 2, gone=None, never_there=None)
    assert values(kept) == values(Storage(*files)) == {"stays": 2}


def test_a_commit_of_nothing_writes_nothing(files):
    kept = Storage(*files)
    before = [file.stat().st_size for file in files]
    kept.commit({}, [])
    assert [file.stat().st_size for file in files] == before


COMMITS = (
    (2, {"a": 1}),
    (1, {}),
    (3, {"a": None, "b": "x" * 40}),
    (0, {"b": 7}),
    (1, {"b": [1, 2], "c": b"y"}),
)
"""Lines and values of each."""


def journal(files: tuple[Path, Path]) -> list[tuple[int, int, dict[str, object], list[int]]]:
    """Make the commits; the length of both files at every byte that is written, with the values and lines that are committed then."""
    kept = Storage(*files)
    moments = [(files[0].stat().st_size, 0, {}, [])]
    for number, (lines, stored) in enumerate(COMMITS, start=1):
        store, log, *before = moments[-1]
        commit(kept, number, lines, **stored)
        grown = [file.stat().st_size for file in files]
        moments += [(length, log, *before) for length in range(store + 1, grown[0] + 1)]
        moments += [(grown[0], length, *before) for length in range(log + 1, grown[1] + 1)]
        moments[-1] = (*grown, values(kept), [*before[1], *[number] * lines])
    return moments


def test_both_files_cut_at_any_byte_come_back_as_one_of_the_commits(files, tmp_path):
    """Every pair of lengths that a SIGKILL can leave, and what a reader of the log believes before the restart and after it."""
    moments = journal(files)
    store, log = (file.read_bytes() for file in files)
    cut_files = tmp_path / "cut.storage", tmp_path / "cut.jsonl"
    for store_length, log_length, stored, lines in moments:
        cut_files[0].write_bytes(store[:store_length])
        cut_files[1].write_bytes(log[:log_length])
        assert logged(cut_files[1]) == lines
        kept = Storage(*cut_files)
        assert values(kept) == stored
        assert logged(cut_files[1]) == lines
        kept.close()


@pytest.mark.parametrize("kept", [True, False])
def test_both_files_cut_anywhere_never_lose_a_line_that_was_believed(files, tmp_path, kept):
    """Also pairs that no SIGKILL leaves. Where the storage is lost, or there is no restart, the reader still sees whole commits only."""
    journal(files)
    store, log = (file.read_bytes() for file in files)
    cut_files = tmp_path / "cut.storage", tmp_path / "cut.jsonl"
    whole = [[n for n, (lines, _) in enumerate(COMMITS[:end], start=1) for _ in range(lines)] for end in range(6)]
    random = Random(1)
    for log_length in range(len(log) + 1):
        cut_files[0].unlink(missing_ok=True)
        if kept:
            cut_files[0].write_bytes(store[: random.randrange(len(store) + 1)])
        cut_files[1].write_bytes(log[:log_length])
        believed = logged(cut_files[1])
        assert believed in whole
        restarted = Storage(*cut_files)
        assert logged(cut_files[1]) == believed
        commit(restarted, 99, 2, more=1)
        assert logged(cut_files[1]) == [*believed, 99, 99]
        restarted.close()


def test_a_record_or_a_commit_with_a_flipped_bit_is_not_believed(files):
    journal(files)
    store, log = (bytearray(file.read_bytes()) for file in files)
    store[-1] ^= 1
    files[0].write_bytes(store)
    assert "c" not in Storage(*files).values
    last = bytes(log).rindex(b'"sequence":5')
    log[last + len('"sequence":')] ^= 1
    assert committed(bytes(log)).damaged
    assert committed(bytes(log)).length == bytes(log).rindex(b"\n", 0, last) + 1


def test_lines_of_older_versions_are_each_a_commit():
    log = b'{"at_ns":1,"event":"start"}\n{"at_ns":2,"event":"stop"}\n'
    assert committed(log) == (log.splitlines(), len(log), False)
    assert committed(log + b'{"at_ns":3') == (log.splitlines(), len(log), True)


def test_details_that_look_like_the_marks_of_a_commit_are_details():
    events = [Event(at_ns=1, event="odd", details={"left": 1, "sum": 5}), Event(at_ns=2, event="even", details={"sum": 5})]
    log = events_of.commit(events)
    assert [msgspec.json.decode(line, type=Event) for line in committed(log).lines] == events


def test_a_store_that_has_grown_is_rewritten_with_the_same_contents(files, monkeypatch):
    monkeypatch.setattr(storage, "_SMALLEST_REWRITE", 1000)
    kept = Storage(*files)
    for sequence in range(1, 201):
        commit(kept, sequence, last=sequence, text="x" * 50, **{f"key{sequence % 3}": sequence})
        assert files[0].stat().st_size < 1000 + 100
    assert values(Storage(*files)) == {"last": 200, "text": "x" * 50, "key0": 198, "key1": 199, "key2": 200}
    assert logged(files[1]) == list(range(1, 201))


def test_a_store_with_much_to_say_is_not_rewritten_all_the_time(files, monkeypatch):
    monkeypatch.setattr(storage, "_SMALLEST_REWRITE", 1000)
    kept = Storage(*files)
    commit(kept, 1, text="x" * 5000)
    inodes = set()
    for sequence in range(2, 102):
        commit(kept, sequence, last=bytes(200))
        inodes.add(files[0].stat().st_ino)
    assert len(inodes) <= 3


KEYS = st.sampled_from(["a", "b", "c/1"])
VALUES = st.none() | st.integers(0, 2**63) | st.binary(max_size=5) | st.lists(st.integers(0, 9), max_size=3)


@unhurried
@given(st.lists(st.none() | st.dictionaries(KEYS, VALUES, min_size=1), max_size=12))
def test_it_is_a_dictionary_that_survives_restarts(tmp_path_factory, steps):
    """None stands for a restart."""
    folder = tmp_path_factory.mktemp("storage")
    kept, plain = Storage(folder / "s", folder / "l"), {}
    for step in steps:
        if step is None:
            kept.close()
            kept = Storage(folder / "s", folder / "l")
            continue
        commit(kept, 1, **step)
        plain = {key: value for key, value in (plain | step).items() if value is not None}
        assert values(kept) == plain
    kept.close()


@contextmanager
def room_for(size: int):
    """A disk on which no file gets longer than this; Python turns the signal that goes with it into an OSError."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_at_any_byte_raises_and_the_last_commit_stands(files):
    commit(Storage(*files), 1, name="old")
    store, log = (file.read_bytes() for file in files)
    commit(Storage(*files), 2, name="new")
    enough = max(file.stat().st_size for file in files)
    for size in range(len(store), enough):
        files[0].write_bytes(store)
        files[1].write_bytes(log)
        kept = Storage(*files)
        with room_for(size), pytest.raises(OSError, match="File too large"):
            commit(kept, 2, name="new")
        assert values(Storage(*files)) == {"name": "old"}
        assert logged(files[1]) == [1]


def test_a_disk_without_room_for_a_rewrite_keeps_the_old_store(files):
    commit(Storage(*files), 1, name="x" * 100)
    with room_for(50), pytest.raises(OSError, match="File too large"):
        Storage(*files)
    assert values(Storage(*files)) == {"name": "x" * 100}


def commit_for_ever(files: tuple[Path, Path]) -> None:
    """What the checks below expect: as many lines in the log as `count` says, numbered from 1; `even` there when it is even."""
    storage._SMALLEST_REWRITE = 3000
    kept = Storage(*files)
    while True:
        count = values(kept).get("count", 0) + 1
        commit(kept, count, count=count, even="x" * (count % 2000) if count % 2 == 0 else None)


def test_a_process_killed_at_any_moment_leaves_both_files_consistent(files):
    random = Random(4)
    for _ in range(40):
        enough = files[1].stat().st_size + random.randrange(20_000) if files[1].exists() else 1
        pid = os.fork()
        if pid == 0:
            try:
                commit_for_ever(files)
            finally:
                os._exit(1)
        while not (files[1].exists() and files[1].stat().st_size >= enough):
            assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        believed = logged(files[1])
        kept = values(Storage(*files))
        assert believed == logged(files[1]) == list(range(1, kept.get("count", 0) + 1))
        assert ("even" in kept) == (kept.get("count", 1) % 2 == 0)
    assert kept["count"] > 1000
