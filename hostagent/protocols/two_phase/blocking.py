"""The two phases, as Birman and Joseph and the third paper have them: nobody but the source of a message finishes it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import LISTED, Destination, Message, Purpose, host_set, hosts_in
from hostagent.parts.delivery import DeliverOnce
from hostagent.parts.questions import Questions
from hostagent.protocols.two_phase.messages import Final, First, Have, MessageId, Priority, Proposal, first
from hostagent.protocols.two_phase.parameters import TwoPhaseParameters
from hostagent.protocols.two_phase.queue import Entry, Queue

# Messages that may wait for one before them; others will be repeated when their turn has come.
MOST_EARLY = 256


class Round(msgspec.Struct):
    """A message of this host that not all destinations have finished."""

    first: First
    to: Destination
    proposals: dict[str, int]
    """The counters that were proposed, by host."""
    final: Priority | None = None
    lacking: int = 0
    """How many other destinations have not said that they have the final priority."""


class Blocking(Part):
    """A host as the source and as a destination of messages."""

    messages = (First, Proposal, Final, Have)

    def __init__(self, env: Environment, parameters: TwoPhaseParameters) -> None:
        super().__init__(env)
        self.parameters = parameters
        self.delivery = self.add("delivery", DeliverOnce)
        self.questions = self.add("questions", lambda own: Questions(own, parameters.first_retry_ms, parameters.longest_retry_ms))
        self.counter = 0
        """The highest counter that this host has proposed or seen."""
        self.queue = Queue()
        self.early: dict[MessageId, dict[int, First]] = {}
        """Messages by the one of the same source that must come before them, and which is not here yet."""
        self.rounds: dict[int, Round] = {}
        """This host's own messages that are under way, the oldest first."""
        self.waiting: dict[int, First] = {}
        """This host's own messages that wait for one of these to finish."""

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the queue, and go on with the messages of this host: from phase 1, or from phase 2 where that had begun."""
        self.counter = stored.get("counter", 0)
        for key, value in stored.items():
            match key.split("/"):
                case ["queued", origin, sequence]:
                    fields, counter = value
                    final = stored.get(f"final/{origin}/{sequence}")
                    kept = First(*fields)
                    self.queue.add(Entry(kept, (counter, self.env.host), tuple(final) if final else None))
                case ["waiting", sequence]:
                    self.waiting[int(sequence)] = First(*value)
        self.waiting = dict(sorted(self.waiting.items()))
        sent = {int(key.removeprefix("sent/")): value for key, value in stored.items() if key.startswith("sent/")}
        for number, (fields, hosts, own) in sorted(sent.items()):
            kept = First(*fields)
            to = Destination(kept.group, hosts_in(hosts, self.env.hosts), kept.nth)
            final = stored.get(f"decided/{number}")
            round_ = Round(kept, to, {self.env.host: own} if own else {}, tuple(final) if final else None)
            self.rounds[number] = round_
            self._ask(round_, sent=False)
        self._deliver()

    # The source.

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Begin phase 1, or wait if too many messages are under way."""
        if self.waiting or len(self.rounds) >= self.parameters.window:
            self.waiting[sequence] = first(to, (self.env.host, sequence), payload, self.env.hosts)
            self.env.store(f"waiting/{sequence}", msgspec.structs.astuple(self.waiting[sequence]))
        else:
            self._begin(to, first(to, (self.env.host, sequence), payload, self.env.hosts))

    def _begin(self, to: Destination, message: First) -> None:
        """Phase 1: send the message to all destinations. A source that is one itself proposes a priority like the others."""
        same = [sequence for sequence, round_ in self.rounds.items() if round_.to[:2] == to[:2]]
        if same:
            message = msgspec.structs.replace(message, after=same[-1])
        own = self._propose(message).proposed[0] if self.env.host in to.hosts else 0
        round_ = self.rounds[message.sequence] = Round(message, to, {self.env.host: own} if own else {})
        hosts = host_set(to.hosts, self.env.hosts)
        self.env.store(f"sent/{message.sequence}", (msgspec.structs.astuple(message), hosts, own))
        self.env.multicast_to(to, message, Purpose.DATA)
        self._ask(round_, sent=True)
        self._decide(round_)

    def _ask(self, round_: Round, *, sent: bool) -> None:
        """Wait for the answer of every other destination to the phase that the message is in."""
        others = round_.to.others(self.env.host)
        round_.lacking = len(others)
        question = self._final(round_) if round_.final else round_.first
        for host in others:
            self.questions.ask(host, (type(question).__name__, question.sequence), question, sent=sent)

    def _final(self, round_: Round) -> Final:
        assert round_.final
        counter, by = round_.final
        message = round_.first
        return Final(message.group, *message.id, counter, by, message.nth)

    def _take_proposal(self, sender: str, proposal: Proposal) -> None:
        """A destination has answered in phase 1."""
        round_ = self.rounds.get(proposal.sequence)
        if round_ and self.questions.answered(sender, (First.__name__, proposal.sequence)):
            round_.proposals[sender] = proposal.counter
            self._decide(round_)

    def _decide(self, round_: Round) -> None:
        """Phase 2: when all destinations have proposed, the highest priority is the final one."""
        if len(round_.proposals) < len(round_.to.hosts):
            return
        counter, by = round_.final = max((counter, host) for host, counter in round_.proposals.items())
        message = round_.first
        self.env.store(f"decided/{message.sequence}", round_.final)
        self.env.trace("decided", message.id, counter=counter, by=by)
        self.env.multicast_to(round_.to, self._final(round_), Purpose.DATA)
        self._ask(round_, sent=True)
        if self.env.host in round_.to.hosts:
            self._finalise(message.id, round_.final)
        self._finish(round_)

    def _take_have(self, sender: str, have: Have) -> None:
        """A destination has the final priority."""
        round_ = self.rounds.get(have.sequence)
        if round_ and self.questions.answered(sender, (Final.__name__, have.sequence)):
            round_.lacking -= 1
            self._finish(round_)

    def _finish(self, round_: Round) -> None:
        """Forget a message that all destinations can deliver, and begin with one that waits."""
        if round_.lacking:
            return
        sequence = round_.first.sequence
        del self.rounds[sequence]
        for key in ("sent", "decided"):
            self.env.store(f"{key}/{sequence}", None)
        if self.waiting:
            message = self.waiting.pop(next(iter(self.waiting)))
            self.env.store(f"waiting/{message.sequence}", None)
            self._begin(message.destination(self.env.groups, self.env.hosts), message)

    # A destination.

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A step of one of the two phases."""
        match message:
            case First(origin=origin) if origin == sender:
                self._take_first(message)
            case Final(origin=origin) if origin == sender:
                self._take_final(sender, message)
            case Proposal(origin=self.env.host):
                self._take_proposal(sender, message)
            case Have(origin=self.env.host):
                self._take_have(sender, message)

    def _take_first(self, message: First) -> None:
        """Propose a priority for a new message, once the message that must come before it is here; repeat what was proposed."""
        entry = self.queue.get(message.id)
        if entry is not None and entry.final is None:
            self._answer(entry, Purpose.REPAIR)
        if entry is not None or self._is_delivered(message) or self.env.host not in self._to(message).hosts:
            return
        if message.after and not self._has_predecessor(message):
            if len(self.early) < MOST_EARLY:
                self.early.setdefault((message.origin, message.after), {})[message.sequence] = message
            return
        self._answer(self._propose(message), Purpose.DATA)
        for early in self.early.pop(message.id, {}).values():
            self._take_first(early)

    def _propose(self, message: First) -> Entry:
        """Put a message at the end of the queue, with a priority above all that this host has proposed or seen."""
        self.counter += 1
        entry = Entry(message, (self.counter, self.env.host))
        self.queue.add(entry)
        self.env.store("counter", self.counter)
        self.env.store(f"queued/{message.origin}/{message.sequence}", (msgspec.structs.astuple(message), self.counter))
        self.env.receive(*message.id)
        return entry

    def _answer(self, entry: Entry, purpose: Purpose) -> None:
        message = entry.first
        if message.origin != self.env.host:
            proposal = Proposal(message.group, *message.id, entry.proposed[0])
            self.env.send(message.origin, proposal, purpose)

    def _take_final(self, sender: str, message: Final) -> None:
        """The place of a message in the order is known. One that was delivered was acknowledged before, and that was lost."""
        entry = self.queue.get((message.origin, message.sequence))
        if entry is None and not self.delivery.is_delivered(message.origin, message.sequence, message.group, message.nth):
            return
        priority = message.counter, message.by
        if entry is not None and entry.final is None:
            if priority < entry.proposed:
                # No source of this protocol sends that.
                return
            self._finalise(entry.first.id, priority)
        self.env.send(sender, Have(message.group, message.origin, message.sequence), Purpose.CONTROL)

    def _finalise(self, message: MessageId, priority: Priority) -> None:
        self.counter = max(self.counter, priority[0])
        self.env.store("counter", self.counter)
        self.queue.finalise(message, priority)
        self.env.store(f"final/{message[0]}/{message[1]}", priority)
        self._deliver()

    def _deliver(self) -> None:
        """Deliver from the front of the queue, up to the first message whose priority is not final."""
        while entry := self.queue.pop():
            message = entry.first
            self.delivery.deliver(*message.id, message.payload, message.group, message.nth)
            for key in ("queued", "final"):
                self.env.store(f"{key}/{message.origin}/{message.sequence}", None)

    def _to(self, message: First) -> Destination:
        return message.destination(self.env.groups, self.env.hosts)

    def _is_delivered(self, message: First) -> bool:
        return self.delivery.is_delivered(*message.id, message.group, message.nth)

    def _has_predecessor(self, message: First) -> bool:
        """Whether the message that must come before this one is here, or was delivered."""
        before = message.origin, message.after
        nth = 0 if message.group == LISTED else (message.nth or message.sequence) - 1
        return self.queue.get(before) is not None or self.delivery.is_delivered(*before, message.group, nth)
