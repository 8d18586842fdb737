"""Linux system calls that Python lacks: to enter a network namespace with one thread, to die with the parent, to copy sockets."""

import ctypes
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace: Path) -> None:
    """Move the calling thread into a network namespace for good."""
    with namespace.open("rb") as file:
        if _libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(namespace))


@contextmanager
def inside(namespace: Path) -> Iterator[None]:
    """Run the body in a network namespace, and come back. Sockets made and processes started inside stay there."""
    with Path("/proc/thread-self/ns/net").open("rb") as home:
        enter(namespace)
        try:
            yield
        finally:
            if _libc.setns(home.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot return to the network namespace that was left")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies for any reason, even if the parent is already dead."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def borrowed_sockets(pid: int, family: int) -> list[socket.socket]:
    """Duplicates of another process's sockets of a family, so that the datagrams in their buffers outlive that process."""
    process = os.pidfd_open(pid)
    try:
        numbers = [int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir() if str(entry.readlink()).startswith("socket:")]
        copies = [_libc.syscall(_PIDFD_GETFD, process, number, 0) for number in numbers]
    finally:
        os.close(process)
    found = [socket.socket(fileno=copy) for copy in copies if copy >= 0]
    for other in (each for each in found if each.family != family):
        other.close()
    return [each for each in found if each.family == family]
