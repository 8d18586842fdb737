"""Requests of a site for numbered messages that it lacks.

What is lacking may still be on its way: a message from its source, or the acknowledgement with its number from a site that is farther away
than the next one. It is asked for at once if it must have been lost: if a later message of its source has come, or a second acknowledgement
after the one with its number. Otherwise it is asked for when it is later than messages of that source have been before. What was asked
for is asked for again, each time at another site.
"""

from collections.abc import Callable
from itertools import islice

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.token_site.ledger import WINDOW, Ledger
from hostagent.protocols.token_site.messages import Request, Supply
from hostagent.protocols.token_site.pace import Pace
from hostagent.protocols.token_site.reformation import as_ranges


class Requests(Part):
    """What one site asks for and is asked for. `helpers` names the sites that may have what is lacking."""

    messages = (Request, Supply)

    def __init__(self, env: Environment, ledger: Ledger, pace: Pace, helpers: Callable[[], tuple[str, ...]]) -> None:
        super().__init__(env)
        self._ledger, self._pace, self._helpers = ledger, pace, helpers
        self._late = RoundTrips(pace.longest_s, 0.0)
        """How much later than their numbers the messages of each source come."""
        self._version = self._last = self._due = self._tries = 0
        """The list, the highest number that was given, and the number up to which the numbers themselves should be known by now."""
        self._helper = ""
        self._asked: dict[int, None] = {}
        self._is_waiting = False

    def lack(self, helper: str, version: int, last: int) -> None:
        """Everything up to the number `last` was numbered in the list of a version, or before; `helper` has it."""
        if version != self._version:
            self.stop()
        self._helper, self._version, self._due, self._last = helper, version, self._last, max(last, self._last)
        self.look()

    def stop(self) -> None:
        """Nothing is lacking any more, or the list is given up."""
        self._last = self._due = self._tries = 0
        self._asked = {}
        self._is_waiting = False
        self.env.cancel_timer("ask")

    def look(self) -> None:
        """Ask for what must have been lost, and wait for what may be on its way."""
        missing = self._ledger.missing(self._last)
        if not missing:
            if self._is_waiting:
                self.stop()
            return
        # New losses do not wait for the answer to earlier requests.
        self._ask([number for number in missing if number not in self._asked and self._is_overdue(number)])
        if not self._is_waiting:
            self._is_waiting = True
            origin = self._ledger.origin_of(missing[0]) or self._helper
            self._late.asked(origin, self.env.now())
            self.env.set_timer("ask", self._late.wait_s(origin))

    def wants(self, supply: Supply) -> bool:
        """Whether a message was asked for, in this list."""
        if supply.version != self._version or supply.number > self._last:
            return False
        self._answered(supply.number)
        return True

    def came(self, origin: str) -> None:
        """A message that was lacking came from its source."""
        self._late.answered(origin, self.env.now())

    def _answered(self, number: int) -> None:
        """A message came that may have been asked for."""
        if self._asked.pop(number, 0) is None:
            self._tries = 0
            self._pace.answered(self._helper)

    def serve(self, host: str, request: Request) -> None:
        """Send what a host lacks and this one has."""
        numbers = (number for first, last in request.missing for number in range(first, min(last, self._ledger.last) + 1))
        for number in islice(numbers, WINDOW):
            if (entry := self._ledger.entry(number)) is not None:
                origin, sequence, payload = entry
                self.env.send(host, Supply(EVERYBODY, origin, sequence, request.version, number, payload), Purpose.REPAIR)

    def on_timer(self, name: str) -> None:
        """What is lacking has not come."""
        if name != "ask":
            super().on_timer(name)
        self._is_waiting = False
        if self._asked:
            # The helper may be dead, or lack the messages itself.
            helpers = self._helpers()
            self._helper = helpers[self._tries % len(helpers)] if helpers else self._helper
            self._tries, self._asked = self._tries + 1, {}
        self._due = self._last
        if missing := self._ledger.missing(self._last):
            self._ask(missing)
        else:
            self.stop()

    def _is_overdue(self, number: int) -> bool:
        return self._ledger.is_overtaken(number) if self._ledger.origin_of(number) else number <= self._due

    def _ask(self, numbers: list[int]) -> None:
        if not numbers or not self._helper:
            return
        if not self._asked and not self._tries:
            self._pace.asked(self._helper)
        self._asked |= dict.fromkeys(numbers)
        self.env.send(self._helper, Request(EVERYBODY, self.env.host, 0, self._version, as_ranges(numbers)), Purpose.CONTROL)
        self._is_waiting = True
        self.env.set_timer("ask", self._pace.wait_s(self._helper, min(self._tries, 4)))
