"""What runs on this machine, on disk: written before anything is made, so that clean-up after any death knows what was made.

Each run owns a directory under /run/castbed, named by its tag, and holds a lock in it for as long as it lives. A directory whose lock
can be taken belongs to a run that died. Clean-up touches exactly what such a record names, and nothing else on the machine.
"""

import fcntl
import os
import secrets
import shutil
import signal
import string
from collections.abc import Iterator
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
    """In the run directory of Open vSwitch."""


@contextmanager
def claim() -> Iterator[Path]:
    """A directory for a new run, locked for as long as the body runs; its name is the run's tag.

    When the body ends, however it ends, everything that the record names is unmade, and then the directory goes. After a kill it stays,
    and `clean` finds it.
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
    """Let the body finish, whatever a user or the system asks meanwhile; then do what was asked."""
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
    """Say what is about to be made."""
    record = Record(plan.namespaces, plan.bridges, plan.interfaces, (plan.controller_socket,))
    (directory / "record.json").write_bytes(msgspec.json.encode(record))


def clean() -> list[str]:
    """Unmake what dead runs left behind; the tags of those runs."""
    cleaned = []
    for directory in sorted(STATE.iterdir()) if STATE.exists() else ():
        # One that has no lock is just being made, or has just been unmade.
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
    """Whether the run that owns a directory lives."""
    with suppress(FileNotFoundError), (directory / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def unmake(record: Record) -> None:
    """Remove every object that the record names and that exists, and the processes inside its namespaces."""
    namespaces = [name for name in record.namespaces if Path("/run/netns", name).exists()]
    _kill_inside(namespaces)
    if record.bridges:
        vswitch.delete(record.bridges)
    _delete_links(record.interfaces)
    shell.ip([f"netns delete {name}" for name in namespaces])
    for name in record.sockets:
        (vswitch.run_directory() / name).unlink(missing_ok=True)


def _locked_directory() -> tuple[Path, IO[str]]:
    """A new directory and its lock. Until the lock is held, `clean` takes the directory for that of a dead run: then another is made."""
    while True:
        directory = _new_directory()
        lock = (directory / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_in(directory, lock):
            return directory, lock
        lock.close()


def _is_in(directory: Path, lock: IO[str]) -> bool:
    """Whether a lock that was opened is still the one in its directory, which may have been removed before the lock was held."""
    try:
        return os.path.samestat((directory / "lock").stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


def _new_directory() -> Path:
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
    """The record of a run; a run that died before it wrote one made nothing."""
    try:
        return msgspec.json.decode((directory / "record.json").read_bytes(), type=Record)
    except (FileNotFoundError, msgspec.DecodeError):
        return Record()


def _delete_links(names: tuple[str, ...]) -> None:
    """Delete the links that are there, all at once: one by one, the kernel waits tens of milliseconds for each."""
    while interfaces := [name for name in names if Path("/sys/class/net", name).exists()]:
        # Drawn so that no other interface of the machine is in the same group.
        group = 1 << 30 | secrets.randbits(30)
        try:
            shell.ip([*(f"link set {name} group {group}" for name in interfaces), f"link delete group {group}"])
        except CannotRun:
            # One may have gone meanwhile, with the namespace of its other end; anything else is a failure.
            if all(Path("/sys/class/net", name).exists() for name in interfaces):
                raise


def _kill_inside(namespaces: list[str]) -> None:
    """Kill every process in these network namespaces."""
    inside = {_identity(Path("/run/netns", name)) for name in namespaces}
    for process in Path("/proc").glob("[0-9]*"):
        # A process may have just ended; and in a container, root may not look at every process, but at all that a run can start.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if _identity(process / "ns/net") in inside:
                os.kill(int(process.name), signal.SIGKILL)


def _identity(file: Path) -> tuple[int, int]:
    """What tells a namespace from every other, by any file that leads to it."""
    status = file.stat()
    return status.st_dev, status.st_ino
