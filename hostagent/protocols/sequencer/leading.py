"""With failover: what the sequencer of an epoch does."""

from collections.abc import Callable, Collection
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.protocols.sequencer.intake import Intake
from hostagent.protocols.sequencer.log import Item, Log
from hostagent.protocols.sequencer.messages import AT_ONCE, Accepted, Entry, SequencerParameters, Stable, Submission

MAJORITY: Final = "majority"
"""Round trips are measured until a majority has accepted an entry."""
SILENT: Final = 8
"""A host that has left so many questions in a row unanswered is not waited for any more once the history is full."""
TELL_EVERY: Final = 16
"""While entries follow each other, they say what is stable; it is said apart when so many have become stable since."""


class Leading(Part):
    """Number messages, send them to everybody, and find out what a majority has. `on_stable` is called with the number up to which it has.

    Who has voted for another does not lead any more (`leads`), though it may not know yet who does.
    """

    def __init__(
        self,
        env: Environment,
        parameters: SequencerParameters,
        log: Log,
        leads: Callable[[], bool],
        on_stable: Callable[[int], None],
    ) -> None:
        super().__init__(env)
        self._log = log
        self._leads = leads
        self._on_stable = on_stable
        self._silence_s = parameters.silence_ms / 1000
        self._epoch = 0
        self._stable = self._told = 0
        self._accepted: dict[str, int] = {}
        """For each other host, up to which number it has accepted the entries of this epoch."""
        self._forgotten: dict[str, int] = {}
        """For each other host, up to which number it has forgotten the entries."""
        self._silent: dict[str, int] = {}
        """How many questions in a row each host that lags has left unanswered."""
        self._given_up: dict[str, None] = {}
        """Hosts that were silent when the history was full: nobody waits for them, and everything is kept for them."""
        self._left_behind: dict[str, None] = {}
        """Hosts that say that they have lost what they had: nothing is kept for them."""
        self._timed = self._tries = 0
        self._trips = parameters.round_trips()
        self._history = parameters.history
        self.intake = self.add(
            "intake", lambda own: Intake(own, parameters, lambda: leads() and not self._is_full(), self._order)
        )

    def start(self, epoch: int) -> None:
        """Lead in this epoch, with the entries that there are."""
        self._epoch = epoch
        self._stable = self._told = self._log.delivered
        self._accepted = dict.fromkeys(self.env.peers, 0)
        self._forgotten, self._silent = dict(self._accepted), dict(self._accepted)
        # So much is kept only if somebody was given up before; the others will say what they have.
        self._given_up = dict.fromkeys(self.env.peers if self._log.last - self._log.floor >= self._history else ())
        self._left_behind = {}
        self._timed = self._tries = 0
        self.intake.begin(self._log.taken())
        if self._log.last:
            self._ask_later()

    def stop(self) -> None:
        """Another host leads."""
        self.intake.begin({})
        self.env.cancel_timer("status")

    def open_epoch(self) -> None:
        """The first entry of an epoch is no message: when it is stable, all before it is, whatever epoch that is from."""
        self._add(Item(self._epoch, EVERYBODY, self.env.host, 0, b"", b""))

    def on_accepted(self, sender: str, message: Accepted) -> None:
        """A host says what it has accepted, and what it lacks."""
        self._silent[sender] = 0
        if message.epoch != self._epoch:
            self.env.send(sender, self._status(asks=True), Purpose.CONTROL)
            return
        self._accepted[sender] = max(self._accepted[sender], min(message.number, self._log.last))
        self._forgotten[sender] = max(self._forgotten[sender], message.floor)
        if message.is_left_behind:
            self._left_behind[sender] = None
        else:
            self._left_behind.pop(sender, None)
        if self._log.last - message.number < self._history:
            self._given_up.pop(sender, None)
        asked = (number for first, last in message.missing for number in range(first, min(last, self._log.last) + 1))
        for number, _ in zip(asked, range(AT_ONCE), strict=False):
            if number in self._log:
                self.env.send(sender, self._entry(number), Purpose.REPAIR)
        self._advance()
        if message.asks:
            self.env.send(sender, self._status(asks=False), Purpose.CONTROL)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Ask those who have not accepted everything, or keep what they need not. A silent one does not hold up the others for ever."""
        if not self._leads():
            return
        self._tries += 1
        if self._tries > 1:
            self._timed = 0
            self._trips.forget(MAJORITY)
        lagging = [peer for peer in self.env.peers if self._lags(peer)]
        for peer in self.env.shuffled(lagging):
            self._silent[peer] += 1
            self.env.send(peer, self._status(asks=True), Purpose.CONTROL)
        if self._is_full():
            self._given_up |= dict.fromkeys(peer for peer in lagging if self._silent[peer] > SILENT)
            self._advance()
        if lagging:
            self._ask_later()

    def _lags(self, peer: str) -> bool:
        """Whether to ask a host what it has: not if it has said that it is left behind, as nothing can be done about that."""
        if peer in self._left_behind and not self._silent[peer]:
            return False
        return self._accepted[peer] < self._log.last or self._forgotten[peer] < self._log.floor

    def _order(self, submission: Submission) -> None:
        message = submission.group, submission.origin, submission.sequence, submission.payload, submission.listed
        self._add(Item(self._epoch, *message))

    def _add(self, item: Item) -> None:
        number = self._log.append(item)
        if not self._timed:
            self._timed = number
            self._trips.asked(MAJORITY, self.env.now())
        self.env.multicast(EVERYBODY, self._entry(number), Purpose.DATA if item.sequence else Purpose.CONTROL)
        self._ask_later()
        self._advance()

    def _advance(self) -> None:
        """Find out what is stable and what is everywhere, tell it, and order what waits for room."""
        accepted = sorted((*self._accepted.values(), self._log.last), reverse=True)
        by_majority = accepted[len(self.env.hosts) // 2]
        # Only an entry of this epoch shows that no other sequencer can have had another entry in its place.
        if by_majority > self._stable and self._log[by_majority].born == self._epoch:
            self._stable = by_majority
            self._tries = 0
            if self._timed and self._stable >= self._timed:
                self._timed = 0
                self._trips.answered(MAJORITY, self.env.now())
            self._on_stable(self._stable)
            self._tell()
        self._log.forget(self._everywhere(self._left_behind))
        self.intake.go_on()

    def _everywhere(self, without: Collection[str]) -> int:
        """Up to which number all hosts but some have the entries."""
        return min((number for peer, number in self._accepted.items() if peer not in without), default=self._stable)

    def _is_full(self) -> bool:
        """Whether hosts that are waited for lack so many entries that no message may be added. The last entry always stays."""
        everywhere = max(self._everywhere({**self._given_up, **self._left_behind}), self._log.floor)
        lacking = self._log.last - min(everywhere, self._log.delivered)
        return lacking > 1 and lacking >= self._history

    def _tell(self) -> None:
        """Tell all what is stable, unless further entries are on their way, which tell it too."""
        if self._stable == self._log.last:
            self._ask_later()
        if self._stable == self._log.last or self._stable >= self._told + TELL_EVERY:
            self._told = self._stable
            self.env.multicast(EVERYBODY, self._status(asks=False), Purpose.CONTROL)

    def _entry(self, number: int) -> Entry:
        item, log = self._log[number], self._log
        message = item.group, item.origin, item.sequence
        news = self._epoch, number, item.born, self._stable, log.floor, log.floor_born
        return Entry(*message, *news, item.payload, item.listed)

    def _status(self, *, asks: bool) -> Stable:
        log = self._log
        return Stable(0, self.env.host, 0, self._epoch, log.last, self._stable, log.floor, log.floor_born, asks)

    def _ask_later(self) -> None:
        """Ask soon while something is not stable, and otherwise after a silence."""
        wait_s = self._trips.wait_s(MAJORITY, self._tries)
        self.env.set_timer("status", wait_s if self._stable < self._log.last else self._silence_s)
