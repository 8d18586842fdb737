"""Order by one host that never changes: the protocol of Amoeba."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import MOST_RANGES, Destination, Message, Purpose, Ranges
from hostagent.parts.history import History
from hostagent.parts.pace import Pace
from hostagent.protocols.sequencer.intake import Intake
from hostagent.protocols.sequencer.messages import (
    AT_ONCE,
    Ordered,
    Query,
    Report,
    SequencerParameters,
    Status,
    Submission,
    Taken,
    destination,
)
from hostagent.protocols.sequencer.outbox import Outbox

REPETITIONS: Final = 3
"""A report that is not answered is repeated this often; then the sequencer's next message or question is waited for."""


class Fixed(Part):
    """What a host does as the sequencer, and what it does as any other host."""

    def __init__(self, env: Environment, parameters: SequencerParameters, outbox: Outbox) -> None:
        super().__init__(env)
        self._outbox = outbox
        self._sequencer = parameters.sequencer or env.hosts[0]
        self._numbering = self.add("numbering", lambda own: Numbering(own, parameters, self._on_ordered))
        self._following = self.add("following", lambda own: Following(own, parameters, self._sequencer))

    def begin(self) -> None:
        """All parts have started."""
        self._outbox.start_again()

    def submit(self, submission: Submission, purpose: Purpose) -> None:
        """Send a message of this host to the sequencer."""
        if self.env.host == self._sequencer:
            self._numbering.intake.take(submission)
        else:
            self.env.send(self._sequencer, msgspec.structs.replace(submission, has=self._following.reported()), purpose)

    def on_silence(self, sent: int) -> None:
        """Nothing was heard of the messages of this host: ask for them."""
        if self.env.host != self._sequencer:
            self.env.send(self._sequencer, Query(0, self.env.host, sent, self._following.reported()), Purpose.CONTROL)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """What a host says to the sequencer, or the sequencer to a host."""
        if self.env.host == self._sequencer:
            self._serve(sender, message)
        elif sender == self._sequencer:
            self._follow(message)

    def _serve(self, sender: str, message: Message) -> None:
        numbering = self._numbering
        match message:
            case Submission(origin=origin, has=has) if origin == sender:
                numbering.on_report(sender, has)
                numbering.intake.serve(self.env, message)
            case Query(origin=origin, has=has) if origin == sender:
                numbering.on_report(sender, has)
                numbering.intake.answer(self.env, message)
            case Report(has=has, missing=missing):
                numbering.on_report(sender, has)
                numbering.send_again(sender, missing)

    def _follow(self, message: Message) -> None:
        match message:
            case Ordered(origin=origin, sequence=sequence):
                if origin == self.env.host:
                    self._outbox.done(sequence)
                self._following.take(message)
            case Taken(origin=self.env.host, sequence=sequence, missing=missing):
                self._outbox.done(sequence)
                self._outbox.send_again(missing)
            case Status(number=number):
                self._following.hear(number)

    def _on_ordered(self, ordered: Ordered, to: Destination) -> None:
        """The sequencer delivers a message when it has numbered it."""
        if self.env.host in to.hosts:
            self.env.deliver(ordered.origin, ordered.sequence, ordered.payload)
        if ordered.origin == self.env.host:
            self._outbox.done(ordered.sequence)


class Numbering(Part):
    """At the sequencer: number messages, send them on, and keep them until all have them."""

    def __init__(
        self, env: Environment, parameters: SequencerParameters, on_ordered: Callable[[Ordered, Destination], None]
    ) -> None:
        super().__init__(env)
        self._on_ordered = on_ordered
        self._silence_s = parameters.silence_ms / 1000
        self._ask_when = parameters.history // 2
        """With as many messages in the history, those who hold it up are asked what they have."""
        self._report_every, self._tell_every = parameters.report_every, max(parameters.window // 4, 1)
        self._history = self.add("history", lambda own: History(own, env.peers))
        self._pace = Pace(parameters.history)
        self.intake = self.add("intake", lambda own: Intake(own, parameters, self._has_room, self._order))

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore how far each source has come, and ask all others what they have."""
        self.intake.begin(stored)
        if any(self._history.lagging()):
            self.env.set_timer("silence", self._silence_s)

    def on_report(self, sender: str, has: int) -> None:
        """A host has everything that is for it up to a number."""
        if forgotten := self._history.acknowledge(sender, has):
            self._pace.arrived(forgotten)
            self.intake.go_on()

    def send_again(self, to: str, missing: Ranges) -> None:
        """Send a host what is for it in these ranges."""
        numbers = list(islice(self._for(to, missing), min(AT_ONCE, self._pace.window)))
        is_narrower = self._pace.lost(to, numbers, self._history.last, len(self._history))
        for number in numbers:
            self.env.send(to, Ordered(*self._history[number]), Purpose.REPAIR)
        if missing and self._is_held_up:
            # Messages wait for room: be told as soon as this has arrived, and what the others have.
            self._ask(self._history.lagging() if is_narrower else iter((to,)))

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Nothing was ordered for a while: ask those who may lack something."""
        self._ask(self._history.lagging())
        if any(self._history.lagging()):
            self.env.set_timer("silence", self._silence_s)

    def _order(self, submission: Submission) -> None:
        """Give a message the next number, and send it to its destinations."""
        to = destination(submission.group, submission.listed, self.env.groups, self.env.hosts)
        assert to is not None, submission
        others, source = to.others(self.env.host), submission.origin
        before = tuple(self._history.latest(host) for host in others)
        number, message = self._history.last + 1, (submission.group, source, submission.sequence)
        if all(one == before[0] for one in before):
            before = before[:1] or (0,)
        ordered = Ordered(*message, number, before, submission.payload, submission.listed)
        self._history.append(msgspec.structs.astuple(ordered), others if len(others) < len(self.env.peers) else None)
        self.env.store(source, submission.sequence)
        self.env.multicast_to(to, ordered, Purpose.DATA)
        if source not in (*to.hosts, self.env.host) and submission.sequence % self._tell_every == 0:
            self.env.send(source, Taken(*message, ()), Purpose.CONTROL)
        self._on_ordered(ordered, to)
        is_half_full = len(self._history) >= self._ask_when and number % self._report_every == 0
        if is_half_full or self._is_held_up:
            first = self._history.first
            self._ask(member for member in self._history.lagging() if self._history.has(member) < first)
        self.env.set_timer("silence", self._silence_s)

    @property
    def _is_held_up(self) -> bool:
        """Whether messages have to wait although the history is not full: so all that arrives is to be heard of at once."""
        return not self._pace.is_open and not self._has_room()

    def _has_room(self) -> bool:
        return len(self._history) < self._pace.window

    def _ask(self, members: Iterator[str]) -> None:
        for member in members:
            self.env.send(member, Status(0, self.env.host, 0, self._history.latest(member)), Purpose.CONTROL)

    def _for(self, host: str, missing: Ranges) -> Iterator[int]:
        for first, last in missing:
            for number in range(max(first, self._history.first), min(last, self._history.last) + 1):
                if host in self._history.receivers(number):
                    yield number


class Following(Part):
    """At all other hosts: deliver what is for this host in the order of numbers, and ask for what is missing."""

    def __init__(self, env: Environment, parameters: SequencerParameters, sequencer: str) -> None:
        super().__init__(env)
        self._sequencer = sequencer
        self._report_every = parameters.report_every
        self.has = 0
        """The number of the last message that was delivered here."""
        self._waiting: dict[int, Ordered] = {}
        """Messages that came early, by the number of the message before each of them."""
        self._heard = 0
        """The highest number that a message for this host is known to have."""
        self._unreported = 0
        """Messages that were delivered since this host has said what it has."""
        self._due = self._tries = self._timed = 0
        """While the timer runs: what is missing up to this number is asked for again, how often that was done since something came, and
        the message whose round trip is measured."""
        self._asked = 0
        """What is missing up to this number was asked for at least once."""
        self._trips = parameters.round_trips()

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the number of the last message that was delivered."""
        self.has = self._heard = stored.get("has", 0)

    def reported(self) -> int:
        """What this host has, for a message to the sequencer that says it."""
        self._unreported = 0
        return self.has

    def take(self, ordered: Ordered) -> None:
        """A message has arrived: deliver what is in order now, and ask for what was found to be missing."""
        if ordered.number <= self.has or (before := self._before(ordered)) is None or before in self._waiting:
            return
        if ordered.number == self._timed:
            self._trips.answered(self._sequencer, self.env.now())
            self._timed = 0
        heard, self._heard = self._heard, max(self._heard, ordered.number)
        self._waiting[before] = ordered
        if before == self.has:
            self._deliver_in_order()
        elif before > heard:
            self._ask(((heard + 1, before),))

    def hear(self, number: int) -> None:
        """The sequencer asks, and has sent this host messages up to a number: say what is here, and what is missing."""
        self._heard = max(self._heard, number)
        self._tries = 0
        missing = self._missing(self._heard)
        if self._due:
            # What was asked for is on its way, or will be asked for again in time: twice as many repairs would fill queues that are full.
            asked = self._asked
            missing = tuple((max(first, asked + 1), last) for first, last in missing if last > asked)
        self._ask(missing)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """What is missing has not come in time: ask again."""
        missing = self._missing(self._due)
        self._due = self._timed = 0
        self._tries += 1
        self._trips.forget(self._sequencer)
        if missing and self._tries <= REPETITIONS:
            self._ask(missing)

    def _before(self, ordered: Ordered) -> int | None:
        """The number of the message before this one that is for this host; None for a message that cannot be for it."""
        to = destination(ordered.group, ordered.listed, self.env.groups, self.env.hosts)
        if to is None or self.env.host not in to.hosts:
            return None
        place = to.others(self._sequencer).index(self.env.host) if len(ordered.before) > 1 else 0
        before = ordered.before[place] if place < len(ordered.before) else ordered.number
        return before if self.has <= before < ordered.number else None

    def _deliver_in_order(self) -> None:
        while (ordered := self._waiting.pop(self.has, None)) is not None:
            self.has = ordered.number
            self._unreported += 1
            self.env.deliver(ordered.origin, ordered.sequence, ordered.payload)
        self.env.store("has", self.has)
        self._tries = 0
        if self._due and self.has >= self._heard:
            self._due = 0
            self.env.cancel_timer("missing")
        if self._unreported >= self._report_every:
            self.env.send(self._sequencer, Report(0, self.env.host, 0, self.reported(), ()), Purpose.CONTROL)

    def _ask(self, missing: Ranges) -> None:
        """Say what this host has, and ask for what is missing."""
        self.env.send(self._sequencer, Report(0, self.env.host, 0, self.reported(), missing), Purpose.CONTROL)
        if missing:
            self._asked = max(self._asked, missing[-1][1])
        if missing and not self._due:
            self._due = self._heard
            if not self._tries:
                _, self._timed = missing[-1]
                self._trips.asked(self._sequencer, self.env.now())
            self.env.set_timer("missing", self._trips.wait_s(self._sequencer, self._tries))

    def _missing(self, up_to: int) -> Ranges:
        """The ranges of numbers up to this one in which messages for this host are missing; the last number of each is one."""
        missing, has = [], self.has
        for before, ordered in sorted(self._waiting.items()):
            if has < before:
                missing.append((has + 1, before))
            has = ordered.number
        if has < up_to:
            missing.append((has + 1, up_to))
        return tuple(missing[:MOST_RANGES])
