"""Records of the runs on this machine. A record is written before anything is made, so that clean-up knows what a dead run has made.

Each run has a directory under /run/castbed, named after the run's tag, and holds a lock in it for as long as it lives. A directory whose
lock is free belongs to a run that died. Clean-up removes exactly what the records of dead runs name, and nothing else on the machine.
"""

import fcntl
import os
import secrets
import shutil
import signal
import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from testbed.errors import CannotRun
from testbed.network import shell, vswitch
from testbed.network.plan import Plan

STATE = Path("/run/castbed")
_TAG_LENGTH = 4


class Record(msgspec.Struct, frozen=True):
    """The kernel objects of a run."""

    namespaces: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    """Names of sockets in the run directory of Open vSwitch."""


@contextmanager
def claim() -> Iterator[Path]:
    """A directory for a new run, locked for as long as the body runs; its name is the run's tag.

    When the body ends, for whatever reason, everything that the record names is removed, and then the directory. If this process is killed,
    the directory stays and `clean` finds it.
    """
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory, lock = _locked_directory()
    with lock:
        try:
            yield directory
        finally:
            with uninterrupted():
                unmake(_read(directory))
                shutil.rmtree(directory)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back signals that would interrupt the body, and raise them when it has finished."""
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    held = {number: signal.signal(number, lambda got, _: asked.append(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for late in asked:
            signal.raise_signal(late)


def write(directory: Path, plan: Plan) -> None:
    """Write the record of a run, before anything is made."""
    record = Record(plan.namespaces, plan.bridges, plan.interfaces, (plan.controller_socket,))
    (directory / "record.json").write_bytes(msgspec.json.encode(record))


def clean() -> list[str]:
    """Remove what dead runs left behind. Returns the tags of these runs."""
    cleaned = []
    for directory in sorted(STATE.iterdir()) if STATE.exists() else ():
        # A directory without a lock is just being made, or has just been removed.
        with suppress(FileNotFoundError), (directory / "lock").open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not _is_in(directory, lock):
                continue
            unmake(_read(directory))
            shutil.rmtree(directory)
            cleaned.append(directory.name)
    return cleaned


def is_alive(directory: Path) -> bool:
    """Whether the run with this directory is alive."""
    with suppress(FileNotFoundError), (directory / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def unmake(record: Record) -> None:
    """Remove every object of a record that exists, and kill the processes inside its namespaces."""
    namespaces = [name for name in record.namespaces if Path("/run/netns", name).exists()]
    _kill_inside(namespaces)
    taps = vswitch.delete(record.bridges) if record.bridges else []
    _delete_links([*record.interfaces, *taps])
    shell.ip([f"netns delete {name}" for name in namespaces])
    for name in record.sockets:
        (vswitch.run_directory() / name).unlink(missing_ok=True)


def _locked_directory() -> tuple[Path, IO[str]]:
    """A new directory and its lock. If `clean` removes the directory before the lock is held, another one is made."""
    while True:
        directory = _new_directory()
        lock = (directory / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_in(directory, lock):
            return directory, lock
        lock.close()


def _is_in(directory: Path, lock: IO[str]) -> bool:
    """Whether an open lock is still the file in the directory, which may have been removed before the lock was held."""
    try:
        return os.path.samestat((directory / "lock").stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


def _new_directory() -> Path:
    """A new directory with a tag that neither a run nor an interface of the machine has."""
    while True:
        tag = "".join(secrets.choice(string.ascii_lowercase) for _ in range(_TAG_LENGTH))
        if any(Path("/sys/class/net").glob(f"{tag}-*")):
            continue
        try:
            (STATE / tag).mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise CannotRun(f"cannot write {STATE}: {error.strerror}") from None
        return STATE / tag


def _read(directory: Path) -> Record:
    """The record of a run. A run without a record died before it made anything."""
    try:
        return msgspec.json.decode((directory / "record.json").read_bytes(), type=Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return Record()


def _delete_links(names: Sequence[str]) -> None:
    """Delete the links that exist, all at once: for single links the kernel needs tens of milliseconds each."""
    while interfaces := [name for name in names if Path("/sys/class/net", name).exists()]:
        # A random number, so that no other interface of the machine is in the same group.
        group = 1 << 30 | secrets.randbits(30)
        try:
            shell.ip([*(f"link set {name} group {group}" for name in interfaces), f"link delete group {group}"])
        except CannotRun:
            # A link may have disappeared meanwhile with the namespace of its other end; anything else is a failure.
            if all(Path("/sys/class/net", name).exists() for name in interfaces):
                raise


def _kill_inside(namespaces: list[str]) -> None:
    """Kill every process in these network namespaces."""
    inside = {_identity(Path("/run/netns", name)) for name in namespaces}
    for process in Path("/proc").glob("[0-9]*"):
        # A process may have just ended. In a container, root cannot inspect every process, but can inspect all that a run starts.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if _identity(process / "ns/net") in inside:
                os.kill(int(process.name), signal.SIGKILL)


def _identity(file: Path) -> tuple[int, int]:
    """The identity of the namespace that a file leads to: equal for the same namespace, whatever the file."""
    status = file.stat()
    return status.st_dev, status.st_ino
