"""The guests that there are, what they promise, and where they are installed.

A guest is never installed into the system, where its service would start: packages are unpacked into `.guests/NAME` of this repository, and
the guest is started from there.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from hostagent.contract.promises import Guarantee, Order, Scope, Strength

PLACE: Final = Path(__file__).parents[3] / ".guests"
PREFIX: Final = "guest:"
"""What a user writes before the name of a guest."""

_SAFE: Final = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION)
_SINGLE, _TOTAL = (Order(scope, Strength.STRICT) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_GROUP))


class GuestSystem(NamedTuple):
    """A real system."""

    name: str
    summary: str
    assumes: str
    debian: str
    """The package of Debian; empty if there is none."""
    pypi: str
    """The package of PyPI; empty if there is none."""
    program: str
    """A file of the package, without which the guest is not installed."""
    guarantees: tuple[Guarantee, ...]
    orders: tuple[Order, ...]
    is_quorum: bool
    """Whether a majority goes on when the others are dead or cut off, and hosts that come back get what they missed."""

    @property
    def package(self) -> str:
        """What is downloaded, in words."""
        return f"{self.debian} from Debian" if self.debian else f"{self.pypi} from PyPI"

    @property
    def directory(self) -> Path:
        """Where the guest is installed."""
        return PLACE / self.name

    @property
    def is_installed(self) -> bool:
        """Whether the guest can be started."""
        return (self.directory / self.program).exists()


GUESTS: Final = {
    guest.name: guest
    for guest in (
        GuestSystem(
            name="corosync",
            summary="Corosync: a token ring after Totem, whose token never rests; its closed process groups deliver in one order",
            assumes="all hosts are connected: who is cut off or down misses what is sent meanwhile",
            debian="corosync",
            pypi="",
            program="usr/sbin/corosync",
            guarantees=(*_SAFE, Guarantee.PROGRESS, Guarantee.ACYCLIC_ORDER),
            orders=(_SINGLE, _TOTAL),
            is_quorum=False,
        ),
        GuestSystem(
            name="pysyncobj",
            summary="PySyncObj: Raft in Python, over TCP; its leader sends a log to all, who deliver what a majority has",
            assumes="a majority of the hosts is connected",
            debian="",
            pypi="pysyncobj",
            program="pysyncobj/syncobj.py",
            guarantees=(*_SAFE, Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.ACYCLIC_ORDER),
            orders=(_TOTAL,),
            is_quorum=True,
        ),
        GuestSystem(
            name="etcd",
            summary="etcd: Raft in Go, over HTTP; each message is put under a key of its own, and hosts watch the keys",
            assumes="a majority of the hosts is connected",
            debian="etcd-server",
            pypi="",
            program="usr/bin/etcd",
            guarantees=(*_SAFE, Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.ACYCLIC_ORDER),
            orders=(_SINGLE, _TOTAL),
            is_quorum=True,
        ),
        GuestSystem(
            name="nats",
            summary="NATS: a server on each host, all connected by TCP; publish and subscribe, at most once",
            assumes="all hosts are connected: who is cut off or down misses what is sent meanwhile",
            debian="nats-server",
            pypi="",
            program="usr/sbin/nats-server",
            guarantees=(*_SAFE, Guarantee.PROGRESS),
            orders=(_SINGLE,),
            is_quorum=False,
        ),
    )
}


def install(guest: GuestSystem) -> None:
    """Download a guest and unpack it into its directory. Raises `CalledProcessError` if that fails."""
    archives = guest.directory / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    if guest.debian:
        # Only packages that the system lacks are downloaded; they are not installed, so no lock of the system is needed.
        own_place = ("-o", f"Dir::Cache::archives={archives}/", "-o", "Debug::NoLocking=true")
        words = ("--download-only", "--reinstall", "--no-install-recommends", "--yes", "--quiet=2")
        _run("apt-get", "install", *words, *own_place, guest.debian)
        for package in sorted(archives.glob("*.deb")):
            _run("dpkg", "-x", str(package), str(guest.directory))
    else:
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(guest.directory), guest.pypi)


def _run(*command: str) -> None:
    # A package that is built must not be told where Castbed's modules are.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
