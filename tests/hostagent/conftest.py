"""Real hosts for real agents: network namespaces on a bridge in a namespace of its own, all gone after the tests."""

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from hostagent.contract.events import Event, committed
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.contract.wire import PORT, Codec
from hostagent.parts.delivery import Copy
from hostagent.runtime.agent import Setting
from hostagent.runtime.control import CrashWhen, Offer, Request, SetClock, StartOrder, encode_request
from hostagent.runtime.counters import read_counters
from hostagent.runtime.launcher import LaunchOrder
from hostagent.runtime.namespace import inside
from topologies.network import group_address

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0
HOSTS = ("h1", "h2", "h3")
RUN = 0xBEEF


def until(condition: Callable[[], object], otherwise: Callable[[], object] = lambda: "") -> None:
    """Wait for a condition; when that takes too long, fail and say what `otherwise` says."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.002)


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Lan:
    """Three hosts on a bridge; every name starts with the same random letters, and no link leads out."""

    def __init__(self) -> None:
        self.prefix = "a" + secrets.token_hex(3)
        self.addresses = {host: f"10.200.0.{n}" for n, host in enumerate(HOSTS, start=1)}

    def namespace(self, host: str) -> Path:
        return Path("/run/netns", f"{self.prefix}{host}")

    def build(self) -> None:
        bridge = self.namespace("br").name
        lines = [f"netns add {bridge}", f"-n {bridge} link add name lan type bridge", f"-n {bridge} link set lan up"]
        for host, address in self.addresses.items():
            name = self.namespace(host).name
            lines += [
                f"netns add {name}",
                f"-n {name} link add eth0 type veth peer name {host} netns {bridge}",
                f"-n {name} address add {address}/24 dev eth0",
                f"-n {name} link set eth0 up",
                f"-n {bridge} link set {host} master lan up",
            ]
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True)

    def remove(self) -> None:
        """Remove all that `build` made, however far it got: interfaces go with their namespace."""
        for name in ("br", *HOSTS):
            subprocess.run(["ip", "netns", "delete", self.namespace(name).name], check=False, stderr=subprocess.DEVNULL)


class Agents:
    """The launcher of a run, spoken to as the testbed does."""

    def __init__(
        self,
        lan: Lan,
        folder: Path,
        protocol: str,
        program: tuple[str, ...],
        pack_ms: float | None,
        groups: dict[int, tuple[str, ...]] | None,
        **parameters: object,
    ) -> None:
        self.lan = lan
        self.setting = Setting(
            run=RUN,
            protocol=protocol,
            parameters=parameters,
            seed=1,
            port=PORT,
            addresses=lan.addresses,
            groups=groups or {},
            group_addresses={} if groups is None else {group: group_address(group) for group in (EVERYBODY, *groups)},
            events=str(folder),
            private=str(folder),
            pack_ms=pack_ms,
        )
        order = folder / "agents.json"
        namespaces = {host: str(lan.namespace(host)) for host in HOSTS}
        order.write_bytes(msgspec.json.encode(LaunchOrder(self.setting, namespaces)))
        self.errors = folder / "stderr"
        with self.errors.open("wb") as errors:
            self.launcher = subprocess.Popen(
                [sys.executable, *program, str(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        self._unread = b""
        self.reports: list[str] = []
        self.pids: dict[str, int] = {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def start(
        self, *hosts: str, incarnation: int = 1, clock: SetClock | None = None, crashes: tuple[CrashWhen, ...] = ()
    ) -> None:
        """Start agents and wait until they are ready."""
        for host in hosts:
            order = msgspec.json.encode(StartOrder(host, incarnation, clock, crashes))
            os.write(self.launcher.stdin.fileno(), order + b"\n")
        for host in hosts:
            self.pids[host] = int(self.report("ready", host))

    def report(self, what: str, host: str) -> str:
        """Wait for a report of the launcher; take it and return its last word."""
        until(lambda: self._take_reports() or self._find(what, host), lambda: (self.reports, self.errors.read_text()))
        found = self._find(what, host)
        self.reports.remove(found)
        return found.split()[2]

    def _find(self, what: str, host: str) -> str:
        return next((report for report in self.reports if report.startswith(f"{what} {host} ")), "")

    def _take_reports(self) -> None:
        out = self.launcher.stdout.fileno()
        if select.select([out], [], [], 0)[0]:
            *lines, self._unread = (self._unread + os.read(out, 65536)).split(b"\n")
            self.reports += [line.decode() for line in lines]

    def ask(self, host: str, request: Request) -> None:
        self.socket.sendto(encode_request(request), str(self.setting.control(host)))

    def broadcast(self, host: str, payload: bytes = b"hello", to: int | tuple[str, ...] = EVERYBODY) -> None:
        self.socket.sendto(encode_request([Offer(payload, to)]), str(self.setting.door(host)))

    def kill(self, host: str) -> None:
        """Kill an agent and wait until its death is reported."""
        os.kill(self.pids[host], signal.SIGKILL)
        assert self.report("died", host) == "-9"

    def events(self, host: str, name: str | None = None) -> list[Event]:
        """The events of one name, or all but the samples, which come by the clock."""
        lines = committed(self.setting.event_log(host).read_bytes()).lines
        events = [msgspec.json.decode(line, type=Event) for line in lines]
        return [event for event in events if event.event == name or (name is None and event.event != "sample")]

    def delivered(self, host: str) -> list[tuple[str, int]]:
        return [(event.origin, event.sequence) for event in self.events(host, "deliver")]

    def counters(self, host: str) -> Counter[str]:
        """The counters that are not zero."""
        return +Counter(read_counters(self.setting.counters(host)))

    def until(self, condition: Callable[[], object]) -> None:
        until(condition, lambda: ({host: self.counters(host) for host in self.pids}, self.errors.read_text()))

    def close(self) -> None:
        self.launcher.kill()
        self.launcher.wait()
        for end in (self.launcher.stdin, self.launcher.stdout, self.socket):
            end.close()
        until(lambda: not any(map(alive, self.pids.values())))


class Stranger:
    """A socket on a host without an agent, from which a test sends what it likes."""

    def __init__(self, lan: Lan, core: int, kinds: tuple[type[Copy], ...] = (Copy,)) -> None:
        self.lan = lan
        self.codec = Codec(core, kinds, RUN, {host: n for n, host in enumerate(HOSTS, start=1)})
        with inside(lan.namespace("h3")):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((lan.addresses["h3"], PORT))

    def copy(self, sequence: int, payload: bytes = b"", packet: int = 1) -> bytes:
        """A copy of a message of h3."""
        return self.codec.encode(3, packet, Copy(0, "h3", sequence, payload), Purpose.DATA, 0)

    def send(self, to: str | int, datagram: bytes, tos: int = 0) -> None:
        """Send to a host or to a group."""
        address = group_address(to) if isinstance(to, int) else self.lan.addresses[to]
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self.lan.addresses["h3"]))
        self.socket.sendto(datagram, (address, PORT))


@pytest.fixture(scope="session")
def lan() -> Iterator[Lan]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    built = Lan()
    try:
        built.build()
        yield built
    finally:
        built.remove()


@pytest.fixture
def launch(lan: Lan, tmp_path: Path) -> Iterator[Callable[..., Agents]]:
    """Start a launcher; it ends with the test, and every agent with it. With `groups`, which may be none, the network multicasts."""
    launched: list[Agents] = []

    def start(
        protocol: str = "basic",
        program: tuple[str, ...] = ("-m", "hostagent.runtime.launcher"),
        pack_ms: float | None = 0.0,
        groups: dict[int, tuple[str, ...]] | None = None,
        **parameters: object,
    ) -> Agents:
        launched.append(Agents(lan, tmp_path, protocol, program, pack_ms, groups, **parameters))
        return launched[-1]

    yield start
    for agents in launched:
        agents.close()


@pytest.fixture
def stranger(lan: Lan) -> Iterator[Callable[..., Stranger]]:
    made: list[Stranger] = []

    def make(core: int) -> Stranger:
        made.append(Stranger(lan, core))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()
