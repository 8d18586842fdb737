"""Order by a host that a majority has elected, with a history at every host.

The sequencer of an epoch (`Leading`) sends each entry to everybody. A host accepts an entry if it has the same entries before it as the
sequencer, stores it and says so. An entry that a majority has accepted is stable, and only then is it delivered anywhere.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import MOST_RANGES, Message, Purpose, Ranges
from hostagent.parts.election import Election, Refusal, Subject
from hostagent.parts.in_order import ranges
from hostagent.protocols.sequencer.leading import Leading
from hostagent.protocols.sequencer.log import Log
from hostagent.protocols.sequencer.messages import (
    AT_ONCE,
    Accepted,
    Entry,
    Passed,
    Query,
    SequencerParameters,
    Stable,
    Submission,
    Taken,
)
from hostagent.protocols.sequencer.outbox import Outbox

QUESTIONS: Final = 2
"""A sequencer that has left so many questions in a row unanswered is missed. Each is awaited twice as long as the one before."""
DELIVERY: Final = "delivery"
"""Round trips are measured from the acceptance of an entry until it is known to be stable."""


class Elected(Part):
    """A host's view of the order. Whoever numbers the messages, this host accepts and delivers them here."""

    def __init__(self, env: Environment, parameters: SequencerParameters, outbox: Outbox) -> None:
        super().__init__(env)
        self._outbox = outbox
        self._log = self.add("log", Log)
        self._election = self.add(
            "election",
            lambda own: Election(
                own,
                parameters.round_trips(),
                state=self._state,
                on_elected=self._on_elected,
                accepts=self._accepts,
                is_content=self._is_content,
            ),
        )
        self._leading = self.add("leading", lambda own: Leading(own, parameters, self._log, lambda: self._leads, self._on_stable))
        self._epoch, self._sequencer = 0, parameters.sequencer or env.hosts[0]
        """The last sequencer that this host knows, which may be itself, and its epoch."""
        self._matched = 0
        """Up to this number, this host has the same entries as the sequencer."""
        self._heard = 0
        """The sequencer has entries up to this number, as far as this host knows."""
        self._stable = 0
        self._early: dict[int, Entry] = {}
        self._is_left_behind = False
        """Whether others have forgotten entries that this host lacks, as it has lost its storage: it can never deliver anything again."""
        self._questions = 0
        """Questions to the sequencer since anything was heard of it."""
        self._waits = False
        """Whether the timer runs."""
        self._tries = 0
        """How often it has expired since something was delivered."""
        self._timed = 0
        """The entry whose round trip is measured."""
        self._trips = parameters.round_trips()

    @property
    def _is_current(self) -> bool:
        """Whether the sequencer that this host knows is that of the last epoch in which it has voted: a former one is not obeyed."""
        return self._epoch == self._election.epoch(self._election.role)

    @property
    def _leads(self) -> bool:
        return self._sequencer == self.env.host and self._is_current

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore who was the sequencer. Who was it goes on, unless it has voted for another since."""
        self._epoch, self._sequencer = stored.get("sequencer", (self._epoch, self._sequencer))

    def begin(self) -> None:
        """All parts have started."""
        self._matched = self._stable = self._log.delivered
        self._heard = self._log.last
        if self._leads:
            self._lead()
        else:
            if not self._is_current:
                self._questions = QUESTIONS
            self._wait_if_needed()
        self._outbox.start_again()

    def submit(self, submission: Submission, purpose: Purpose) -> None:
        """Send a message of this host to the sequencer."""
        if self._leads:
            self._leading.intake.take(submission)
        elif self._is_current:
            self.env.send(self._sequencer, submission, purpose)

    def on_silence(self, sent: int) -> None:
        """Nothing was heard of the messages of this host: ask for them, and whether the sequencer lives."""
        if self._leads or self._is_left_behind:
            return
        if self._is_current:
            self.env.send(self._sequencer, Query(0, self.env.host, sent, 0), Purpose.CONTROL)
        self._wait()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A message of the sequencer, of an election, or one to this host as the sequencer."""
        match message:
            case Entry(epoch=epoch) if self._heeds(sender, epoch):
                heard = self._heard
                self._learn(message)
                self._accept(message, heard)
            case Stable(epoch=epoch) if self._heeds(sender, epoch):
                heard = self._heard
                self._learn(message)
                if message.asks or message.number > heard:
                    self._answer(asks=False)
            case Taken(origin=self.env.host, missing=missing) if sender == self._sequencer and self._is_current:
                self._questions = 0
                self._outbox.send_again(missing)
            case Submission() | Query() | Accepted() if self._leads:
                self._serve(sender, message)
            case Submission() | Query() | Accepted():
                self._send_on(sender)
            case Passed(origin=sequencer, epoch=epoch):
                self._hear_of(sequencer, epoch)
            case Refusal(voted=voted) if sender == self._sequencer and voted == self._epoch and self._is_current:
                # The sequencer lives: nobody else is needed.
                self._heeds(sender, voted)
            case _ if isinstance(message, Election.messages):
                super().on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """What this host waits for has not come: ask the sequencer, and if it was asked often enough, stand for election."""
        self._waits = False
        is_satisfied = self._is_current and not self._questions and self._log.delivered >= self._heard and not self._outbox
        if self._leads or self._is_left_behind or is_satisfied:
            return
        self._questions += 1
        self._tries += 1
        if self._tries > 1:
            self._timed = 0
            self._trips.forget(DELIVERY)
        if self._is_current:
            self._answer(asks=True)
        if self._questions > QUESTIONS:
            self._election.stand(self._election.role)
        self._wait()

    # The sequencer that this host follows

    def _heeds(self, sender: str, epoch: int) -> bool:
        """Whether a message of a sequencer counts: one of a former epoch does not, and is told so."""
        if epoch < self._election.epoch(self._election.role):
            self._send_on(sender)
            return False
        if epoch > self._epoch or not self._is_current:
            self._follow(epoch, sender)
        elif self._election.is_open(self._election.role):
            self._election.settled(self._election.role, epoch, sender)
        self._questions = 0
        return sender == self._sequencer

    def _hear_of(self, sequencer: str, epoch: int) -> None:
        """Somebody else names the sequencer of an epoch."""
        if epoch >= self._election.epoch(self._election.role) and epoch > self._epoch and sequencer != self.env.host:
            self._follow(epoch, sequencer)
            self._answer(asks=True)

    def _follow(self, epoch: int, sequencer: str) -> None:
        """There is a new sequencer: what is stable is the same there, and all else must be compared again."""
        self._become(epoch, sequencer)
        self._election.settled(self._election.role, epoch, sequencer)
        self._leading.stop()
        self._matched = self._heard = self._log.delivered
        self._outbox.start_again()

    def _become(self, epoch: int, sequencer: str) -> None:
        self._epoch, self._sequencer = epoch, sequencer
        self.env.store("sequencer", (epoch, sequencer))
        self.env.trace("sequencer", host=sequencer, epoch=epoch)
        self._early, self._questions, self._tries = {}, 0, 0

    def _send_on(self, sender: str) -> None:
        """Tell a host that asks or leads in vain who the sequencer is."""
        if self._is_current and self._sequencer != sender:
            self.env.send(sender, Passed(0, self._sequencer, 0, self._epoch), Purpose.CONTROL)

    # Accepting and delivering

    def _learn(self, message: Entry | Stable) -> None:
        """What the sequencer says of all entries."""
        self._heard = max(self._heard, message.number)
        self._stable = max(self._stable, message.stable)
        was_left_behind, self._is_left_behind = self._is_left_behind, not self._log.has(message.floor, message.floor_born)
        if not self._is_left_behind:
            self._matched = max(self._matched, message.floor)
        elif not was_left_behind:
            self.env.trace("left-behind", number=message.floor)
        self._deliver()
        self._log.forget(message.floor)

    def _accept(self, entry: Entry, heard: int) -> None:
        """Accept an entry if this host has all before it; otherwise keep it, and ask for what was found to be missing."""
        if entry.number > self._matched + 1:
            self._early[entry.number] = entry
            if entry.number > heard + 1:
                self._report(((heard + 1, entry.number - 1),), asks=False)
            self._wait_if_needed()
            return
        if entry.number == self._matched + 1:
            self._early[entry.number] = entry
            self._deliver()
        if not self._timed:
            self._timed = self._matched
            self._trips.asked(DELIVERY, self.env.now())
        self._report((), asks=False)
        self._wait_if_needed()

    def _deliver(self) -> None:
        """Store what came early and is in order now, and deliver what is stable."""
        while (ready := self._early.pop(self._matched + 1, None)) is not None:
            self._log.accept(ready)
            self._matched += 1
        while self._log.delivered < min(self._stable, self._matched):
            self._tries = 0
            item = self._log.deliver_next()
            if item.origin == self.env.host and item.sequence:
                self._outbox.done(item.sequence)
        if self._timed and self._log.delivered >= self._timed:
            self._timed = 0
            self._trips.answered(DELIVERY, self.env.now())
        if self._waits and self._log.delivered >= self._heard and not self._outbox:
            self._waits = False
            self.env.cancel_timer("stable")

    def _answer(self, *, asks: bool) -> None:
        """Say what this host has accepted, and ask for all that it lacks."""
        missing = (number for number in range(self._matched + 1, self._heard + 1) if number not in self._early)
        self._report(ranges(list(islice(missing, AT_ONCE)))[:MOST_RANGES], asks=asks)
        self._wait_if_needed()

    def _report(self, missing: Ranges, *, asks: bool) -> None:
        has = self._epoch, self._matched, self._log.floor
        accepted = Accepted(0, self.env.host, 0, *has, missing, asks, self._is_left_behind)
        self.env.send(self._sequencer, accepted, Purpose.CONTROL)

    def _wait_if_needed(self) -> None:
        if not self._is_left_behind and (self._log.delivered < self._heard or not self._is_current):
            self._wait()

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self.env.set_timer("stable", self._trips.wait_s(DELIVERY, self._tries))

    # Leading and elections

    def _serve(self, sender: str, message: Message) -> None:
        """A message to this host as the sequencer."""
        match message:
            case Submission(origin=origin) if origin == sender:
                self._leading.intake.serve(self.env, message)
            case Query(origin=origin) if origin == sender:
                self._leading.intake.answer(self.env, message)
            case Accepted():
                self._leading.on_accepted(sender, message)

    def _lead(self) -> None:
        self._matched = self._heard = self._log.last
        self._leading.start(self._epoch)

    def _on_stable(self, stable: int) -> None:
        """As the sequencer, this host has found out what is stable."""
        self._matched = self._heard = self._log.last
        self._stable = stable
        self._deliver()

    def _state(self, _: Subject) -> bytes:
        return msgspec.msgpack.encode((self._log.born, self._log.last))

    def _accepts(self, _: Subject, __: str, state: bytes) -> bool:
        """Vote for nobody who lacks what this host has, and stand instead: only a trial that this host does not refuse comes here."""
        try:
            theirs = msgspec.msgpack.decode(state, type=tuple[int, int])
        except msgspec.MsgspecError:
            return False
        if theirs < (self._log.born, self._log.last):
            self._election.stand(self._election.role)
            return False
        return True

    def _is_content(self, _: Subject) -> bool:
        """Whether this host has no doubt about its sequencer. Whoever stands has one, so the sequencer is asked."""
        if self._leads:
            return True
        if not self._is_current or self._questions > QUESTIONS:
            return False
        if not self._questions:
            self._questions = 1
            self._answer(asks=True)
        self._wait()
        return True

    def _on_elected(self, _: Subject, epoch: int, __: dict[str, bytes]) -> None:
        """This host is the sequencer of a new epoch: it has all that any of its voters has."""
        self._become(epoch, self.env.host)
        self._lead()
        self._leading.open_epoch()
        self._outbox.start_again()
