"""A host that is in the list again gets the committed messages that are still kept, from any member that has them.

It asks for those after the last number that it has (`Ask`), and gets up to `WINDOW` of them, each with the number of the one before
(`Supply`), so that it knows when one is lost on the way. What is committed has one order for all time, so it does not matter in which list
the answer was given. It gets messages that are for others, too, and keeps them for those that are not in the list: so whatever a
destination may lack is with every member.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.round_trips import FIRST_WAIT_S, RoundTrips
from hostagent.protocols.optimistic.journal import Journal
from hostagent.protocols.optimistic.messages import Ask, Supply
from hostagent.protocols.optimistic.state import TokenState

WINDOW: Final = 32
"""Messages in one answer, which comes in one go and fills a third of the default queue of a link."""


class CatchingUp(Part):
    """What one host lacks of what is committed, and what it gives to others. `on_change` is called when it has more than before."""

    messages = (Ask, Supply)

    def __init__(
        self,
        env: Environment,
        longest_s: float,
        journal: Journal,
        latest: Callable[[], TokenState],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self._journal = journal
        self._latest = latest
        self._on_change = on_change
        self._trips = RoundTrips(longest_s, first_s=min(FIRST_WAIT_S, longest_s))
        self._asked = ""
        """Whom this host has asked and not heard from yet."""
        self._tries = 0

    @property
    def is_due(self) -> bool:
        """Whether this host lacks something that is committed."""
        return self._journal.top < self._latest().base

    def look(self) -> None:
        """Ask for what is committed and missing here, unless that was done."""
        if self.is_due and not self._asked:
            self._ask()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Give another host what it lacks, or take what was asked for."""
        match message:
            case Ask(number=number):
                self._answer(sender, number)
            case Supply() if self.is_due:
                self._take(sender, message)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """No answer has come, or not all of it."""
        self._trips.forget(self._asked)
        self._asked = ""
        if self.is_due:
            self._tries += 1
            self._ask()

    def _ask(self) -> None:
        latest, me = self._latest(), self.env.hosts.index(self.env.host)
        members = [place for place in range(len(latest.acks)) if latest.members >> place & 1 and place != me]
        holders = [place for place in members if latest.acks[place] >= latest.base] or members
        if not holders:
            return
        host = self._asked = self.env.hosts[self.env.random.choice(holders)]
        if not self._tries:
            self._trips.asked(host, self.env.now())
        self.env.send(host, Ask(EVERYBODY, self.env.host, 0, self._journal.top), Purpose.CONTROL)
        self.env.set_timer("ask", self._trips.wait_s(host, min(self._tries, 10)))

    def _answer(self, host: str, after: int) -> None:
        up_to = min(self._latest().base, self._journal.top)
        if up_to <= after:
            return
        due = self._journal.kept(after, up_to)
        size = (len(self.env.hosts) + 7) // 8
        last = due[WINDOW][0] - 1 if len(due) > WINDOW else up_to
        if not due:
            nothing = Supply(EVERYBODY, self.env.host, 0, after, after, up_to, bytes(size), b"")
            self.env.send(host, nothing, Purpose.REPAIR)
        numbers = [after, *(number for number, _, _ in due[:WINDOW])]
        ends = [*(number - 1 for number in numbers[2:]), last]
        for (before, number), (_, key, (to, payload)), end in zip(pairwise(numbers), due, ends, strict=False):
            about = EVERYBODY, self.env.hosts[key[0]], key[1]
            self.env.send(host, Supply(*about, before, number, end, to.to_bytes(size), payload), Purpose.REPAIR)

    def _take(self, sender: str, supply: Supply) -> None:
        journal = self._journal
        if supply.before > journal.top or supply.up_to <= journal.top:
            return  # One before this one was lost, or it came twice.
        self._trips.answered(sender, self.env.now())
        if supply.sequence and supply.number > journal.top:
            key = self.env.hosts.index(supply.origin), supply.sequence
            journal.keep(key, int.from_bytes(supply.to), supply.payload)
            journal.place(supply.number, key)
        journal.skip_to(min(supply.up_to, self._latest().base))
        self._tries = 0
        if not self.is_due:
            self._asked = ""
            self.env.cancel_timer("ask")
            self._on_change()
        elif self._asked:
            self.env.set_timer("ask", self._trips.wait_s(sender))
