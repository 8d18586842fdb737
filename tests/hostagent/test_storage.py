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

from hostagent.contract.events import Event
from hostagent.runtime import storage
from hostagent.runtime.storage import Storage
from tests.hostagent.arbitrary import unhurried


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "h1.storage", tmp_path / "h1.jsonl"


def commit(kept: Storage, sequence: int, **values: object) -> None:
    for key, value in values.items():
        kept.put(key, value)
    kept.log(Event(at_ns=sequence, event="deliver", origin="h1", sequence=sequence))
    kept.commit()


def logged(log: Path) -> list[int]:
    return [msgspec.json.decode(line, type=Event).sequence for line in log.read_bytes().splitlines()]


def test_what_was_committed_is_there_after_a_restart(files):
    commit(Storage(*files), 1, name="value", number=5, raw=b"\x00", nested=[1, [2]])
    kept = Storage(*files)
    assert kept.values == {"name": "value", "number": 5, "raw": b"\x00", "nested": [1, [2]]}
    assert logged(files[1]) == [1]


def test_what_was_not_committed_is_gone(files):
    kept = Storage(*files)
    commit(kept, 1, name="old")
    kept.put("name", "new")
    kept.log(Event(at_ns=2, event="deliver"))
    assert Storage(*files).values == {"name": "old"}
    assert logged(files[1]) == [1]


def test_closing_commits(files):
    kept = Storage(*files)
    kept.put("name", "value")
    kept.close()
    assert Storage(*files).values == {"name": "value"}


def test_a_value_of_none_forgets(files):
    kept = Storage(*files)
    commit(kept, 1, gone=1, stays=2)
    commit(kept, 2, gone=None, never_there=None)
    assert kept.values == Storage(*files).values == {"stays": 2}


def test_a_commit_of_nothing_writes_nothing(files):
    kept = Storage(*files)
    before = [file.stat().st_size for file in files]
    kept.commit()
    assert [file.stat().st_size for file in files] == before


def test_a_store_cut_anywhere_comes_back_as_one_of_its_commits_and_cuts_the_log_to_match(files, tmp_path):
    kept = Storage(*files)
    commits = [(0, 0, {}), (files[0].stat().st_size, 0, {})]
    for sequence, values in enumerate(({"a": 1}, {"a": None, "b": "x" * 40}, {}, {"b": [1, 2], "c": b"y"}), start=1):
        commit(kept, sequence, **values)
        commits.append((files[0].stat().st_size, sequence, dict(kept.values)))
    store, log = (file.read_bytes() for file in files)
    cut_store, cut_log = tmp_path / "cut.storage", tmp_path / "cut.jsonl"
    for cut in range(len(store) + 1):
        cut_store.write_bytes(store[:cut])
        cut_log.write_bytes(log)
        _, sequence, values = max(known for known in commits if known[0] <= cut)
        assert Storage(cut_store, cut_log).values == values
        assert logged(cut_log) == list(range(1, sequence + 1))
        assert cut_log.read_bytes() == log[: cut_log.stat().st_size]


def test_a_log_written_ahead_of_its_record_is_cut_back_and_goes_on(files):
    commit(Storage(*files), 1)
    with files[1].open("ab") as log:
        log.write(b'{"at_ns":2,"event":"deliver","seq')
    commit(Storage(*files), 2)
    assert logged(files[1]) == [1, 2]


def test_a_store_that_has_grown_is_rewritten_with_the_same_contents(files, monkeypatch):
    monkeypatch.setattr(storage, "_SMALLEST_REWRITE", 1000)
    kept = Storage(*files)
    for sequence in range(1, 201):
        commit(kept, sequence, last=sequence, text="x" * 50, **{f"key{sequence % 3}": sequence})
        assert files[0].stat().st_size < 1000 + 100
    assert Storage(*files).values == {"last": 200, "text": "x" * 50, "key0": 198, "key1": 199, "key2": 200}
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
        for key, value in step.items():
            kept.put(key, value)
        kept.commit()
        plain = {key: value for key, value in (plain | step).items() if value is not None}
        assert kept.values == plain
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
        assert Storage(*files).values == {"name": "old"}
        assert logged(files[1]) == [1]


def test_a_disk_without_room_for_a_rewrite_keeps_the_old_store(files):
    commit(Storage(*files), 1, name="x" * 100)
    with room_for(50), pytest.raises(OSError, match="File too large"):
        Storage(*files)
    assert Storage(*files).values == {"name": "x" * 100}


def commit_for_ever(files: tuple[Path, Path]) -> None:
    """What the checks below expect: as many lines in the log as `count` says, numbered from 1; `even` there when it is even."""
    storage._SMALLEST_REWRITE = 3000
    kept = Storage(*files)
    while True:
        count = kept.values.get("count", 0) + 1
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
        values = Storage(*files).values
        assert logged(files[1]) == list(range(1, values.get("count", 0) + 1))
        assert ("even" in values) == (values.get("count", 1) % 2 == 0)
    assert values["count"] > 1000
