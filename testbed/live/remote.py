"""Verbs from another terminal: each network that is up listens on a socket in its private directory.

A request is one line of text, the answer one JSON object; then the connection ends. A network in a virtual machine has another kernel, and
a socket does not connect two kernels. There, requests and answers are files in the directory that both kernels share.
"""

import os
import secrets
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING

import msgspec

from runfiles.format import write_whole
from scenarios.faults import FaultError
from testbed.errors import CannotRun
from testbed.live.snapshot import Snapshot
from testbed.network import record, vm

if TYPE_CHECKING:
    from testbed.live.session import Live

SOCKET = "live.socket"
NAME = "live.name"
# The suffixes of requests and answers that are files, and the period of looking for new files.
ASKED, ANSWERED = ".asked", ".answered"
POLL_S = 0.1
# The request for a snapshot; every other request is a verb.
SNAPSHOT = "snapshot"


class Ended(CannotRun):
    """The network is no longer up."""


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request: text of a verb, the reason of a refusal, or a snapshot."""

    text: str = ""
    refused: str = ""
    snapshot: Snapshot | None = None


def answer(live: "Live", line: str) -> Answer:
    """Execute a request."""
    try:
        if line == SNAPSHOT:
            return Answer(snapshot=live.snapshot())
        return Answer(text=live.do(line))
    except (FaultError, CannotRun) as refusal:
        return Answer(refused=str(refusal))
    except Exception as mistake:  # noqa: BLE001 - an error in Castbed must not end the network
        return Answer(refused=f"{line}: this is an error in Castbed: {type(mistake).__name__}: {mistake}")


@contextmanager
def serve(live: "Live", private: Path) -> Iterator[None]:
    """Listen for as long as the body runs. Only the owner of the directory can connect to the socket in it."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().strip()
            self.wfile.write(msgspec.json.encode(answer(live, line)))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    with Server(str(private / SOCKET), Handler) as server, ExitStack() as stack:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": POLL_S}, name="castbed-remote", daemon=True
        )
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        (private / NAME).write_text(live.name)
        if vm.is_guest():
            stack.enter_context(_serve_files(live, vm.SHARED))
        yield


@contextmanager
def _serve_files(live: "Live", shared: Path) -> Iterator[None]:
    """In a guest: answer requests that are files. The file with the network's name is removed when requests are no longer answered."""
    over = threading.Event()

    def reply(asked: Path, line: str) -> None:
        write_whole(asked.with_suffix(ANSWERED), msgspec.json.encode(answer(live, line)))

    def serve_forever() -> None:
        while not over.wait(POLL_S):
            for asked in shared.glob(f"*{ASKED}"):
                line = asked.read_text()
                asked.unlink()
                threading.Thread(target=reply, args=(asked, line), daemon=True).start()

    thread = threading.Thread(target=serve_forever, name="castbed-remote-files", daemon=True)
    thread.start()
    write_whole(shared / NAME, live.name.encode())
    try:
        yield
    finally:
        (shared / NAME).unlink()
        over.set()
        thread.join()


def running() -> dict[str, Path]:
    """The networks that are up, by name, each with its directory."""
    directories = (path.parent for path in sorted(record.STATE.glob(f"*/{NAME}")) if record.is_alive(path.parent))
    return {(directory / NAME).read_text(): directory for directory in directories}


def find(name: str) -> Path:
    """The directory of the network with this name; without a name, of the only network that is up."""
    known = running()
    if not known:
        whose = "" if os.geteuid() == 0 else " that you may see; networks of root need sudo"
        raise CannotRun(f"no network is up{whose}: start one with ./castbed up TOPOLOGY in another terminal")
    if not name and len(known) > 1:
        raise CannotRun(f"several networks are up: choose one with --name, from {', '.join(known)}")
    if name and name not in known:
        raise CannotRun(f"no network {name!r} is up: choose from {', '.join(known)}")
    return known[name] if name else next(iter(known.values()))


def snapshot(directory: Path) -> Snapshot:
    """The state of a network now."""
    now = ask(directory, SNAPSHOT).snapshot
    if now is None:
        raise Ended("the network has ended")
    return now


def ask(directory: Path, line: str) -> Answer:
    """Send a line to a network and wait for its answer."""
    try:
        heard = (_by_socket if (directory / SOCKET).exists() else _by_file)(directory, line.replace("\n", " ").encode())
    except (ConnectionError, FileNotFoundError):
        heard = b""
    if not heard:
        raise Ended("the network has ended")
    told = msgspec.json.decode(heard, type=Answer)
    if told.refused:
        raise CannotRun(told.refused)
    return told


def _by_socket(directory: Path, line: bytes) -> bytes:
    with socket(AF_UNIX, SOCK_STREAM) as connection:
        connection.connect(str(directory / SOCKET))
        connection.sendall(line + b"\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))


def _by_file(directory: Path, line: bytes) -> bytes:
    """Send a line to a network in a virtual machine and wait for its answer, which is empty if the network ends meanwhile."""
    asked = directory / f"{secrets.token_hex(8)}{ASKED}"
    answered = asked.with_suffix(ANSWERED)
    write_whole(asked, line)
    try:
        while (directory / NAME).exists() and record.is_alive(directory):
            if answered.exists():
                return answered.read_bytes()
            time.sleep(POLL_S)
        return b""
    finally:
        for file in (asked, answered):
            file.unlink(missing_ok=True)
