"""Verbs from another terminal: each network that is up listens on a socket in its private directory.

A request is one line of text, the answer one JSON object; then the connection ends.
"""

import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import TYPE_CHECKING

import msgspec

from scenarios.faults import FaultError
from testbed.errors import CannotRun
from testbed.live.snapshot import Snapshot
from testbed.network import record

if TYPE_CHECKING:
    from testbed.live.session import Live

SOCKET = "live.socket"
NAME = "live.name"
# A request that begins like this wants no verb done.
SNAPSHOT = "snapshot"


class Ended(CannotRun):
    """The network is no longer up."""


class Answer(msgspec.Struct, frozen=True):
    """What a verb said, or why it was refused."""

    text: str = ""
    refused: str = ""
    snapshot: Snapshot | None = None


def answer(live: "Live", line: str) -> Answer:
    """Do what a line says."""
    try:
        if line == SNAPSHOT:
            return Answer(snapshot=live.snapshot())
        return Answer(text=live.do(line))
    except (FaultError, CannotRun) as refusal:
        return Answer(refused=str(refusal))
    except Exception as mistake:  # noqa: BLE001 - a mistake of ours is no reason to lose the network
        return Answer(refused=f"{line}: this is an error in Castbed: {type(mistake).__name__}: {mistake}")


@contextmanager
def serve(live: "Live", private: Path) -> Iterator[None]:
    """Listen for as long as the body runs. The directory is for its owner only, and so is the socket."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().strip()
            self.wfile.write(msgspec.json.encode(answer(live, line)))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    (private / NAME).write_text(live.name)
    with Server(str(private / SOCKET), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="castbed-remote", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def running() -> dict[str, Path]:
    """The networks that are up, by name, each with its directory."""
    directories = (path.parent for path in sorted(record.STATE.glob(f"*/{SOCKET}")) if record.is_alive(path.parent))
    return {(directory / NAME).read_text(): directory for directory in directories}


def find(name: str) -> Path:
    """The directory of the network of a name, or of the only one that is up."""
    known = running()
    if not known:
        whose = "" if os.geteuid() == 0 else ", or if one is, it is root's: use sudo"
        raise CannotRun(f"no network is up{whose}: start one with ./castbed up TOPOLOGY in another terminal")
    if not name and len(known) > 1:
        raise CannotRun(f"several networks are up: choose one with --name, from {', '.join(known)}")
    if name and name not in known:
        raise CannotRun(f"no network {name!r} is up: there is {', '.join(known)}")
    return known[name] if name else next(iter(known.values()))


def snapshot(directory: Path) -> Snapshot:
    """How a network is doing."""
    now = ask(directory, SNAPSHOT).snapshot
    if now is None:
        raise Ended("the network has ended")
    return now


def ask(directory: Path, line: str) -> Answer:
    """Send a line to a network and wait for its answer."""
    with socket(AF_UNIX, SOCK_STREAM) as connection:
        try:
            connection.connect(str(directory / SOCKET))
            connection.sendall(line.replace("\n", " ").encode() + b"\n")
            heard = b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionError, FileNotFoundError):
            heard = b""
    if not heard:
        raise Ended("the network has ended")
    told = msgspec.json.decode(heard, type=Answer)
    if told.refused:
        raise CannotRun(told.refused)
    return told
