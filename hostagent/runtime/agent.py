"""The agent: a protocol core on a real UDP socket, with a real clock, in the network namespace of its host.

One wake-up drains many datagrams, lets the core react to each, commits what it stored and logged, and only then sends what it sent, with
messages to the same host in one datagram. All timers of the core, and what waits to be packed, share one timer of the event loop.
"""

import asyncio
import heapq
import os
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from hostagent.contract import wire
from hostagent.contract.core import Core, Environment
from hostagent.contract.events import Event
from hostagent.contract.messages import Message, Purpose
from hostagent.runtime import counters
from hostagent.runtime.control import AtDoor, BroadcastRequest, Hush, SetClock, SignalWhen, Stop, decode_request
from hostagent.runtime.memory import retained_items
from hostagent.runtime.packing import Packer
from hostagent.runtime.storage import Storage

# Let timers and requests have a turn after this many datagrams, however fast more arrive.
MOST_PER_WAKE_UP: Final = 256
# Room for bursts while the process waits for a core: 4 MiB hold over 5,000 small datagrams with the kernel's overhead.
RECEIVE_BUFFER: Final = 4 << 20
SAMPLE_S: Final = 0.5
_ANCILLARY: Final = socket.CMSG_SPACE(1)
# A key that no core uses: the number of the last message broadcast here.
_LAST_BROADCAST: Final = "agent/last broadcast"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all agents of a run share."""

    run: int
    protocol: str
    parameters: dict[str, Any]
    seed: int
    port: int
    addresses: dict[str, str]
    """Every host and its IPv4 address, in the static order."""
    events: str
    """The directory of the event logs."""
    private: str
    """The directory of what only lives as long as the run: storage, counters and control sockets."""
    pack_ms: float | None = 0.0
    """How messages to the same host share a datagram, in the words of `hostagent.runtime.packing`."""

    def event_log(self, host: str) -> Path:
        """The event log of a host."""
        return Path(self.events, f"{host}.jsonl")

    def storage(self, host: str) -> Path:
        """The stable storage of a host."""
        return Path(self.private, f"{host}.storage")

    def counters(self, host: str) -> Path:
        """The counters of a host."""
        return Path(self.private, f"{host}.counters")

    def control(self, host: str) -> Path:
        """The control socket of a host."""
        return Path(self.private, f"{host}.control")


class Agent(Environment):
    """One host's environment: it feeds the core and acts for it."""

    def __init__(self, core: type[Core], setting: Setting, host: str, incarnation: int) -> None:
        self.host = host
        self.hosts = tuple(setting.addresses)
        self.random = Random(f"{setting.seed}/{host}/{incarnation}")  # noqa: S311 - protocols need repeatable randomness, not secrets
        numbers = {name: number for number, name in enumerate(self.hosts, start=1)}
        self._number = numbers[host]
        self._codec = wire.Codec(core.number, core.messages, setting.run, numbers, receiver=host)
        self._endpoints = {name: (address, setting.port) for name, address in setting.addresses.items()}
        self._counters = counters.open_counters(setting.counters(host))
        self._storage = Storage(setting.storage(host), setting.event_log(host))
        self._last_broadcast = self._storage.values.get(_LAST_BROADCAST, 0)
        self._packet = incarnation << 32
        self._packer = Packer(setting.pack_ms)
        self._outbox: deque[tuple[bytes, tuple[str, int], list[wire.Part]]] = deque()
        self._hushed = False
        self._clock_set_s, self._clock_offset_s, self._clock_rate = 0.0, 0.0, 1.0
        self._at_door: list[_Countdown] = []
        self._signals: list[_Countdown] = []
        self._due_signal = 0
        self._timers: dict[str, float] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._socket = _udp_socket(setting.addresses[host], setting.port)
        self._control = _control_socket(setting.control(host))
        self._core = core(self, msgspec.convert(setting.parameters, core.Parameters))
        self._log("start", details={"incarnation": incarnation})
        self._core.on_start(self._storage.values)

    async def run(self) -> None:
        """Serve until asked to stop, or until something goes wrong: a wake-up that failed half-way must be neither committed nor sent."""
        loop = self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = loop.create_future()
        loop.set_exception_handler(self._on_failure)
        loop.add_reader(self._socket, self._on_datagrams)
        loop.add_reader(self._control, self._on_request)
        self._finish_wake_up()
        self._on_sample()
        await self._end
        self._log("stop")
        self._storage.close()

    def now(self) -> float:
        """The machine's clock, which all hosts share, unless this host's was put off."""
        since_s = time.time() - self._clock_set_s
        return self._clock_set_s + self._clock_offset_s + since_s * self._clock_rate

    def send(self, to: str, message: Message, purpose: Purpose) -> None:
        """Queue a message; it leaves after the commit at the end of this wake-up, or later if it is to wait for others."""
        self._packer.add(to, self._codec.part(message, purpose))

    def set_timer(self, name: str, after_s: float) -> None:
        """Set or move a timer."""
        deadline = time.monotonic() + after_s / self._clock_rate
        self._timers[name] = deadline
        heapq.heappush(self._deadlines, (deadline, name))

    def cancel_timer(self, name: str) -> None:
        """Forget a timer; its entry in the heap is skipped when its time comes."""
        self._timers.pop(name, None)

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:  # noqa: ARG002 - the log is the application
        """Log the delivery; the log is the application."""
        self._counters[counters.DELIVERED] += 1
        self._log("deliver", origin, sequence)

    def store(self, key: str, value: object) -> None:
        """Keep a value; durable before anything sent in this wake-up leaves."""
        self._storage.put(key, value)

    def trace(self, event: str, **details: object) -> None:
        """Log an event of the protocol."""
        self._log(event, details=details)

    def _log(self, event: str, origin: str = "", sequence: int = 0, details: dict[str, Any] | None = None) -> None:
        self._storage.log(Event(at_ns=time.time_ns(), event=event, origin=origin, sequence=sequence, details=details or {}))
        if self._signals:
            self._signal_if_due(event, origin, sequence)

    def _on_datagrams(self) -> None:
        """Drain the socket."""
        receive = self._socket.recvmsg
        for _ in range(MOST_PER_WAKE_UP):
            try:
                datagram, ancillary, _, _ = receive(wire.LONGEST_DATAGRAM + 1, _ANCILLARY)
            except BlockingIOError:
                break
            self._on_datagram(datagram, expensive=ancillary[0][2][0] & 0xFC == wire.COST_TOS)
            if self._due_signal:
                break
        self._finish_wake_up()

    def _on_datagram(self, datagram: bytes, *, expensive: bool) -> None:
        try:
            received = self._codec.decode(datagram)
        except wire.Refused as refusal:
            self._counters[counters.REFUSED[refusal.reason]] += 1
            return
        if self._at_door:
            self._pass_door(received, expensive=expensive)
            return
        self._counters[counters.RECEIVED] += 1
        for message in received.messages:
            self._core.on_message(received.sender, message, expensive)

    def _pass_door(self, received: wire.Received, *, expensive: bool) -> None:
        """Take a datagram while faults wait for messages. Without its only message it counts as refused, but a pack as received."""
        copies = [self._copies(message) for message in received.messages]
        self._counters[counters.REFUSED["injected"] if copies == [0] else counters.RECEIVED] += 1
        for message, times in zip(received.messages, copies, strict=True):
            for _ in range(times):
                self._core.on_message(received.sender, message, expensive)

    def _copies(self, message: Message) -> int:
        """How often a message is to be received: once, unless a fault waits for it."""
        kind = type(message).__name__
        due = [waiting for waiting in self._at_door if waiting.request.kind == kind and waiting.is_over()]
        self._at_door = [waiting for waiting in self._at_door if waiting not in due]
        return int(due[0].request.copies) if due else 1

    def _signal_if_due(self, event: str, origin: str, sequence: int) -> None:
        """Die at exactly this event, if a fault waits for it: between two datagrams, or when the call that logged it is committed."""
        for waiting in self._signals:
            wanted = waiting.request
            fits = wanted.event == event and wanted.origin in {"", origin} and wanted.sequence in {0, sequence}
            if fits and waiting.is_over():
                self._due_signal = wanted.signal
                if event == "send":
                    self._signal_self()

    def _signal_self(self) -> None:
        """Send the signal that is due. Who dies counts what is left unread, or it would be missing from the books."""
        if self._due_signal == signal.SIGKILL:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(1)
                    self._counters[counters.REFUSED["unread"]] += 1
            # From here on the kernel counts.
            self._socket.close()
        os.kill(os.getpid(), self._due_signal)

    def _on_request(self) -> None:
        """Do what the testbed asks, all that it has asked by now: messages that are broadcast at once can share datagrams."""
        for _ in range(MOST_PER_WAKE_UP):
            try:
                request, asker = self._control.recvfrom(65536)
            except BlockingIOError:
                break
            if self._stops_at(request):
                return
            if asker:
                # Whoever can be answered wants to know when it is in force.
                with suppress(OSError):
                    self._control.sendto(request, asker)
            if self._due_signal:
                break
        self._finish_wake_up()

    def _stops_at(self, encoded: bytes) -> bool:
        """Do what a request says; whether it says to stop."""
        match decode_request(encoded):
            case BroadcastRequest(payload=payload):
                self._broadcast(payload)
            case Hush():
                # The last sample is of this moment: from now on it is not the protocol that is quiet.
                self._hushed = True
                self._sampler.cancel()
                self._sample()
            case SetClock(offset_s=offset_s, rate=rate):
                self._clock_set_s, self._clock_offset_s, self._clock_rate = time.time(), offset_s, rate
            case AtDoor() as request:
                self._at_door.append(_Countdown(request))
            case SignalWhen() as request:
                self._signals.append(_Countdown(request))
            case Stop():
                self._close()
                self._end.set_result(None)
                return True
        return False

    def _broadcast(self, payload: bytes) -> None:
        """Number the message, durably, and hand it to the core."""
        sequence = self._last_broadcast = self._last_broadcast + 1
        self._storage.put(_LAST_BROADCAST, sequence)
        self._counters[counters.BROADCAST] += 1
        self._log("broadcast", self.host, sequence)
        self._core.on_broadcast(sequence, payload)

    def _on_alarm(self) -> None:
        """Fire every timer that is due."""
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now and not self._due_signal:
            deadline, name = heapq.heappop(self._deadlines)
            if self._timers.get(name) == deadline:
                del self._timers[name]
                self._core.on_timer(name)
        self._finish_wake_up()

    def _on_sample(self) -> None:
        """Say twice a second how much was sent and how much is kept."""
        self._sample()
        self._storage.commit()
        self._sampler = self._loop.call_later(SAMPLE_S, self._on_sample)

    def _sample(self) -> None:
        self.trace("sample", sent=self._counters[counters.SENT], items=retained_items(self._core))

    def _finish_wake_up(self) -> None:
        """Commit, then send, then set the one alarm."""
        self._storage.commit()
        if self._due_signal:
            self._signal_self()
        self._send_what_is_due()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Wake up for the first timer, or for what waits to be packed; while the socket has no room, that waits for room."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        moments = [self._deadlines[0][0]] if self._deadlines else []
        if (due_ns := self._packer.due_ns) is not None and not self._outbox:
            moments.append(due_ns / 1e9)
        if moments and not self._hushed:
            self._alarm = self._loop.call_later(min(moments) - time.monotonic(), self._on_alarm)

    def _send_what_is_due(self) -> None:
        """Make datagrams of what is due and send them. While the socket is full, messages wait, and more of them can be packed."""
        if self._hushed:
            self._outbox.clear()
            self._packer.clear()
        if self._outbox:
            self._send_outbox()
        if not self._outbox:
            made_ns, encode = time.time_ns(), self._codec.datagram
            for to, parts in self._packer.take(time.monotonic_ns()):
                self._packet += 1
                self._outbox.append((encode(self._number, self._packet, parts, made_ns), self._endpoints[to], parts))
            self._send_outbox()

    def _send_outbox(self) -> None:
        """Send datagrams; when the socket is full, go on as soon as it has room."""
        outbox, counts, sendto = self._outbox, self._counters, self._socket.sendto
        sent, sent_for, messages, purpose_at = counters.SENT, counters.SENT_FOR, counters.MESSAGES, wire.PURPOSE_AT
        while outbox:
            datagram, endpoint, parts = outbox[0]
            try:
                sendto(datagram, endpoint)
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._on_writable)
                return
            except OSError:
                counts[counters.SEND_FAILED] += 1
            else:
                counts[sent] += 1
                counts[sent_for[datagram[purpose_at]]] += 1
                counts[messages] += len(parts)
            outbox.popleft()
            if self._signals:
                for part in parts:
                    self._signal_if_due("send", part.message.origin, part.message.sequence)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._send_what_is_due()
        self._set_alarm()

    def _on_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something that the event loop called has raised: let `run` raise it."""
        if not self._end.done():
            self._close()
            self._end.set_exception(context.get("exception") or RuntimeError(context["message"]))

    def _close(self) -> None:
        """Take no more events, not even those that the event loop has already seen."""
        self._sampler.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        self._loop.remove_writer(self._socket)
        for end in (self._socket, self._control):
            self._loop.remove_reader(end)
            end.close()


class _Countdown:
    """A request that waits for its n-th occasion."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self._left = request.nth

    def is_over(self) -> bool:
        """Count an occasion; whether it is the one."""
        self._left -= 1
        return bool(self._left == 0)


def _udp_socket(address: str, port: int) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setblocking(False)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    # Linux names this option, Python does not: like SO_RCVBUF, but not held to the limit for ordinary users.
    so_rcvbufforce = 33
    udp.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, RECEIVE_BUFFER)
    udp.bind((address, port))
    return udp


def _control_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.setblocking(False)
    control.bind(str(path))
    return control
