"""Reminders: who knows nothing of a message cannot ask for it, and who waits for a vote does not know whether it was cast.

A host that has not acknowledged a message of the application in time is sent a `Status`, which says what there is; it asks for what it
lacks, and answers with a `Status` of its own. The source of a message is the first to do so, and after a while whoever has the message. A
host with messages that are not in the total order, to whom nothing new comes, sends a `Status` to everybody. Each repetition waits twice as
long as the one before. How long a host may take follows the round trips that were seen, from a message to its acknowledgement.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.trans_total.messages import Status

if TYPE_CHECKING:
    from hostagent.protocols.trans_total.protocol import TransTotal

# Others leave the source of a message so many times as long to remind a host of it.
PATIENCE: Final = 4
# Waits are lengthened by up to a tenth at random, so that hosts do not stay synchronised.
JITTER: Final = 1.1
MOST_TRIES: Final = 10
"""Repetitions of which each waits twice as long as the one before; by then the wait is the longest for sure."""
VOTES: Final = "votes"
"""The timer of a host that waits for votes. The other timers have the names of hosts."""


class Watch(msgspec.Struct, frozen=True):
    """What a host should have when it is looked after next, and how often it was reminded."""

    due: tuple[int, ...]
    tries: int


class Reminders(Part):
    """What others were told and should have by now."""

    messages = (Status,)

    def __init__(self, env: Environment, core: "TransTotal", waits_s: tuple[float, float, float]) -> None:
        """`waits_s` has the longest time before a host acknowledges, and the first and the longest time to wait for an answer."""
        super().__init__(env)
        self._core = core
        silence_s, first_s, self._longest_s = waits_s
        self._answer_s = 2 * silence_s
        self._told = dict.fromkeys(env.peers, core.graph.floor)
        """What each host last said that it has."""
        self._watches: dict[str, Watch] = {}
        """The hosts that may lack messages of the application."""
        self._probed: dict[str, int] = {}
        """For the round trip to each host: a message of this host that the other has not acknowledged yet."""
        self._trips = RoundTrips(self._longest_s, first_s)
        self._stuck: tuple[int, tuple[int, ...]] | None = None
        """While this host waits for votes: how often it has asked, and what there was in the graph then."""

    def sent(self, number: int) -> None:
        """This host has sent a message of the application with this number."""
        for peer in self.env.peers:
            if peer not in self._probed:
                self._probed[peer] = number
                self._trips.asked(peer, self.env.now())

    def acknowledged(self, peer: str, number: int) -> None:
        """A message of another host acknowledges the messages of this host up to this number."""
        if peer in self._probed and self._probed[peer] <= number:
            del self._probed[peer]
            self._trips.answered(peer, self.env.now())

    def watch(self) -> None:
        """There is a new message of the application in the graph: look after some time whether everybody has it."""
        for peer in self.env.peers:
            if peer not in self._watches:
                self._look_later(peer, 0)

    def wait_for_votes(self) -> None:
        """There are messages that are not in the total order: see whether anything new comes in time."""
        if self._stuck is None:
            self._wait(0)

    def ask_all(self, turn: int = 0) -> None:
        """Ask everybody what there is."""
        self.env.multicast(EVERYBODY, self._status(asks=True), Purpose.CONTROL, turn=turn)

    def on_message(self, sender: str, message: Status, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Another host says what it has: this host asks for what it lacks."""
        self._told[sender] = tuple(map(max, self._told[sender], message.have))
        self._trips.answered(sender, self.env.now())
        for host, number in zip(self.env.hosts, message.have, strict=True):
            if number:
                self._core.misses.hear(host, number, sender)
        if message.asks:
            self.env.send(sender, self._status(asks=False), Purpose.CONTROL)

    def on_timer(self, name: str) -> None:
        """Look whether a host has what it should have, or ask all hosts for votes."""
        if name == VOTES:
            self._look_for_votes()
        elif name in self._watches:
            self._look_after(name)
        else:
            super().on_timer(name)

    def _status(self, *, asks: bool) -> Status:
        return Status(EVERYBODY, self.env.host, 0, tuple(self._core.graph.counts), asks)

    def _lacks(self, peer: str, due: tuple[int, ...]) -> bool:
        """Whether a host is not known to have so many messages of each host."""
        has = map(max, self._core.graph.latest[self.env.hosts.index(peer)], self._told[peer])
        return any(count < last for count, last in zip(has, due, strict=True))

    def _look_later(self, peer: str, tries: int) -> None:
        """Look again when there was time to acknowledge."""
        due = tuple(self._core.last)
        own = tuple(last if host == self.env.host else 0 for host, last in zip(self.env.hosts, due, strict=True))
        wait_s = self._answer_s + self._trips.wait_s(peer, min(tries, MOST_TRIES))
        wait_s = min(wait_s if self._lacks(peer, own) else PATIENCE * wait_s, self._longest_s)
        self._watches[peer] = Watch(due, tries)
        self.env.set_timer(peer, wait_s * self.env.random.uniform(1.0, JITTER))

    def _look_after(self, peer: str) -> None:
        """Tell a host what there is, if it has not acknowledged what it should have by now."""
        watch = self._watches.pop(peer)
        if self._lacks(peer, watch.due):
            self._trips.forget(peer)
            self._probed.pop(peer, None)
            self.env.send(peer, self._status(asks=True), Purpose.CONTROL)
            self._look_later(peer, watch.tries + 1)
        elif self._lacks(peer, tuple(self._core.last)):
            self._look_later(peer, 0)

    def _wait(self, tries: int) -> None:
        self._stuck = tries, tuple(self._core.graph.counts)
        wait_s = max((self._trips.wait_s(peer, min(tries, MOST_TRIES)) for peer in self.env.peers), default=self._longest_s)
        self.env.set_timer(VOTES, min(self._answer_s + wait_s, self._longest_s) * self.env.random.uniform(1.0, JITTER))

    def _look_for_votes(self) -> None:
        """If messages are not in the total order and nothing new has come, ask all hosts what they have."""
        if self._stuck is None or not self._core.is_pending():
            self._stuck = None
            return
        tries, counts = self._stuck
        if counts != tuple(self._core.graph.counts):
            self._wait(0)
            return
        self.ask_all(turn=tries)
        self._wait(tries + 1)
