"""A program in any language as a protocol: it speaks the JSON lines of Maelstrom's broadcast workload.

Source: jepsen-io/maelstrom, doc/protocol.md and doc/workloads.md. A program reads messages from its standard input and writes messages to
its standard output, one JSON object a line, with `src`, `dest` and `body`. Every host runs the program as a node, n1, n2, ... in the order
of the hosts. The core is its network and its client c1:

* a line to another node is sent to its host, in one datagram or, if it is long, in several, and may be lost as any datagram;
* the client sends `init` and `topology` when the host starts, and waits for the answers; `broadcast` for each message of the application;
  and `read` again and again, on the machine itself, without a packet;
* a value is a small whole number that names the message: (sequence - 1) times the number of hosts, plus the number of the origin from 0.
  The payload does not travel, as values of the workload are numbers.

Deliveries. With `deliveries=read` a message is delivered at a host when the host's answer to `read` first has its value; so the program is
run unmodified, delays are up to `read_ms` too long, and deliveries have no order. With `deliveries=reported` the program itself says when
it delivers, with one more type of message to the client, {"type": "deliver", "message": VALUE}, and nothing is read. Then orders can be
judged.

Guarantees. What the workload demands: nothing is delivered that was not broadcast, or twice, and when faults have ended and all hosts are
connected, everybody comes to have everything. With `order` also an order.

Costs. A line that carries a value which this host has not sent to that host before counts as data; one with values that it has all sent
before as repair; all others, such as answers, as control. Values are found in the fields `message` and `messages` of a body.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, SequenceNumber
from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.delivery import DeliverOnce
from hostagent.runtime.maelstrom.program_core import ProgramCore

CLIENT: Final = "c1"
# Leaves room in a datagram for the header and the numbers of the piece.
PIECE_BYTES: Final = 1400
MOST_PIECES: Final = 1024
# How many reads follow what may have changed the answer. A program may take its time, or learn something by itself.
READS_AFTER_NEWS: Final = 10
# How many periods of `read_ms` pass between two reads when there is no news.
IDLE_PERIODS: Final = 25
# Of each sender, lines of which some pieces have arrived. The pieces of one line leave together, so few are ever incomplete.
MOST_INCOMPLETE: Final = 8
_SCOPES: Final = {
    "none": (),
    "single-source": (Scope.SINGLE_SOURCE,),
    "causal": (Scope.CAUSAL,),
    "total": (Scope.MULTIPLE_SOURCE,),
}


class Piece(Message, frozen=True):
    """A line on its way to another host, or a part of a long one."""

    line: SequenceNumber
    """The number of the line at its sender."""
    place: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PIECES)]
    pieces: Annotated[int, msgspec.Meta(ge=1, le=MOST_PIECES)]
    data: Annotated[bytes, msgspec.Meta(max_length=PIECE_BYTES)]


class MaelstromParameters(Parameters, frozen=True, kw_only=True):
    """What the program is told, how its deliveries are learned, and what it promises."""

    topology: Literal["grid", "line", "tree2", "tree3", "tree4", "total"] = "grid"
    """The neighbours that the message `topology` names, in Maelstrom's words."""
    deliveries: Literal["read", "reported"] = "read"
    """Whether deliveries are read again and again, or reported by the program."""
    read_ms: Milliseconds = 20.0
    """The time between two reads while something is going on."""
    order: Literal["none", "single-source", "causal", "total"] = "none"
    """The order of deliveries that the program promises; it must then report them."""
    patience_ms: Milliseconds = 5000.0
    """How long after the faults everybody may take to come to have everything."""


class Body(msgspec.Struct):
    """What the core looks at in the body of a message."""

    type: str
    in_reply_to: int | None = None
    message: Any = None
    messages: Any = None
    text: Any = None


class Envelope(msgspec.Struct):
    """A message of Maelstrom."""

    src: str
    dest: str
    body: Body


_decode = msgspec.json.Decoder(Envelope).decode
_encode = msgspec.json.Encoder().encode


class Maelstrom(ProgramCore):
    """The network and the client of one node. Each program has a subclass with its name."""

    summary = "a program that speaks the JSON lines of Maelstrom"
    assumes = "what the program assumes"
    all_relay = True
    messages = (Piece,)
    Parameters = MaelstromParameters
    parameters: MaelstromParameters
    words: ClassVar[tuple[str, ...]]
    """The program and its arguments."""

    def __init__(self, env: Environment, parameters: MaelstromParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.lines: list[bytes] = []
        """Lines for the program, which the driver takes."""
        self.is_ready = False
        """Whether the program has answered `init` and `topology`."""
        self._nodes = {host: f"n{number}" for number, host in enumerate(env.hosts, start=1)}
        self._hosts = {node: host for host, node in self._nodes.items()}
        self._asked = 0
        self._reading = 0
        """The number of the read that is not answered; 0 if there is none."""
        self._news, self._idle = READS_AFTER_NEWS, 0
        # The pieces of a line of an earlier life must not be taken for those of another.
        self._line = env.random.randrange(1 << 31)
        self._sent: dict[str, set[int]] = {host: set() for host in env.peers}
        self._incomplete: dict[str, dict[tuple[int, int], dict[int, bytes]]] = {host: {} for host in env.peers}

    @classmethod
    def promise(cls, parameters: MaelstromParameters, hosts: int) -> Promise:
        """What the workload demands, and the order that the program is said to keep."""
        return Promise(
            guarantees=(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            orders=tuple(Order(scope=scope, strength=Strength.STRICT) for scope in _SCOPES[parameters.order]),
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms,
            quorum=hosts,
            retained=0,
        )

    @classmethod
    def check(cls, parameters: MaelstromParameters, hosts: tuple[str, ...]) -> None:  # noqa: ARG003 - every core has it so
        """What is read has no order."""
        if parameters.order != "none" and parameters.deliveries == "read":
            raise ValueError(
                f"order={parameters.order} can be judged only with deliveries=reported, as an answer to read has no order"
            )

    def command(self, addresses: Mapping[str, str], directory: Path) -> tuple[str, ...]:  # noqa: ARG002 - it knows nodes only
        """The user's program."""
        return self.words

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: ARG002 - the program has its own storage, if any
        """Tell the program who it is, and who its neighbours are."""
        self._ask("init", node_id=self._nodes[self.env.host], node_ids=list(self._hosts))

    def on_broadcast(self, sequence: int, payload: bytes) -> None:  # noqa: ARG002 - values are numbers
        """Hand a message of the application to the program, under its number."""
        self._ask("broadcast", message=(sequence - 1) * len(self.env.hosts) + self.env.hosts.index(self.env.host))

    def on_message(self, sender: str, message: Piece, expensive: bool) -> None:  # noqa: ARG002 - the program knows of no costs
        """A piece of a line has arrived: hand the line to the program when it is whole."""
        lines, key = self._incomplete[sender], (message.line, message.pieces)
        pieces = lines.setdefault(key, {})
        pieces[message.place] = message.data
        if len(pieces) == message.pieces:
            del lines[key]
            self._tell(b"".join(data for _, data in sorted(pieces.items())))
        elif len(lines) > MOST_INCOMPLETE:
            del lines[min(lines)]

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one timer
        """Read what the program has, unless it has not answered the last time, or has no reason to have more."""
        self._idle += 1
        if not self._reading and (self._news or self._idle >= IDLE_PERIODS):
            self._idle, self._news = 0, max(0, self._news - 1)
            self._ask("read")
            self._reading = self._asked
        self.env.set_timer("read", self.parameters.read_ms / 1000)

    def on_line(self, line: bytes) -> None:
        """The program has written a line."""
        try:
            found = _decode(line)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is not a message of Maelstrom: {error}") from None
        if found.dest == CLIENT:
            self._answer(found.body)
        elif found.dest == self._nodes[self.env.host]:
            self._tell(line)
        elif found.dest in self._hosts:
            self._send(self._hosts[found.dest], line, found.body)
        else:
            raise ValueError(
                f"it wrote to {found.dest}, and there are the nodes n1 to n{len(self._hosts)} and the client {CLIENT}, and no services"
            )

    def _answer(self, body: Body) -> None:
        """The program answers the client, or reports a delivery."""
        match body.type:
            case "init_ok":
                self._ask("topology", topology=_neighbours(self.parameters.topology, list(self._hosts)))
            case "topology_ok":
                self.is_ready = True
                if self.parameters.deliveries == "read":
                    self.env.set_timer("read", self.parameters.read_ms / 1000)
            case "read_ok":
                self._reading = 0
                for value in _list(body.messages):
                    origin, sequence = self._named(value)
                    self.delivery.deliver(origin, sequence, b"")
            case "deliver":
                if self.parameters.deliveries == "read":
                    raise ValueError(f"it reports deliveries: add --set {self.name}.deliveries=reported, or have it report none")
                self.env.deliver(*self._named(body.message), b"")
            case "error":
                raise ValueError(f"it answered with an error: {body.text or 'without a text'}")

    def _named(self, value: Any) -> tuple[str, int]:
        """The origin and the number of the message that a value stands for."""
        if type(value) is not int or value < 0:
            raise ValueError(f"it delivered {value!r}, which is not a value that was broadcast")
        before, place = divmod(value, len(self.env.hosts))
        return self.env.hosts[place], before + 1

    def _ask(self, kind: str, **fields: Any) -> None:
        """Send a message of the client to the program."""
        self._asked += 1
        body = {"type": kind, "msg_id": self._asked, **fields}
        line = _encode({"src": CLIENT, "dest": self._nodes[self.env.host], "body": body})
        if kind == "read":
            self.lines.append(line)
        else:
            self._tell(line)

    def _tell(self, line: bytes) -> None:
        """Hand the program a line that may change what it has."""
        self.lines.append(line)
        self._news = READS_AFTER_NEWS

    def _send(self, host: str, line: bytes, body: Body) -> None:
        """Send a line to another host, in as many datagrams as it takes."""
        about, purpose = (self.env.host, 0), Purpose.CONTROL
        values = [value for value in (body.message, *_list(body.messages)) if type(value) is int and value >= 0]
        if values:
            new = [value for value in values if value not in self._sent[host]]
            self._sent[host].update(new)
            about, purpose = self._named((new or values)[0]), Purpose.DATA if new else Purpose.REPAIR
        self._line += 1
        pieces = list(_cut(line))
        if len(pieces) > MOST_PIECES:
            raise ValueError(f"it wrote a line of {len(line)} bytes to another node: {MOST_PIECES * PIECE_BYTES} are the most")
        for place, data in enumerate(pieces):
            self.env.send(host, Piece(EVERYBODY, *about, self._line, place, len(pieces), data), purpose)


def _list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _cut(line: bytes) -> Iterator[bytes]:
    for start in range(0, len(line), PIECE_BYTES):
        yield line[start : start + PIECE_BYTES]


def _neighbours(topology: str, nodes: list[str]) -> dict[str, list[str]]:
    """The neighbours of each node, as Maelstrom's topologies of these names have them."""
    pairs: set[tuple[int, int]] = set()
    count = len(nodes)
    if topology == "total":
        pairs = {(one, other) for one in range(count) for other in range(one)}
    elif topology == "line":
        pairs = {(one, one - 1) for one in range(1, count)}
    elif topology == "grid":
        side = max(side for side in range(1, count + 1) if (side - 1) ** 2 < count)
        pairs = {(one, one - 1) for one in range(1, count) if one % side} | {(one, one - side) for one in range(side, count)}
    else:
        branches = int(topology.removeprefix("tree"))
        pairs = {(one, (one - 1) // branches) for one in range(1, count)}
    both = sorted({*pairs, *((other, one) for one, other in pairs)})
    return {node: [nodes[other] for one, other in both if one == place] for place, node in enumerate(nodes)}
