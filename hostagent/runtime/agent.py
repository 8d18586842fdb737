"""The agent: a protocol core on a real UDP socket, with a real clock, in the network namespace of its host.

One wake-up reads many datagrams, lets the core react to each, commits what the core stored and logged, and only then sends the core's
messages, those to the same host in one datagram. The core's timers and the messages that wait to be packed share one event loop timer.
"""

import asyncio
import heapq
import math
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from hostagent.contract import wire
from hostagent.contract.core import Core
from hostagent.contract.environment import NS_PER_MS, NS_PER_S, Clock, Receiver
from hostagent.runtime import batches, counters
from hostagent.runtime.control import (
    LONGEST_REQUEST,
    AtDoor,
    GroupRequest,
    Hush,
    JoinRequest,
    LeaveRequest,
    SetClock,
    StartOrder,
    Stop,
    decode_offers,
    decode_request,
)
from hostagent.runtime.guests.core import Guest
from hostagent.runtime.life import Life
from hostagent.runtime.maelstrom.program import Program, ProgramEnded
from hostagent.runtime.maelstrom.program_core import ProgramCore
from hostagent.runtime.memory import retained_items
from hostagent.runtime.own import Own
from hostagent.runtime.packing import Packer
from hostagent.runtime.storage import Storage

# Let timers and requests have a turn after this many datagrams, however fast more arrive.
MOST_PER_WAKE_UP: Final = 256
# Messages of the application that wait at the door before the socket is read no further.
MOST_AT_DOOR: Final = 64
# Room for bursts while the process waits for a processor: 4 MiB hold over 5,000 small datagrams with the kernel's overhead.
RECEIVE_BUFFER: Final = 4 << 20
SAMPLE_S: Final = 0.5
# A program may be one that starts the virtual machine of its language. The testbed waits longer for its agents.
PROGRAM_STARTS_S: Final = 50.0
# Of a line of a program, what an error message shows.
LONGEST_SHOWN: Final = 200
# Two options that Python does not name. SO_RCVBUFFORCE is like SO_RCVBUF, but not bounded by the limit for ordinary users. With
# IP_MULTICAST_ALL off, a socket gets the datagrams of the groups that it has joined, and not of all groups that its interface has joined.
_SO_RCVBUFFORCE: Final = 33
_IP_MULTICAST_ALL: Final = 49
# The default of unicast: switches do not count hops, so one would do.
_MULTICAST_TTL: Final = 64


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all agents of a run share."""

    run: int
    protocol: str
    parameters: dict[str, Any]
    own: Own | None = None
    """The protocol's file if it is a user's."""
    seed: int
    port: int
    addresses: dict[str, str]
    """Every host and its IPv4 address, in the static order."""
    groups: dict[int, tuple[str, ...]] = {}
    """The members of each group at the start of the run, by number."""
    group_addresses: dict[int, str] = {}
    """On a network that multicasts, the IPv4 address of each group, also of the group of all hosts; else empty."""
    events: str
    """The directory of the event logs."""
    private: str
    """The directory of files that exist only during the run: storage, counters and control sockets."""
    pack_ms: float | None = 0.0
    """How messages to the same host share a datagram; `hostagent.runtime.packing` has the values."""

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

    def door(self, host: str) -> Path:
        """The socket for what the application of a host wants to broadcast."""
        return Path(self.private, f"{host}.door")

    def failure(self, host: str) -> Path:
        """What a host's agent writes if its core has raised an exception: a `Failure` as JSON."""
        return Path(self.private, f"{host}.failure")

    def program_errors(self, host: str) -> Path:
        """The standard error of the program of a host."""
        return Path(self.private, f"{host}.program")

    def program_directory(self, host: str) -> Path:
        """Where the program of a host may keep files. It outlives a crash, and not the run."""
        return Path(self.private, f"{host}.files")


class Agent:
    """Drives one life of a host: calls the core, and carries out what the core asks for."""

    def __init__(self, core: type[Core], setting: Setting, order: StartOrder) -> None:
        host, hosts = order.host, tuple(setting.addresses)
        numbers = {name: number for number, name in enumerate(hosts, start=1)}
        self._host, self._number = host, numbers[host]
        self._codec = wire.Codec(core.number, core.messages, setting.run, numbers, receiver=host)
        self._endpoints: dict[Receiver, tuple[str, int]] = {}
        self._endpoints |= {name: (address, setting.port) for name, address in setting.addresses.items()}
        self._endpoints |= {group: (address, setting.port) for group, address in setting.group_addresses.items()}
        self._endpoints |= {made.group: (made.address, setting.port) for made in order.groups if made.address}
        self._counters, shared = counters.open_counters(setting.counters(host))
        # One byte more than a datagram may have, so that a longer one is noticed.
        self._batch = batches.Batch(shared, wire.LONGEST_DATAGRAM + 1)
        self._storage = Storage(setting.storage(host), setting.event_log(host))
        self._port = setting.port
        self._joined: set[int] = set()
        """The groups that the socket hears."""
        self._packet = order.incarnation << 32
        self._packer = Packer(setting.pack_ms)
        self._outbox: deque[tuple[bytes, tuple[str, int], list[wire.Part]]] = deque()
        self._hushed = False
        self._timers: dict[str, int] = {}
        self._deadlines: list[tuple[int, str]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._clock = Clock(time.time_ns, time.monotonic_ns)
        if order.clock is not None:
            self._set_clock(order.clock)
        self._socket = _udp_socket(setting.addresses[host], setting.port, multicasts=bool(setting.group_addresses))
        self._control = _unix_socket(setting.control(host))
        self._door = _unix_socket(setting.door(host))
        self._is_door_open = True
        """Whether messages of the application are read: while too many wait, they stay in the socket, and the testbed waits with more."""
        self._life = Life(
            core,
            msgspec.convert(setting.parameters, core.Parameters),
            host=host,
            hosts=hosts,
            seed=setting.seed,
            incarnation=order.incarnation,
            clock=self._clock,
            codec=self._codec,
            groups=setting.groups | {made.group: made.members for made in order.groups},
            multicasts=bool(setting.group_addresses),
            crashes=order.crashes,
        )
        self._life.start(self._storage.values)
        self._program: Program | None = None
        if isinstance(self._life.core, ProgramCore):
            self._start_program(self._life.core, setting)
        # Before this agent is reported as ready: datagrams to a group may come as soon as all agents are.
        self._join_and_leave()

    def _start_program(self, core: ProgramCore, setting: Setting) -> None:
        """Start the program of a core, and wait until it has answered what it is told at its start."""
        deadline = time.monotonic() + PROGRAM_STARTS_S
        try:
            command = core.command(setting.addresses, setting.program_directory(self._host))
            self._program = Program(command, setting.program_errors(self._host))
            while not core.is_ready:
                self._program.write(_taken(core.lines))
                self._program.wait(deadline - time.monotonic())
                for line in self._program.read():
                    self._tell_line(core, line)
        except ProgramEnded as ended:
            raise self._life.failed(ended, "when it started") from ended

    def _tell_line(self, core: ProgramCore, line: bytes) -> None:
        shown = line[:LONGEST_SHOWN].decode(errors="replace")
        self._life.tell(lambda: core.on_line(line), f"when it wrote: {shown}{'...' if len(line) > LONGEST_SHOWN else ''}")

    def _on_program(self) -> None:
        """The program has written something, or has ended."""
        core = self._life.core
        assert self._program is not None
        assert isinstance(core, ProgramCore)
        try:
            lines = self._program.read()
        except ProgramEnded as ended:
            raise self._life.failed(ended, "when its program ended") from ended
        for line in lines:
            self._tell_line(core, line)
            if self._life.is_over:
                break
        self._finish_wake_up()

    def _end_guest(self) -> None:
        """End a guest, which cannot be told to be silent. Other programs send through this agent."""
        if self._program is not None and isinstance(self._life.core, Guest):
            self._loop.remove_reader(self._program.output)
            self._loop.remove_writer(self._program.input)
            self._program.end()
            self._program = None

    def _write_program(self) -> None:
        """Hand the program its lines, and go on when it has room for more."""
        if self._program is not None and isinstance(self._life.core, ProgramCore):
            if self._program.write(_taken(self._life.core.lines)):
                self._loop.add_writer(self._program.input, self._write_program)
            else:
                self._loop.remove_writer(self._program.input)

    async def run(self) -> None:
        """Serve until asked to stop, or until something goes wrong: a wake-up that failed half-way must be neither committed nor sent."""
        loop = self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = loop.create_future()
        loop.set_exception_handler(self._on_failure)
        loop.add_reader(self._socket, self._on_datagrams)
        loop.add_reader(self._control, self._on_request)
        loop.add_reader(self._door, self._on_offers)
        if self._program is not None:
            loop.add_reader(self._program.output, self._on_program)
        self._finish_wake_up()
        self._on_sample()
        await self._end
        self._life.log("stop")
        self._commit()
        self._storage.close()

    def _set_clock(self, fault: SetClock) -> None:
        self._clock.put_off(fault.offset_ns, fault.rate, fault.since_ns)

    def _on_datagrams(self) -> None:
        """Drain the socket."""
        for _ in range(MOST_PER_WAKE_UP // batches.MOST):
            datagrams = self._batch.receive(self._socket)
            self._take(iter(datagrams))
            self._batch.forget(len(datagrams))
            self._counters[counters.BEFORE_BATCH] += len(datagrams)
            if len(datagrams) < batches.MOST or self._life.is_over:
                break
        self._finish_wake_up()

    def _take(self, datagrams: Iterator[tuple[int, int, int]]) -> None:
        """Hand the datagrams of a batch to the core, up to a crash, and count them."""
        data, decode, life, received = self._batch.data, self._codec.decode, self._life, 0
        for start, length, service in datagrams:
            try:
                decoded = decode(data, start, length)
            except wire.Refused as refusal:
                self._counters[counters.REFUSED[refusal.reason]] += 1
                continue
            if life.receive(decoded.sender, decoded.messages, expensive=service & 0xFC == wire.COST_TOS):
                received += 1
            else:
                self._counters[counters.REFUSED["injected"]] += 1
            if life.crash_due is not None:
                break
        self._counters[counters.RECEIVED] += received
        self._counters[counters.REFUSED["unread"]] += len(list(datagrams))

    def _crash(self) -> None:
        """Report which crash was due, and die at once."""
        os.write(1, f"crash {self._host} {self._life.crash_due}\n".encode())
        self._count_unread()
        # From here on the kernel counts the datagrams that arrive.
        self._socket.close()
        os.kill(os.getpid(), signal.SIGKILL)

    def _count_unread(self) -> None:
        """Count the datagrams that this agent will not read, or the books would miss them."""
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
                self._counters[counters.REFUSED["unread"]] += 1

    def _on_offers(self) -> None:
        """Read what the application wants to broadcast: messages that are broadcast together can share datagrams."""
        # A group that a message is for may be as new as the message.
        if self._serve_requests():
            if not self._hushed:
                self._read_offers(MOST_AT_DOOR)
            self._finish_wake_up()

    def _read_offers(self, most: float) -> None:
        """Let messages of the application come to the door, until so many wait there."""
        with suppress(BlockingIOError):
            while len(self._life.door) < most:
                for offer in decode_offers(self._door.recv(LONGEST_REQUEST)):
                    self._life.offer(offer.payload, offer.to, offer.due_ns)

    def _admit(self) -> None:
        """Broadcast what waits at the door and has room. While many wait, read no more."""
        self._counters[counters.BROADCAST] += self._life.admit()
        if self._is_door_open != (is_open := len(self._life.door) < MOST_AT_DOOR):
            self._is_door_open = is_open
            if is_open:
                self._loop.add_reader(self._door, self._on_offers)
            else:
                self._loop.remove_reader(self._door)

    def _on_request(self) -> None:
        """Requests of the testbed have come."""
        if self._serve_requests():
            self._finish_wake_up()

    def _serve_requests(self) -> bool:
        """Serve all requests of the testbed that wait. Returns whether the agent goes on."""
        for _ in range(MOST_PER_WAKE_UP):
            try:
                request, asker = self._control.recvfrom(LONGEST_REQUEST)
            except BlockingIOError:
                break
            if self._stops_at(request):
                return False
            if asker:
                # The testbed waits for this confirmation that the request is in force.
                with suppress(OSError):
                    self._control.sendto(request, asker)
            if self._life.is_over:
                break
        return True

    def _stops_at(self, encoded: bytes) -> bool:
        """Serve a request, and say whether it was `Stop`."""
        match decode_request(encoded):
            case JoinRequest(group=group):
                self._life.join(group)
            case LeaveRequest(group=group):
                self._life.leave(group)
            case GroupRequest(group=group, members=members, address=address):
                if address:
                    self._endpoints[group] = address, self._port
                self._life.define(group, members)
            case Hush(held_back=held_back):
                self._loop.remove_reader(self._door)
                # What is still in the socket is held back too.
                self._read_offers(math.inf)
                self._life.hush(held_back)
                # Take the last sample now: from here on the silence is not the protocol's doing.
                self._hushed = True
                self._sampler.cancel()
                self._sample()
                self._end_guest()
            case SetClock() as request:
                self._set_clock(request)
            case AtDoor() as request:
                self._life.fault_at_door(request)
            case Stop():
                self._count_unread()
                self._close()
                self._end.set_result(None)
                return True
        return False

    def _on_alarm(self) -> None:
        """Fire every timer that is due."""
        self._alarm = None
        now_ns = time.monotonic_ns()
        while self._deadlines and self._deadlines[0][0] <= now_ns and not self._life.is_over:
            due_ns, name = heapq.heappop(self._deadlines)
            if self._timers.get(name) == due_ns:
                del self._timers[name]
                self._life.fire(name)
                self._set_timers()
        self._finish_wake_up()

    def _on_sample(self) -> None:
        """Log twice a second how much was sent, how much is kept, and how much of a processor was used."""
        self._sample()
        self._finish_wake_up()
        self._sampler = self._loop.call_later(SAMPLE_S, self._on_sample)

    def _sample(self) -> None:
        used_ms = time.process_time_ns() // NS_PER_MS
        self._life.log("sample", sent=self._counters[counters.SENT], items=retained_items(self._life.core), processor_ms=used_ms)

    def _finish_wake_up(self) -> None:
        """Admit, commit, then send, then set the alarm."""
        if self._life.door:
            self._admit()
        self._commit()
        if self._life.is_over:
            self._crash()
        self._write_program()
        self._send_what_is_due()
        self._set_alarm()

    def _commit(self) -> None:
        """Make durable what the core stored and logged, and hand the core's messages to the packer."""
        effects = self._life.effects
        self._storage.commit(effects.stored, effects.events)
        self._counters[counters.DELIVERED] += len(effects.deliveries)
        for to, part in effects.sends:
            self._packer.add(to, part)
        self._set_timers()
        self._join_and_leave()
        self._life.committed()

    def _join_and_leave(self) -> None:
        """On a network that multicasts, have the socket hear the groups that this host is a member of, and no others."""
        for group, is_member in self._life.effects.memberships.items():
            if group in self._endpoints and is_member != (group in self._joined):
                option = socket.IP_ADD_MEMBERSHIP if is_member else socket.IP_DROP_MEMBERSHIP
                addresses = self._endpoints[group][0], self._endpoints[self._host][0]
                self._socket.setsockopt(socket.IPPROTO_IP, option, b"".join(map(socket.inet_aton, addresses)))
                self._joined ^= {group}

    def _set_timers(self) -> None:
        """Set, move and cancel timers. The heap keeps the old entry of a timer that is moved or cancelled, until it would be the next."""
        timers = self._life.effects.timers
        for name, due_ns in timers.items():
            if due_ns is None:
                self._timers.pop(name, None)
            else:
                self._timers[name] = due_ns
                heapq.heappush(self._deadlines, (due_ns, name))
        timers.clear()

    def _set_alarm(self) -> None:
        """Wake up for the first timer, or for messages that wait to be packed; while the socket is full, those wait for room."""
        if self._alarm is not None:
            if self._alarm.when() <= self._loop.time() and not self._hushed:
                # It goes off next. A new one would have to wait for the next messages of the application too, again and again.
                return
            self._alarm.cancel()
            self._alarm = None
        deadlines, timers = self._deadlines, self._timers
        # Old entries must not wake the agent: a timer that is moved with every message leaves as many.
        while deadlines and timers.get(deadlines[0][1]) != deadlines[0][0]:
            heapq.heappop(deadlines)
        moments_ns = [deadlines[0][0]] if deadlines else []
        if (due_ns := self._packer.due_ns) is not None and not self._outbox:
            moments_ns.append(due_ns)
        if moments_ns and not self._hushed:
            self._alarm = self._loop.call_later((min(moments_ns) - time.monotonic_ns()) / NS_PER_S, self._on_alarm)

    def _send_what_is_due(self) -> None:
        """Pack the messages that are due and send them. While the socket is full, messages wait, so more of them share datagrams."""
        if self._hushed:
            self._outbox.clear()
            self._packer.clear()
        if self._outbox:
            self._send_outbox()
        if not self._outbox:
            made_ns, encode, packs = time.time_ns(), self._codec.datagram, dict[tuple[int, ...], bytes]()
            for to, parts in self._packer.take(time.monotonic_ns()):
                self._packet += 1
                self._outbox.append((encode(self._number, self._packet, parts, made_ns, packs), self._endpoints[to], parts))
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
            if self._life.crashes:
                self._life.sent(parts)
                if self._life.is_over:
                    self._crash()

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._send_what_is_due()
        self._set_alarm()

    def _on_failure(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the event loop has raised an exception: let `run` raise it."""
        if not self._end.done():
            self._close()
            self._end.set_exception(context.get("exception") or RuntimeError(context["message"]))

    def _close(self) -> None:
        """Handle no more events, not even those that the event loop has already received."""
        self._sampler.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        self._loop.remove_writer(self._socket)
        if self._program is not None:
            self._loop.remove_writer(self._program.input)
            self._loop.remove_reader(self._program.output)
            self._program.end()
        for end in (self._socket, self._control, self._door):
            self._loop.remove_reader(end)
            end.close()


def _taken(lines: list[bytes]) -> list[bytes]:
    """The lines that wait, which do not wait any longer."""
    taken = lines[:]
    lines.clear()
    return taken


def _udp_socket(address: str, port: int, *, multicasts: bool) -> socket.socket:
    """The socket of the host with this address. One that is to hear groups is bound to no address: it would hear that address only."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setblocking(False)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
    if multicasts:
        udp.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, _MULTICAST_TTL)
    udp.bind(("" if multicasts else address, port))
    return udp


def _unix_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.bind(str(path))
    return made
