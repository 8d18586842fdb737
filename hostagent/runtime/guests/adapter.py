"""The adapter of a guest at one host: isolates itself, starts the guest, and speaks with the agent in lines.

`hostagent.runtime.guests.core` has the lines. The process is in the network namespace of its host, and takes mounts of its own: an empty
/dev/shm and /run, the host's private directory in place of /var/lib, and no name servers. So guests of several hosts on one machine meet
over the network only, and nothing of them outlives the run.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hostagent.runtime.guests.catalogue import GUESTS
from hostagent.runtime.guests.surroundings import Surroundings, message_bytes
from hostagent.runtime.namespace import die_with_parent

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWIPC: Final = 0x08000000
_libc: Final = ctypes.CDLL(None, use_errno=True)


def _isolate(directory: Path) -> None:
    """Take mounts and shared memory of its own, from which nothing gets out."""
    if _libc.unshare(_CLONE_NEWNS | _CLONE_NEWIPC) != 0:
        raise OSError(ctypes.get_errno(), "cannot take mounts of its own, which needs root")
    no_names = directory / "resolv.conf"
    no_names.touch()
    _mount("--make-rprivate", "/")
    if Path("/etc/resolv.conf").exists():
        _mount("--bind", str(no_names), "/etc/resolv.conf")
    _mount("--bind", str(directory), "/var/lib")
    # Last: the directory may be in /run.
    for place in ("/dev/shm", "/run"):  # noqa: S108 - mounted over, not written to
        _mount("-t", "tmpfs", "guest", place)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main() -> None:
    """Serve until standard input ends."""
    name, number, addresses, directory = sys.argv[1:]
    private = Path(directory)
    private.mkdir(exist_ok=True)
    _isolate(private)
    lock = threading.Lock()

    def report(*words: object) -> None:
        with lock:
            os.write(1, (" ".join(map(str, words)) + "\n").encode())

    def deliver(message: bytes) -> None:
        origin, sequence = message.split()[:2]
        report("deliver", int(origin), int(sequence))

    def start(command: Sequence[str], **environment: str) -> None:
        """Start a process of the guest, which dies with this one."""
        parent = os.getpid()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=os.environ | environment,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no other thread is started yet
        )
        threading.Thread(target=_watch, args=(process, name), daemon=True).start()

    host = Surroundings(int(number), tuple(json.loads(addresses)), Path("/var/lib"), GUESTS[name].directory, start, deliver)
    guest: Any = import_module(f"hostagent.runtime.guests.{name}_host").start(host)
    report("ready")
    for line in sys.stdin:
        _, origin, sequence, size = line.split()
        guest.broadcast(message_bytes(int(origin), int(sequence), int(size)))


def _watch(process: "subprocess.Popen[bytes]", name: str) -> None:
    """End with the guest, so that the run ends too."""
    status = process.wait()
    sys.stderr.write(f"\n{name} ended with status {status}\n")
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
