"""SPO: every message names its destinations, and every entity gets all and only its own messages, in the order of each sender.

Source: the fifth paper (Nakamura, Terauchi and Takizawa), for a broadcast network on which datagrams are lost. Every host of the run is an
entity of the cluster.

How. A PDU has a number among all PDUs of its sender (TSEQ) and one for each destination (PSEQ), so a destination sees which PDUs it lacks
although others are not for it. Every PDU carries what its sender expects next from each entity (ACK). A PDU is *accepted* in order, and
not before all that its sender had accepted; *pre-acknowledged* when all its destinations are known to have accepted it; *acknowledged*
when all of them are known to have pre-acknowledged it, which is when it is delivered. A sender may have min(W, smallest BUF) / (H n^2)
PDUs on their way; further messages wait at their source.

Losses. LC1: the PSEQ of a PDU shows that earlier ones are missing; they are asked for at once. LC2: another entity has accepted a PDU of a
sender that this one has not. It may not be for this one, so the entity waits for the next PDU of that sender, which tells by its PSEQ, and
asks only when `wait_ms` is over; with `lc2=at-once` it asks at once. Only what was asked for is sent again, to the one that asked.

Model. Datagrams are lost, duplicated and reordered; hosts crash and restart with their storage. All entities must be there: one that
stays away stops all that have it among their destinations, as it acknowledges nothing.

Guarantees. No creation: nothing at an entity that is no destination. No duplication, the order of each sender, strictly; safe: when an
entity delivers a message, all destinations have received it. When all are back, all destinations deliver (convergence and progress).

Messages. One PDU (data) to everybody for each message: n - 1 datagrams, or one on multicast. Entities without data acknowledge with empty
PDUs (control), after `answer_ms` at most. A message to m entities that no other message helps to acknowledge takes one from each
destination but the sender, and when those are pre-acknowledged at most one more from each destination and the sender: no more than 2 m
PDUs in all, or 2 m + 2 if the sender is no destination. `Status` (control) is sent to an entity whose acknowledgement does not come, and
answered; `Request` (control) asks for lost PDUs.

Decisions, where the paper is silent or slips:
- An entity without data must send, or nothing is ever acknowledged. An empty PDU is for those who wait for its acknowledgements, so
  messages between two entities cost the others nothing. It has to be acknowledged itself if it acknowledges data (`asks`); one that only
  acknowledges such a PDU has not, so the exchange ends.
- PAL takes only acknowledgements from PDUs that are for everybody who waits for them (`answers`). Otherwise *acknowledged* would not mean
  that all destinations have pre-acknowledged: an entity may learn of an acknowledgement from a PDU that is not for the others.
- A PDU whose PSEQ is the expected one shows that the PDUs before it are not for this entity, and TREQ follows at once, not only when the
  PDU is accepted. Otherwise entities wait for each other for ever: an entity lacks p of E_1, which is not for it; q of E_2 acknowledges p,
  and r of E_1 acknowledges q; then r cannot be accepted before q, nor q before TREQ has passed p, which only r brings about.
- A PDU acknowledges itself (ACK of its own sender is TSEQ + 1); acceptance sets TREQ to TSEQ + 1.
- minAL in the transmission condition is about the destinations of each PDU: an entity that is no destination need not acknowledge.
- Empty PDUs take no buffer and are sent whatever BUF says, within W / (H n^2): otherwise full buffers would keep back the
  acknowledgements that empty them.
- `RPL` means RRL. "E_j receives a PDU r^j" in section 3.4 means E_i.
"""

from collections.abc import Mapping
from itertools import islice
from random import Random
from typing import Annotated, Any, Final, Literal

import msgspec

from hostagent.contract.core import Core, Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Destination, Message, Purpose, host_set
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.protocols.spo.losses import Losses
from hostagent.protocols.spo.messages import MOST_HOSTS, Pdu, Request, Status
from hostagent.protocols.spo.receipts import Receipts

# A question, its answer and what was asked for fail this often in a row once in a million cases where half of the datagrams are lost.
REPETITIONS: Final = 30
# PDUs that are sent again for one request: they fill two thirds of the default queue of a link.
MOST_AGAIN: Final = 64
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]


class SpoParameters(Parameters, frozen=True, kw_only=True):
    """The constants of the transmission condition, and how long an entity waits for what."""

    window: Count = 4096
    """W: with five hosts and H = 1, 163 PDUs of each sender may be on their way; with twelve, 28."""
    buffers: Count = 4096
    """Messages that an entity can hold until it delivers them."""
    h: Count = 1
    """H, the constant of the paper."""
    answer_ms: Milliseconds = 5.0
    """An entity without data acknowledges after this time at the latest, so that one PDU acknowledges what came meanwhile."""
    lc2: Literal["wait", "at-once"] = "wait"
    """What an entity does when it learns from others that it lacks a PDU which may not be for it."""
    wait_ms: Milliseconds = 20.0
    """How long it waits then for the next PDU of that sender before it asks."""
    longest_ms: Milliseconds = 1000.0
    """No answer is awaited for longer; the time follows the round trips."""

    def most_on_their_way(self, hosts: int, free: int | None = None) -> int:
        """min(W, minBUF) / (H n^2)."""
        return min(self.window, self.buffers if free is None else free) // (self.h * hosts * hosts)


class Spo(Core):
    """Number, send, accept, acknowledge, and deliver."""

    name = "spo"
    number = 17
    summary = (
        "every message names its destinations, which get all and only theirs, in the sender's order, once all of them have it"
    )
    assumes = "all hosts come back with their storage"
    beyond = frozenset({"restart-lost", "crash-for-good", "cut-off-for-good"})
    knows_groups = True
    messages = (Pdu, Status, Request)
    Parameters = SpoParameters
    parameters: SpoParameters

    def __init__(self, env: Environment, parameters: SpoParameters) -> None:
        super().__init__(env, parameters)
        self._receipts = self.add("receipts", lambda own: Receipts(own, parameters.buffers))
        waits_s = parameters.wait_ms / 1000, parameters.longest_ms / 1000
        self._losses = self.add("losses", lambda own: Losses(own, lambda: self._receipts, parameters.lc2, *waits_s))
        self._tseq = 1
        self._pseq = [1] * len(env.hosts)
        self._sent: dict[int, Pdu] = {}
        """SL: the PDUs that a destination may lack, by TSEQ."""
        self._waiting: dict[int, tuple[int, bytes, bytes]] = {}
        """Messages that wait for the transmission condition, by sequence number: group, destinations, payload."""
        self._due: set[int] = set()
        """The entities that wait for an acknowledgement of this one."""
        self._owes_data = False
        """Whether a message of the application is among what has to be acknowledged."""
        self._told = [1] * len(env.hosts)
        """ACK of the last PDU that went to everybody who waited for it."""
        self._awaited: dict[int, tuple[int, int, str]] = {}
        """What was awaited from each entity when the timer for that was set."""
        self._repetition = 0
        self._answering = False
        """Whether the timer for the next acknowledgement is set."""

    @classmethod
    def promise(cls, parameters: SpoParameters, hosts: int) -> Promise:
        """All entities are needed. At rest the last empty PDUs are kept, which nobody acknowledges before there is news."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.SAFE, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(
            guarantees=guarantees,
            orders=(Order(Scope.SINGLE_SOURCE, Strength.STRICT),),
            patience_ms=REPETITIONS * parameters.longest_ms,
            quorum=hosts,
            retained=2 * hosts * hosts + 20 * hosts + parameters.most_on_their_way(hosts),
        )

    @classmethod
    def scarce(cls, random: Random, hosts: int) -> dict[str, Any]:
        """Room for one to three PDUs of each sender: in the window, in the buffers, or in both."""
        limits = random.choice((("window",), ("buffers",), ("window", "buffers")))
        return {limit: random.randint(hosts**2, 4 * hosts**2 - 1) for limit in limits}

    @classmethod
    def check(cls, parameters: SpoParameters, hosts: tuple[str, ...]) -> None:
        """Refuse what makes the transmission condition impossible, and clusters whose vectors do not fit into a datagram."""
        if not parameters.most_on_their_way(len(hosts)):
            needed = parameters.h * len(hosts) ** 2
            raise ValueError(
                f"window={parameters.window}, buffers={parameters.buffers}: with {len(hosts)} hosts and h={parameters.h} nobody could "
                f"ever send, as min(window, buffers) / (h n^2) is below 1; both must be at least {needed}"
            )
        if len(hosts) > MOST_HOSTS:
            raise ValueError(
                f"{len(hosts)} hosts are too many: a PDU has two numbers for each of them beside a message of any length, and the "
                f"numbers of {MOST_HOSTS} fit into a datagram"
            )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what was sent and what waits. Who has what is asked again."""
        self._tseq, *pseq = stored.get("numbers", (1, *self._pseq))
        self._pseq = pseq
        self._told = list(stored.get("told", self._told))
        for name, value in sorted((_numbered(key), value) for key, value in stored.items() if "/" in key):
            match name:
                case ("sent", number):
                    self._sent[number] = msgspec.convert(value, Pdu)
                case ("waiting", number):
                    self._waiting[number] = tuple(value)
        for place, log in enumerate(self._receipts.logs):
            for logged in log.accepted:
                if logged.pdu.tseq >= self._told[place]:
                    self._owe(place, logged.pdu)
        self._go_on()

    @property
    def unfinished(self) -> int:
        """The messages that wait for the transmission condition."""
        return len(self._waiting)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send a message, or let it wait for the transmission condition."""
        destinations = host_set(to.hosts, self.env.hosts)
        self._waiting[sequence] = to.group, destinations, payload
        self.env.store(f"waiting/{sequence}", self._waiting[sequence])
        self._go_on()
        if sequence in self._waiting:
            window = self.parameters.window // (self.parameters.h * len(self.env.hosts) ** 2)
            is_full = self._tseq >= next(iter(self._sent), self._tseq) + window
            self.env.trace("waits-for-window" if is_full else "waits-for-buffers", (self.env.host, sequence))

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A PDU, a status, or a request for PDUs of this entity."""
        place = self.env.hosts.index(sender)
        match message:
            case Pdu():
                self._losses.arrived(place, message)
                self._receipts.hear(place, message)
                self._receipts.put(place, message)
            case Status():
                self._take_status(place, message)
            case Request(origin=self.env.host):
                self._send_again(place, message)
        self._go_on()

    def on_timer(self, name: str) -> None:
        """An acknowledgement is due, or one does not come."""
        match name:
            case "answer":
                self._answer()
            case "awaited":
                self._ask_for_status()
            case _:
                super().on_timer(name)
        self._go_on()

    def _go_on(self) -> None:
        """Do all that has become possible."""
        for place, pdu in self._receipts.accept():
            self._owe(place, pdu)
        self._conclude()
        self._forget_what_arrived()
        while self._waiting and self._may_send(self._receipts.fullest[0]):
            self._send_message()
            # Nobody answers a message that is for its source alone, so it must make room at once.
            self._forget_what_arrived()
        self._answer_later()
        self._losses.look()
        self._watch()

    def _conclude(self) -> None:
        """Pre-acknowledge, acknowledge and deliver what all destinations have."""
        self._receipts.pre_acknowledge()
        for pdu in self._receipts.acknowledge():
            self.env.deliver(pdu.origin, pdu.sequence, pdu.payload)

    # Transmission

    def _may_send(self, free: int | None = None) -> bool:
        """The transmission condition; for an empty PDU without the buffers."""
        first = next(iter(self._sent), self._tseq)
        return self._tseq < first + self.parameters.most_on_their_way(len(self.env.hosts), free)

    def _send_message(self) -> None:
        sequence = next(iter(self._waiting))
        group, destinations, payload = self._waiting.pop(sequence)
        self.env.store(f"waiting/{sequence}", None)
        self._send(group, sequence, destinations, payload)

    def _send(self, group: int, sequence: int, destinations: bytes, payload: bytes = b"") -> None:
        """The transmission procedure, for a message or for an empty PDU."""
        me, bits = self._receipts.me, int.from_bytes(destinations)
        ack = list(self._receipts.expected())
        ack[me] = self._tseq + 1
        answers = all(bits >> place & 1 for place in self._due | {me})
        pdu = Pdu(
            group,
            self.env.host,
            sequence,
            self._tseq,
            destinations,
            tuple(self._pseq),
            tuple(ack),
            self._receipts.left,
            asks=bool(sequence) or self._owes_data,
            answers=answers,
            payload=payload,
        )
        for place in range(len(self._pseq)):
            self._pseq[place] += bits >> place & 1
        self._tseq += 1
        self._sent[pdu.tseq] = pdu
        self.env.store("numbers", (self._tseq, *self._pseq))
        self.env.store(f"sent/{pdu.tseq}", pdu)
        self._receipts.take_own(pdu)
        if answers:
            self._due, self._owes_data, self._told, self._answering = set(), False, ack, False
            self.env.store("told", ack)
            self.env.cancel_timer("answer")
        else:
            # The PDU acknowledges itself too, and its own destinations wait for that.
            self._owe(me, pdu)
        self.env.multicast(EVERYBODY, pdu, Purpose.DATA if sequence else Purpose.CONTROL, turn=pdu.tseq)
        self._conclude()

    def _forget_what_arrived(self) -> None:
        """Drop PDUs that all their destinations have accepted, the oldest first."""
        receipts = self._receipts
        known = receipts.al[receipts.me]
        while self._sent:
            tseq, pdu = next(iter(self._sent.items()))
            if any(known[place] <= tseq for place in receipts.places(pdu)):
                return
            del self._sent[tseq]
            self.env.store(f"sent/{tseq}", None)

    # Acknowledgement

    def _owe(self, place: int, pdu: Pdu) -> None:
        """Note who waits for the acknowledgement of a PDU."""
        places = self._receipts.places(pdu)
        if pdu.asks and self._receipts.me in places:
            self._due.update((place, *places))
            self._owes_data = self._owes_data or bool(pdu.sequence)

    def _answer_later(self) -> None:
        """Acknowledge soon; at once if only empty PDUs are to be acknowledged, and all of them that are to come have come."""
        if not self._due or not self._may_send():
            return
        first = list(islice(self._sent.values(), 1))
        first += [logged.pdu for log in self._receipts.logs for logged in islice(log.accepted, 1)]
        if not self._owes_data and not any(pdu.sequence for pdu in first):
            self._answer()
            self._go_on()
        elif not self._answering:
            self._answering = True
            self.env.set_timer("answer", self.parameters.answer_ms / 1000)

    def _answer(self) -> None:
        self._answering = False
        if self._due and self._may_send():
            hosts = self.env.hosts
            members = [hosts[place] for place in sorted(self._due | {self._receipts.me})]
            self._send(EVERYBODY, 0, host_set(members, hosts))

    def _watch(self) -> None:
        """Set a timer if an acknowledgement is awaited and none is set."""
        if self._awaited or not (awaited := self._missing()):
            return
        self._awaited = awaited
        patient_s = max(self._losses.trips.wait_s(self.env.hosts[place], self._repetition) for place in awaited)
        self.env.set_timer("awaited", patient_s + 4 * self.parameters.answer_ms / 1000)

    def _missing(self) -> dict[int, tuple[int, int, str]]:
        """What each entity has not acknowledged, of the PDUs in the logs and of those that this entity sent and must have acknowledged."""
        receipts = self._receipts
        found = receipts.awaited()
        known, blocked = receipts.al[receipts.me], bool(self._waiting or self._due)
        for tseq, pdu in self._sent.items():
            if pdu.asks or blocked:
                lacking = [place for place in receipts.places(pdu) if known[place] <= tseq]
                found |= dict.fromkeys(lacking, (receipts.me, tseq, "sent"))
                if lacking:
                    break
        free, fullest = receipts.fullest
        if self._waiting and not self._may_send(free):
            found.setdefault(fullest, (fullest, free, "buffers"))
        found.pop(receipts.me, None)
        return found

    def _ask_for_status(self) -> None:
        """Ask those who still owe the same as when the timer was set."""
        before, now = self._awaited, self._missing()
        self._awaited = {}
        late = [place for place, what in now.items() if before.get(place) == what]
        # Where some entities answer, those that do not are asked at the usual pace; where none does, less and less often.
        self._repetition = self._repetition + 1 if late and before == now else 0
        for place in before:
            host = self.env.hosts[place]
            if place in late and self._repetition <= 1:
                self._losses.trips.asked(host, self.env.now())
            else:
                # It was asked before, or has said what was awaited in other words: nobody knows what its next answer is about.
                self._losses.trips.forget(host)
        for place in late:
            self.env.send(self.env.hosts[place], self._status(asks=True), Purpose.CONTROL)

    def _status(self, *, asks: bool) -> Status:
        numbers = self._tseq, tuple(self._pseq), self._receipts.expected(), self._receipts.left
        return Status(EVERYBODY, self.env.host, 0, *numbers, asks)

    def _take_status(self, place: int, status: Status) -> None:
        host = self.env.hosts[place]
        self._losses.trips.answered(host, self.env.now())
        self._receipts.hear(place, status)
        self._receipts.learn(place, status)
        self._receipts.skip(place, status)
        if status.asks:
            self.env.send(host, self._status(asks=False), Purpose.CONTROL)

    # Losses of others

    def _send_again(self, place: int, request: Request) -> None:
        """Send the PDUs that an entity asked for, and if there are none, say so, as what it lacks is not for it."""
        lost = [
            pdu
            for pdu in self._sent.values()
            if request.first <= pdu.pseq[place] <= (request.last or pdu.pseq[place]) and place in self._receipts.places(pdu)
        ]
        host = self.env.hosts[place]
        self.env.trace("sent-again", host=host, pdus=len(lost[:MOST_AGAIN]))
        for pdu in lost[:MOST_AGAIN]:
            self.env.send(host, pdu, Purpose.REPAIR)
        if not lost:
            self.env.send(host, self._status(asks=False), Purpose.CONTROL)


def _numbered(key: str) -> tuple[str, int]:
    kind, _, number = key.partition("/")
    return kind, int(number)
