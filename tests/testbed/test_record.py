"""The record of what runs on the machine: a run that lives keeps its directory, whoever cleans up and whatever signals come."""

import fcntl
import signal

import pytest

from testbed.network import record
from testbed.terminal import on_end


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "STATE", tmp_path / "state")
    return tmp_path / "state"


def test_a_run_keeps_its_directory_if_clean_comes_between_open_and_lock(state, monkeypatch):
    """The first directory is taken for a dead run's and removed; so the run makes another one."""
    cleaned = []

    def flock(file, operation):
        if operation == fcntl.LOCK_EX and not cleaned:
            cleaned.extend(record.clean())
        flock_of_system(file, operation)

    flock_of_system = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with record.claim() as directory:
        assert len(cleaned) == 1
        assert record.is_alive(directory)
        assert list(state.iterdir()) == [directory]
        assert record.clean() == []
    assert not directory.exists()


def test_clean_leaves_a_directory_alone_that_another_run_has_got_meanwhile(state, monkeypatch):
    """Between its open and its lock, another clean-up removes the dead run, and a new one gets the same tag."""
    (state / "same").mkdir(parents=True)
    (state / "same" / "lock").touch()

    def flock(file, operation):
        (state / "same" / "lock").unlink()
        (state / "same" / "lock").touch()
        flock_of_system(file, operation)

    flock_of_system = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    assert record.clean() == []
    assert (state / "same").exists()


def test_a_hang_up_that_was_ignored_stays_ignored():
    """As under nohup, also while a run is unmade."""

    def never():
        raise AssertionError

    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        on_end(never)
        with record.uninterrupted():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
