"""The fan: a source numbers its messages and sends each of them to every host; how much is done about losses is a matter of level.

Source: the third paper (Spauster), section 6.4, Protocols 0 to 3, as `level` 0 to 3. The paper has one source; here every host may be one,
and each source has numbers and receivers of its own, so that no source knows of another.

    level  what a receiver does                                                          the paper's properties
    0      delivers what arrives, as often as it arrives                                 P1, P2, Q0, R0
    1      delivers in the order of numbers, each number once; waits for ever for a gap  P2, Q0, R1
    2      asks the source for the numbers that are missing                              P2, Q0, R1
    3      asks also for what it missed while it was down; null messages tell of it      P2, Q2, R1

Model. The source does not fail for good ([A1]). Level 1 assumes that no datagram is lost ([A2]); a lost one blocks all later messages of
its source at that host. Hosts may crash and restart; the number of the last delivered message survives ([A3]). At levels 1 and 2 a host
that restarts gives up what was sent while it was down: it goes on with the first message that it hears, at level 1 not before phi_N is
over, so that no older message is on its way any more.

Guarantees. Level 0: no creation. From level 1 on also no duplication and the order of each source, strictly: at all hosts, also those that
fail. Level 3: validity, as far as the source itself can reach. A source keeps all its messages at levels 2 and 3, as receivers do not
acknowledge anything; so bounded memory is not promised.

Bounds (with phi_P = `process_ms`, phi_N = `network_ms`, delta = `silence_ms`). Level 0: Delta = phi_P for P1, phi_N + phi_P for P2.
Level 1: Delta = phi_N + phi_P, as long as nothing is lost anywhere; one loss ends P2 for good, so it is not promised here. Levels 2 and 3:
Delta = 3 phi_P + 3 phi_N. Level 3: rho = delta + 3 phi_P + 3 phi_N.

Messages. `Copy` to each host (data, or repair when it was asked for), `Request` to the source (control), at level 3 `Null` to each host
(control) after every delta of silence. n - 1 datagrams per message among n hosts when nothing is lost; on a network that multicasts, one.

Decisions. A null message carries the number of the source's last message instead of a number of its own: it tells as much, and need not be
repeated. Requests are those of `hostagent.parts.in_order`; beside what the paper says, one that is not answered in time is repeated.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength, TimeBound, Timing
from hostagent.parts.delivery import Copy
from hostagent.parts.in_order import InOrder, Null, Request, asked_for
from hostagent.parts.streams import StreamParameters


class FanParameters(StreamParameters, frozen=True, kw_only=True):
    """The level, and the times that the paper's bounds are made of."""

    level: Annotated[int, msgspec.Meta(ge=0, le=3)] = 3
    """What is done about losses: 0 nothing, 1 order, 2 also requests, 3 also recovery of what was missed while down."""


class Fan(Core):
    """Number, send, and put into order."""

    name = "fan"
    number = 7
    summary = (
        "one source sends to all; level=0 to 3: unordered, ordered, with requests, with recovery of what was missed while down"
    )
    assumes = "the source comes back with its storage; at level 1, nothing is lost"
    beyond = frozenset({"restart-lost"})
    messages = (Copy, Null, Request)
    Parameters = FanParameters
    parameters: FanParameters

    def __init__(self, env: Environment, parameters: FanParameters) -> None:
        super().__init__(env, parameters)
        self.sent: dict[int, bytes] = {}
        """The messages of this host, from level 2 on."""
        self.last_sent = self.nulls = 0
        wait_ms = 2 * (parameters.process_ms + parameters.network_ms) if parameters.level >= 2 else None
        self.received = self.add("received", lambda own: InOrder(own, self.env.deliver, wait_ms, insists=True))
        self.awake: dict[str, None] = {}
        """The sources from which this host has heard nothing since it restarted, while it gives up what it missed."""
        self.settled = True
        """Whether nothing that was sent while this host was down can arrive any more."""

    @classmethod
    def promise(cls, parameters: FanParameters, hosts: int) -> Promise:
        """What each level adds. A null message, the request and its answer fail twenty times in a row once in a million cases."""
        level, in_order = parameters.level, Order(Scope.SINGLE_SOURCE, Strength.STRICT)
        guarantees = [Guarantee.NO_CREATION, Guarantee.QUIESCENCE]
        guarantees += [Guarantee.NO_DUPLICATION] if level else []
        guarantees += [Guarantee.VALIDITY] if level == 3 else []
        return Promise(
            guarantees=tuple(guarantees),
            orders=(in_order,) if level else (),
            time_bounds=tuple(_bounds(parameters)),
            patience_ms=20 * parameters.bound_ms,
            background_per_source=(hosts - 1) * 1000 / parameters.silence_ms if level == 3 else 0.0,
            retained=2 * hosts,
        )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what was sent and delivered. Levels 1 and 2 go on with the first message that they hear."""
        self.sent = {int(key.removeprefix("message/")): value for key, value in stored.items() if key.startswith("message/")}
        self.last_sent = max(self.sent, default=0)
        if "started" in stored and self.parameters.level in {1, 2}:
            self.awake = dict.fromkeys(self.env.peers)
        if "started" in stored and self.parameters.level == 1:
            self.settled = False
            self.env.set_timer("settle", self.parameters.network_ms / 1000)
        self.env.store("started", True)
        self._speak_later()

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Deliver here, and send to everybody else: fragment (D)."""
        self.env.deliver(self.env.host, sequence, payload)
        self.last_sent = sequence
        if self.parameters.level >= 2:
            self.sent[sequence] = payload
            self.env.store(f"message/{sequence}", payload)
        self.env.multicast(EVERYBODY, Copy(EVERYBODY, self.env.host, sequence, payload), Purpose.DATA)
        self._speak_later()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A copy, a sign of life of its source, or a request for copies."""
        match message:
            case Copy(origin=origin, sequence=sequence, payload=payload) if self.parameters.level == 0:
                self.env.receive(origin, sequence)
                self.env.deliver(origin, sequence, payload)
            case Copy(origin=origin, sequence=sequence, payload=payload):
                self._take(origin, sequence, payload)
            case Null(origin=origin, sequence=sequence):
                self.received.hear(origin, sequence)
            case Request(origin=self.env.host):
                self._send_again(sender, message)

    def on_timer(self, name: str) -> None:
        """Speak after a silence, or be settled after a restart."""
        if name == "silence":
            self.nulls += 1
            self.env.multicast(EVERYBODY, Null(EVERYBODY, self.env.host, self.last_sent), Purpose.CONTROL, turn=self.nulls)
            self._speak_later()
        elif name == "settle":
            self.settled = True
        else:
            super().on_timer(name)

    def _take(self, origin: str, number: int, payload: bytes) -> None:
        """Fragment (A), or (C) while this host is awake but not up."""
        if self.received.has(origin, number):
            return
        self.env.receive(origin, number)
        if origin in self.awake and not self.settled:
            self.received.keep(origin, number, payload)
            return
        if origin in self.awake:
            del self.awake[origin]
            self.received.give_up_before(origin, number)
            self.env.trace("recovered", (origin, number))
        self.received.take(origin, number, payload)

    def _send_again(self, to: str, request: Request) -> None:
        """Fragment (E)."""
        for number in asked_for(request, self.last_sent):
            if number in self.sent:
                self.env.send(to, Copy(EVERYBODY, self.env.host, number, self.sent[number]), Purpose.REPAIR)

    def _speak_later(self) -> None:
        """Fragment (F): send a null message if nothing else is sent until then."""
        if self.parameters.level == 3 and self.last_sent:
            self.env.set_timer("silence", self.parameters.silence_ms / 1000)


def _bounds(parameters: FanParameters) -> Iterator[TimeBound]:
    level, once_ms = parameters.level, parameters.process_ms + parameters.network_ms
    if level == 0:
        yield parameters.time_bound(Timing.P1, parameters.process_ms)
    if level != 1:
        yield parameters.time_bound(Timing.P2, 3 * once_ms if level >= 2 else once_ms)
    if level == 3:
        yield parameters.time_bound(Timing.Q2, parameters.bound_ms, parameters.silence_ms)
