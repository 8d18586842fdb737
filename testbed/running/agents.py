"""The agents of a run: starts them, sends them requests, and notices when one dies."""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from hostagent.contract.messages import EVERYBODY
from hostagent.runtime.agent import Setting
from hostagent.runtime.control import (
    LONGEST_REQUEST,
    AtDoor,
    CrashWhen,
    GroupRequest,
    Hush,
    JoinRequest,
    LeaveRequest,
    Offer,
    Request,
    SetClock,
    StartOrder,
    Stop,
    encode_request,
)
from hostagent.runtime.counters import open_counters, read_counters
from hostagent.runtime.failures import CoreFailed, Failure
from hostagent.runtime.launcher import LaunchOrder
from hostagent.runtime.namespace import borrowed_sockets, inside
from testbed.errors import CannotRun
from testbed.network.plan import Plan
from testbed.network.shell import WITH_US

PATIENCE_S = 60.0
# How soon requests that found the socket of an agent full are sent again. The kernel keeps eleven of them, so with a long wait a stream
# that is faster than its agent would go on at a few requests each time.
RESEND_S = 0.002
# Messages of the application that an agent is offered in one datagram.
MOST_TOGETHER = 32
# The program that forks the agents, as words for Python. Tests run a launcher with protocols of their own.
LAUNCHER = ("-m", "hostagent.runtime.launcher")


class Agents:
    """One agent in every host's namespace."""

    def __init__(
        self,
        plan: Plan,
        setting: Setting,
        crashes: Mapping[str, tuple[CrashWhen, ...]] | None = None,
        late: Collection[str] = (),
    ) -> None:
        self._plan = plan
        self.started_ns = time.time_ns()
        self.absent = {host: None for host in plan.network.hosts if host in late}
        """The hosts that have not arrived, or have departed: they have no agent, and a restart does not start one."""
        self.setting = setting
        self._pids: dict[str, int] = {}
        self._starting: set[str] = set()
        """The hosts whose agent was started and has neither reported that it is ready nor died."""
        self._groups: list[GroupRequest] = []
        """The groups that were made since the start of the run."""
        self.deaths: list[str] = []
        """A sentence for each agent that died unexpectedly, and for the launcher."""
        self.are_lost = False
        """Whether the launcher has died, and with it every agent."""
        self._errors = Path(setting.private, "agents.stderr")
        self._refused_before = {host: _kernel_refusals(plan, host) for host in plan.network.hosts}
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._control.setblocking(False)
        self._confirming = _answered_socket(Path(setting.private, "testbed.control"))
        """Requests that agents must confirm are sent from this socket; it has a name, so agents can answer."""
        self._unconfirmed = Counter[str]()
        self._unsent: dict[str, deque[tuple[socket.socket, bytes]]] = {}
        """Requests that wait because the agent's socket is full: it holds about ten while the agent is paused."""
        self._offers: dict[str, deque[Offer]] = {}
        """What the application of each host wants to broadcast and its door has no room for."""
        self._offered = Counter[str]()
        self._launcher, self._orders, self._reports = self._launch()
        self._unread = b""
        self._incarnations = dict.fromkeys(plan.network.hosts, 0)
        self._left_unread = Counter[str]()
        self._expected_deaths: set[str] = set()
        self.crashes = dict(crashes or {})
        """The crashes of each host that its agent carries out itself, at an event of its own, also after a restart."""
        self._started_with: dict[str, tuple[CrashWhen, ...]] = {}
        self._own_crashes: dict[str, CrashWhen] = {}
        self.on_own_crash: Callable[[str, CrashWhen], None] = lambda _host, _crash: None
        self._clocks: dict[str, SetClock] = {}
        for host in self.absent:
            # Whoever reads the files of a host need not know whether it has arrived.
            open_counters(setting.counters(host))
            setting.event_log(host).touch()
        for host in plan.network.hosts:
            if host not in self.absent:
                self._start(host)
        self._wait_until_ready()

    @property
    def running(self) -> tuple[str, ...]:
        """The hosts whose agent runs."""
        return tuple(self._pids)

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes of the agents that run."""
        return tuple(self._pids.values())

    def event_logs(self) -> list[tuple[str, Path]]:
        """The event log of every host."""
        return [(host, self.setting.event_log(host)) for host in self._plan.network.hosts]

    def broadcast(
        self, host: str, payload: bytes, to: int | tuple[str, ...] = EVERYBODY, due_ns: int = 0, *, more: bool = False
    ) -> None:
        """Have a host broadcast a message to a group or to some hosts, as soon as it has room; a host that is down broadcasts nothing.

        With `more`, others follow at once, and they may leave together: at the latest at the next `notice` or `send_offers`.
        """
        waiting = self._offers.setdefault(host, deque())
        waiting.append(Offer(payload, to, due_ns))
        if (not more or len(waiting) % MOST_TOGETHER == 0) and not self._send_waiting(host):
            self.notice()

    def send_offers(self) -> None:
        """Send what waits to be broadcast, as far as there is room."""
        for host in list(self._offers):
            self._send_waiting(host)

    @property
    def have_caught_up(self) -> bool:
        """Whether every message that was offered to a host that runs, and is not paused, has been broadcast."""
        return all(
            host not in self._offers and read_counters(self.setting.counters(host))["broadcast"] >= self._offered[host]
            for host in self.running
            if not self.is_paused(host)
        )

    def make_group(self, group: GroupRequest) -> None:
        """Tell every agent of a new group, also those that start later, and wait until those that are not paused know it."""
        self._groups.append(group)
        for host in self.running:
            self.ask(host, group)
        told = [host for host in self.running if not self.is_paused(host)]
        self._wait_until(lambda: all(self.has_confirmed(host) for host in told), look_s=0.002)

    def hush(self) -> None:
        """Tell every agent to send no more datagrams."""
        for host in self.running:
            self.ask(host, Hush(len(self._offers.pop(host, ()))))

    def set_clock(self, host: str, offset_ns: int, rate: float) -> None:
        """Set the clock of a host. The setting belongs to the host, so an agent that is restarted has it too."""
        self._clocks[host] = SetClock(offset_ns, rate, time.time_ns())
        self.ask(host, self._clocks[host])

    def signal(self, host: str, number: signal.Signals) -> None:
        """Send a signal to a running agent."""
        if host not in self._pids:
            return
        # An agent that has just died will be noticed later.
        with suppress(ProcessLookupError, FileNotFoundError):
            if number == signal.SIGKILL:
                self._kill(host)
            else:
                os.killpg(self._pids[host], number)

    def _kill(self, host: str) -> None:
        """Kill an agent, and count the datagrams that it leaves unread: the books need them."""
        pid = self._pids[host]
        self._expected_deaths.add(host)
        os.kill(pid, signal.SIGSTOP)
        left = borrowed_sockets(pid, socket.AF_INET)
        os.kill(pid, signal.SIGKILL)
        self._wait_until(lambda: host not in self._pids)
        for borrowed in left:
            with borrowed, suppress(BlockingIOError):
                while True:
                    borrowed.recv(1, socket.MSG_DONTWAIT)
                    self._left_unread[host] += 1

    def is_paused(self, host: str) -> bool:
        """Whether a running agent is stopped by a signal."""
        try:
            status = Path("/proc", str(self._pids[host]), "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def restart(self, host: str, *, keep_storage: bool) -> None:
        """Start the agent of a host that crashed, and wait until it is ready or has failed. An agent that runs is left alone."""
        self.notice()
        if host in self._pids or host in self.absent:
            return
        if not keep_storage:
            self.setting.storage(host).unlink(missing_ok=True)
        self._start(host)
        self._wait_until(lambda: host not in self._starting)

    def arrive(self, host: str) -> None:
        """Start the agent of a host that comes late."""
        self.absent.pop(host, None)
        self.restart(host, keep_storage=True)

    def depart(self, host: str) -> None:
        """Stop the agent of a host for good, also if it is paused, and wait until it has ended."""
        self.absent[host] = None
        self.signal(host, signal.SIGCONT)
        self.ask(host, Stop())
        self._wait_until(lambda: host not in self._pids)

    def stop(self) -> None:
        """Tell every agent to end, and wait until all have ended."""
        for host in self.running:
            self.ask(host, Stop())
        self._wait_until(lambda: not self._pids)

    def kill(self) -> None:
        """Kill the launcher, and with it every agent."""
        self._launcher.kill()
        self._launcher.wait()
        for pipe in (self._launcher.stdin, self._launcher.stdout, self._control, self._confirming):
            if pipe is not None:
                pipe.close()

    def counters(self) -> dict[str, dict[str, int]]:
        """The counters of every host, with the datagrams that the kernel refused for it since the agents started."""
        return {host: self._agent_counters(host) | self._kernel_counters(host) for host in self._plan.network.hosts}

    def _agent_counters(self, host: str) -> dict[str, int]:
        counted = read_counters(self.setting.counters(host))
        return counted | {"refused_unread": counted["refused_unread"] + self._left_unread[host]}

    def notice(self, wait_s: float = 0) -> None:
        """Wait up to `wait_s` for reports of the launcher, and read them. Requests that wait are sent first."""
        if self.are_lost:
            time.sleep(wait_s)
            return
        for host in list(self._unsent):
            self._send_waiting(host)
        self.send_offers()
        if self._unsent or self._offers:
            wait_s = min(wait_s, RESEND_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._reports, selectors.EVENT_READ)
            if not selector.select(wait_s):
                return
        report = os.read(self._reports, 65536)
        if not report:
            self.are_lost = True
            self._pids.clear()
            self.deaths.append(
                f"the agents' launcher died, and every agent with it; its last line was: {self._last_error_line()}"
            )
        *lines, self._unread = (self._unread + report).split(b"\n")
        for line in lines:
            self._note(*line.decode().split())

    def _note(self, what: str, host: str, number: str) -> None:
        """Handle a report of the launcher: an agent is ready, is about to kill itself, or has ended."""
        self._starting.discard(host)
        if what == "ready":
            self._pids[host] = int(number)
            return
        if what == "crash":
            self._expected_deaths.add(host)
            self._own_crashes[host] = self._started_with[host][int(number)]
            return
        self._pids.pop(host, None)
        self._unsent.pop(host, None)
        self._forget_offers(host)
        self._forget_faults(host)
        if host in self._expected_deaths and int(number) == -signal.SIGKILL:
            self._expected_deaths.discard(host)
            if host in self._own_crashes:
                self.on_own_crash(host, self._own_crashes.pop(host))
        elif number != "0":
            self._raise_failure(host)
            self.deaths.append(f"the agent of {host} died with status {number}; its last line was: {self._last_error_line()}")

    def _raise_failure(self, host: str) -> None:
        """If the core of an agent that died has raised an exception, raise it here: it ends the run."""
        path = self.setting.failure(host)
        if path.exists():
            failure = msgspec.json.decode(path.read_bytes(), type=Failure)
            raise CoreFailed(msgspec.structs.replace(failure, at_ns=failure.at_ns - self.started_ns))

    def _start(self, host: str) -> None:
        self._incarnations[host] += 1
        self._starting.add(host)
        try:
            self._started_with[host] = self.crashes.get(host, ())
            start = StartOrder(
                host, self._incarnations[host], self._clocks.get(host), self._started_with[host], tuple(self._groups)
            )
            os.write(self._orders, msgspec.json.encode(start) + b"\n")
        except BrokenPipeError:
            raise CannotRun(
                f"the agent of {host} cannot be started: the agents' launcher died; its last line was: {self._last_error_line()}"
            ) from None

    def _wait_until(self, done: Callable[[], bool], look_s: float = 0.1) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done() and not self.are_lost and time.monotonic() < deadline:
            self.notice(wait_s=look_s)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self._pids) < len(self._plan.network.hosts) - len(self.absent):
            self.notice(wait_s=0.5)
            if self.deaths or time.monotonic() > deadline:
                self.kill()
                raise CannotRun(self.deaths[0] if self.deaths else f"the agents did not start in {PATIENCE_S:.0f} s")

    def _launch(self) -> tuple["subprocess.Popen[bytes]", int, int]:
        namespaces = {host: str(self._plan.namespace_path(host)) for host in self._plan.network.hosts}
        order = Path(self.setting.private, "agents.json")
        order.write_bytes(msgspec.json.encode(LaunchOrder(self.setting, namespaces)))
        with self._errors.open("wb") as errors:
            launcher = subprocess.Popen(
                [*WITH_US, sys.executable, *LAUNCHER, str(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        if launcher.stdin is None or launcher.stdout is None:
            raise RuntimeError("the launcher was started without pipes")
        return launcher, launcher.stdin.fileno(), launcher.stdout.fileno()

    def ask(self, host: str, request: Request) -> None:
        """Send a request to an agent as soon as its socket has room. An agent that is down gets nothing."""
        is_fault = isinstance(request, SetClock | AtDoor | JoinRequest | LeaveRequest | GroupRequest)
        self._unsent.setdefault(host, deque()).append((self._confirming if is_fault else self._control, encode_request(request)))
        self._unconfirmed[host] += is_fault
        if not self._send_waiting(host):
            self.notice()

    def has_confirmed(self, host: str) -> bool:
        """Whether an agent has confirmed that every fault that it was sent is in force."""
        with suppress(BlockingIOError):
            while True:
                _, path = self._confirming.recvfrom(65536)
                self._unconfirmed[Path(path).stem] -= 1
        return self._unconfirmed[host] <= 0

    def _forget_offers(self, host: str) -> None:
        """What waits for an agent that has ended is not broadcast, nor what waited at its door."""
        self._offers.pop(host, None)
        self._offered[host] = read_counters(self.setting.counters(host))["broadcast"]

    def _forget_faults(self, host: str) -> None:
        """Forget the requests and confirmations of an agent that has ended, so that they are not taken for those of the next one."""
        self.has_confirmed(host)
        del self._unconfirmed[host]

    def _send_waiting(self, host: str) -> bool:
        """Send an agent the requests and the offers that wait, while its sockets have room. Returns whether the agent is there."""
        try:
            self._send_requests(host)
            # A message may be for a group that a request makes.
            if host not in self._unsent:
                self._send_offers(host)
        except BlockingIOError:
            return True
        except (ConnectionRefusedError, FileNotFoundError):
            self._unsent.pop(host, None)
            self._forget_offers(host)
            self._forget_faults(host)
            return False
        return True

    def _send_requests(self, host: str) -> None:
        waiting = self._unsent.get(host, deque())
        while waiting:
            sender, request = waiting[0]
            sender.sendto(request, str(self.setting.control(host)))
            waiting.popleft()
        self._unsent.pop(host, None)

    def _send_offers(self, host: str) -> None:
        """Send as many offers in a datagram as fit: a socket holds about ten datagrams, whatever is in them."""
        waiting = self._offers.get(host, deque())
        while waiting:
            together = list(islice(waiting, MOST_TOGETHER))
            while len(encoded := encode_request(together)) > LONGEST_REQUEST:
                # Messages that name many hosts are long.
                del together[len(together) // 2 :]
            self._control.sendto(encoded, str(self.setting.door(host)))
            for _ in together:
                waiting.popleft()
            self._offered[host] += len(together)
        self._offers.pop(host, None)

    def _last_error_line(self) -> str:
        return (self._errors.read_text().strip().splitlines() or ["nothing"])[-1]

    def _kernel_counters(self, host: str) -> dict[str, int]:
        before = self._refused_before[host]
        return {name: count - before[name] for name, count in _kernel_refusals(self._plan, host).items()}


def _answered_socket(path: Path) -> socket.socket:
    """A socket with a name, so that agents can answer."""
    named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    named.setblocking(False)
    named.bind(str(path))
    return named


def _kernel_refusals(plan: Plan, host: str) -> dict[str, int]:
    """Datagrams that reached a host but no agent: the socket's buffer was full, or nobody listened to the port or to the group."""
    with inside(plan.namespace_path(host)):
        names, values = (
            line.split() for line in Path("/proc/thread-self/net/snmp").read_text().splitlines() if line.startswith("Udp:")
        )
    table = dict(zip(names[1:], map(int, values[1:]), strict=True))
    return {"overflowed": table["RcvbufErrors"], "unreachable": table["NoPorts"] + table["IgnoredMulti"]}
