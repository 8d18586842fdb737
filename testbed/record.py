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
from contextlib import contextmanager
from pathlib import Path

import msgspec

from testbed import shell
from testbed.errors import CannotRun
from testbed.plan import Plan

STATE = Path("/run/castbed")
_TAG_LENGTH = 4
# How long Open vSwitch may take to let go of its bridges.
PATIENCE_S = 60


class Record(msgspec.Struct, frozen=True):
    """The kernel objects of a run."""

    namespaces: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()


@contextmanager
def claim() -> Iterator[Path]:
    """A directory for a new run, locked for as long as the body runs; its name is the run's tag.

    The body must have unmade what it made when it ends: then the directory goes. After a kill it stays, and `clean` finds it.
    """
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = _new_directory()
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
        shutil.rmtree(directory)


def write(directory: Path, plan: Plan) -> None:
    """Say what is about to be made."""
    record = Record(plan.namespaces, plan.bridges, plan.interfaces)
    (directory / "record.json").write_bytes(msgspec.json.encode(record))


def clean() -> list[str]:
    """Unmake what dead runs left behind; the tags of those runs."""
    cleaned = []
    for directory in sorted(STATE.iterdir()) if STATE.exists() else ():
        with (directory / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            unmake(_read(directory))
            shutil.rmtree(directory)
            cleaned.append(directory.name)
    return cleaned


def unmake(record: Record) -> None:
    """Remove every object that the record names and that exists, and the processes inside its namespaces."""
    namespaces = [name for name in record.namespaces if Path("/run/netns", name).exists()]
    for name in namespaces:
        _kill_inside(name)
    if record.bridges:
        deletions = [word for bridge in record.bridges for word in ("--", "--if-exists", "del-br", bridge)]
        shell.run(["ovs-vsctl", f"--timeout={PATIENCE_S}", *deletions])
    interfaces = [name for name in record.interfaces if Path("/sys/class/net", name).exists()]
    shell.ip([f"link delete {name}" for name in interfaces] + [f"netns delete {name}" for name in namespaces])


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


def _kill_inside(namespace: str) -> None:
    for pid in shell.run(["ip", "netns", "pids", namespace]).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
