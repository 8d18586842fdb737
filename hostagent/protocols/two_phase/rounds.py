"""Rounds of voting on a message, as whoever tries to finish it sees them: its source, or a host that has waited for too long.

Each host is asked one question at a time about a message: for its vote, to accept the counter that was chosen, to note the decision. A
step begins when a majority has answered the one before, and is sent to all hosts at once; a host that is behind is asked when it has
answered.
"""

from typing import TYPE_CHECKING

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.questions import Questions
from hostagent.protocols.two_phase.messages import Accept, Accepted, Have, MessageId, Promised, Refused, Seen
from hostagent.protocols.two_phase.parameters import TwoPhaseParameters
from hostagent.protocols.two_phase.records import Held

if TYPE_CHECKING:
    from hostagent.protocols.two_phase.electing import Electing


class Round(msgspec.Struct):
    """A message that this host tries to finish."""

    ballot: int
    purpose: Purpose
    votes: dict[str, Promised]
    lacking: dict[str, None]
    """The hosts that are not known to have the decision."""
    chosen: int = 0
    """The counter that is to be the final one."""
    accepted: dict[str, Seen] = {}
    spread: Message | None = None
    """The step that was last sent to everybody."""


class Rounds(Part):
    """The rounds that this host has begun. `core` is this host as a voter."""

    messages = (Promised, Accepted, Refused, Have)

    def __init__(self, env: Environment, parameters: TwoPhaseParameters, core: "Electing") -> None:
        super().__init__(env)
        self._core = core
        self.questions = self.add("questions", lambda own: Questions(own, parameters.first_retry_ms, parameters.longest_retry_ms))
        self.majority = len(env.hosts) // 2 + 1
        self.open: dict[MessageId, Round] = {}

    def of(self, origin: str) -> bool:
        """Whether a message of a host is being finished here."""
        return any(host == origin for host, _ in self.open)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """An answer to a question of a round."""
        about = message.origin, message.sequence
        held, round_ = self._core.held.get(about), self.open.get(about)
        if held is None or round_ is None:
            return
        match message:
            case Promised():
                self._take_promise(sender, message, held, round_)
            case Accepted():
                self._take_accepted(sender, message, held, round_)
            case Refused():
                self._take_refusal(sender, message, held, round_)
            case Have():
                self.has_decision(sender, held)

    def begin(self, held: Held, ballot: int, purpose: Purpose) -> None:
        """Ask everybody for a vote; where the message is decided, find out who does not know."""
        message = held.vote
        if not held.decided and ballot > held.promised:
            held.promised = ballot
            self._core.store_vote(held)
        vote = msgspec.structs.replace(message, floor=self._core.done[message.origin], ballot=ballot)
        round_ = self.open[message.id] = Round(ballot, purpose, {self.env.host: held.promise}, dict.fromkeys(self.env.peers))
        self.env.multicast(EVERYBODY, vote, purpose)
        for peer in self.env.peers:
            self.questions.ask(peer, message.id, vote)
        self._go_on(held, round_)

    def _take_promise(self, sender: str, promised: Promised, held: Held, round_: Round) -> None:
        """A vote has come. When a majority has voted, choose the final counter: one that was accepted, or the highest proposed."""
        if promised.ballot != round_.ballot and not held.decided:
            return
        if sender not in round_.votes and self.questions.answered(sender, held.vote.id):
            round_.votes[sender] = promised
            self._next(sender, held, round_)
            self._go_on(held, round_)

    def _go_on(self, held: Held, round_: Round) -> None:
        """Take the next step if a majority has answered the one before."""
        if not held.decided and not round_.chosen and len(round_.votes) >= self.majority:
            accepted = [(vote.accepted_in, vote.accepted) for vote in round_.votes.values() if vote.accepted]
            round_.chosen = max(accepted)[1] if accepted else max(vote.counter for vote in round_.votes.values())
            self._core.accept(held, round_.ballot, round_.chosen)
            round_.accepted = {self.env.host: self._core.all_seen()}
            self._spread(Accept(*held.header, round_.chosen, round_.ballot), held, round_)
        if not held.decided and round_.chosen and len(round_.accepted) >= self.majority:
            seen = tuple(max(numbers) for numbers in zip(*round_.accepted.values(), strict=True))
            self.env.trace("decided", held.vote.id, counter=round_.chosen, ballot=round_.ballot)
            self._core.decide(held, round_.chosen, seen)
        self._finish(held, round_)

    def _spread(self, step: Message, held: Held, round_: Round) -> None:
        """Send the next step to everybody, and wait for those that have answered the one before."""
        round_.spread = step
        self.env.multicast(EVERYBODY, step, round_.purpose)
        for host in round_.votes:
            if host in round_.lacking:
                self.questions.ask(host, held.vote.id, step)

    def _next(self, host: str, held: Held, round_: Round) -> None:
        """A host has answered: what it is asked next, unless it must wait for the others."""
        step: Message | None = None
        if held.decided and host in round_.lacking:
            step = held.decision
        elif round_.chosen and host not in round_.accepted:
            step = Accept(*held.header, round_.chosen, round_.ballot)
        if step is not None:
            self.questions.ask(host, held.vote.id, step, sent=step == round_.spread)

    def _take_accepted(self, sender: str, accepted: Accepted, held: Held, round_: Round) -> None:
        """A host has accepted. When a majority has, the counter is decided, whoever takes over."""
        if accepted.ballot != round_.ballot or sender in round_.accepted:
            return
        self.questions.answered(sender, held.vote.id)
        round_.votes.setdefault(sender, Promised(*held.header, 0, round_.ballot))
        round_.accepted[sender] = accepted.seen
        self._next(sender, held, round_)
        self._go_on(held, round_)

    def _take_refusal(self, sender: str, refused: Refused, held: Held, round_: Round) -> None:
        """A host takes part in a higher ballot: give up this one, and try again later if nobody finishes the message."""
        held.heard = max(held.heard, refused.ballot)
        if held.decided:
            if self.questions.answered(sender, held.vote.id):
                round_.votes[sender] = Promised(*held.header, 0)
                self._next(sender, held, round_)
        elif refused.ballot > round_.ballot:
            self.drop(held)
            self._core.watch(held.vote.origin)

    def has_decision(self, host: str, held: Held) -> None:
        """A host has the decision."""
        round_ = self.open.get(held.vote.id)
        if round_ is None or not held.decided:
            return
        self.questions.answered(host, held.vote.id)
        round_.lacking.pop(host, None)
        self._finish(held, round_)

    def tell(self, held: Held) -> None:
        """The message is decided, here or elsewhere: tell everybody, if this host tries to finish it."""
        round_ = self.open.get(held.vote.id)
        if round_ is not None:
            self._spread(held.decision, held, round_)

    def _finish(self, held: Held, round_: Round) -> None:
        """When everybody has the decision, the round is over."""
        if not round_.lacking and held.decided and self.open.get(held.vote.id) is round_:
            del self.open[held.vote.id]
            self._core.finished(held)

    def drop(self, held: Held) -> None:
        """Leave a message to others."""
        round_ = self.open.pop(held.vote.id, None)
        for peer in round_.lacking if round_ else ():
            self.questions.drop(peer, held.vote.id)
