"""Negative acknowledgements: what a host lacks of the numbered messages of others, and whom it asks for that.

Every host numbers its messages 1, 2, 3, ... A host learns from others that a message exists (`hear`), and finds that it lacks the message.
It waits for a short random time first, since the message may only be late. In that time the request may ride on a message that is sent
anyway (`ride`); otherwise an `Ask` is sent. A request names at most `WINDOW` messages of one source, and the next one follows when those
have arrived. What arrives meanwhile, from whomever, is not asked for any more. A request that is not answered is repeated, for as long as
something is missing, at last every `longest_s`. How long an answer may take follows the round trips that were seen.

Who answers. By default a request goes to one host that is known to have the message; if that host does not answer in time, to the source
of the message, then to each of the others in turn. The answer goes to the asker alone. That suits a network where each copy costs a packet.

With `to_all`, which suits a network that multicasts, requests and answers go to everybody, and whoever has the message answers: its source
at once, the others after a random time, unless they see another answer first. Whoever hears a request for what it lacks itself takes it for
its own.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, Ranges
from hostagent.parts.round_trips import RoundTrips
from hostagent.parts.sequences import SequenceSet

WINDOW: Final = 32
"""Messages in one request. Whoever is asked answers in one go, which fills a third of the default queue of a link."""
MOST_TRIES: Final = 10
"""Repetitions of which each waits twice as long as the one before; by then the wait is the longest for sure."""


class Ask(Message, frozen=True):
    """The sender lacks these messages of the origin."""

    missing: Ranges


class Request:
    """What is under way to fill the gaps in the messages of one source."""

    def __init__(self) -> None:
        self.is_asked = False
        self.whom = ""
        """The host that was asked; no host if everybody was."""
        self.last = 0
        """The highest number that was asked for."""
        self.tries = 0


class Misses(Part):
    """What this host has and lacks, by source. `resend` gets an asker, or no host for everybody, and a source and number to send again."""

    messages = (Ask,)

    def __init__(
        self,
        env: Environment,
        waits_s: tuple[float, float, float],
        resend: Callable[[str, str, int], None],
        *,
        to_all: bool = False,
    ) -> None:
        """`waits_s` has the longest time to wait before asking, the first and the longest time to wait for an answer."""
        super().__init__(env)
        self._hold_s, first_s, longest_s = waits_s
        self._resend = resend
        self._to_all = to_all
        self._got = {host: SequenceSet() for host in env.hosts}
        self._known = dict.fromkeys(env.hosts, 0)
        """The highest number that each source is known to have used."""
        self._holder = {host: host for host in env.hosts}
        """Who is to be asked first for messages of each source."""
        self._requests: dict[str, Request] = {}
        self._owed: dict[str, tuple[str, int]] = {}
        """With `to_all`, what this host is about to send again, by the name of the timer."""
        self._trips = RoundTrips(longest_s, first_s)

    def restore(self, source: str, prefix: int) -> None:
        """After a restart: all messages of a source up to this number have been received."""
        self._got[source].add_up_to(prefix)

    def known(self, source: str) -> int:
        """The highest number that a source is known to have used."""
        return self._known[source]

    def take(self, source: str, number: int) -> bool:
        """A message has been received: say whether it is new."""
        if not self._got[source].add(number):
            if self._owed.pop(name := f"{source}/{number}", None):
                self.env.cancel_timer(name)
            return False
        self._known[source] = max(number, self._known[source])
        request = self._requests.get(source)
        if request is None and self._got[source].prefix < number:
            self.hear(source, number, source)
        elif request and request.is_asked and number <= request.last:
            self._trips.answered(request.whom, self.env.now())
            if next(self._gaps(source, request.last), None) is None:
                del self._requests[source]
                self._ask(source, Request())
        return True

    def hear(self, source: str, number: int, holder: str = "") -> None:
        """A source has used numbers up to this one, and the holder, if there is one, has its messages."""
        if number > self._known[source] or (holder and source not in self._requests):
            self._known[source] = max(number, self._known[source])
            self._holder[source] = holder or source
        if source not in self._requests and self._got[source].prefix < self._known[source] and source != self.env.host:
            self._requests[source] = Request()
            self.env.set_timer(source, self._hold_s * self.env.random.uniform(0.5, 1.0))

    def lacking(self, most: int) -> tuple[tuple[str, int], ...]:
        """The first messages that are missing, as pairs of source and number."""
        each = ((source, number) for source in self._requests for number in self._gaps(source, self._known[source]))
        return tuple(islice(each, most))

    def ride(self, most: int) -> str:
        """The host to ask in a message that leaves now and names so many that are lacking; no host if nobody in particular."""
        held = [source for source, request in self._requests.items() if not request.is_asked]
        if not held or len(self.lacking(most + 1)) > most:
            return ""
        whom = "" if self._to_all else self._whom(held[0], 0)
        for source in held:
            self._await(source, self._requests[source], whom)
        return whom

    def asked(self, asker: str, source: str, number: int) -> None:
        """Send a message again that this host has received; with `to_all`, unless somebody else does."""
        if not self._to_all:
            self._resend(asker, source, number)
        elif source == self.env.host:
            self._resend("", source, number)
        elif (name := f"{source}/{number}") not in self._owed:
            self._owed[name] = source, number
            self.env.set_timer(name, self._hold_s * self.env.random.random())

    def on_message(self, sender: str, message: Ask, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Send what a host asks for and this host has received. With `to_all`, this host need not ask for the same."""
        for number in islice(self._asked_for(message), WINDOW):
            self.asked(sender, message.origin, number)
        request = self._requests.get(message.origin)
        if self._to_all and request and not request.is_asked:
            self._await(message.origin, request, "")

    def on_timer(self, name: str) -> None:
        """Ask for what is missing, ask another host, or send again what is owed."""
        if owed := self._owed.pop(name, None):
            self._resend("", *owed)
        elif request := self._requests.get(name):
            self._ask(name, request)
        elif name not in self._got:
            super().on_timer(name)

    def _asked_for(self, ask: Ask) -> Iterator[int]:
        """The numbers that a host asks for and this host has received. Both may be very long ranges."""
        got = self._got[ask.origin]
        for first, last in ask.missing:
            for start, end in ((1, got.prefix), *got.beyond):
                yield from range(max(first, start), min(last, end) + 1)

    def _ask(self, source: str, request: Request) -> None:
        missing = list(islice(self._gaps(source, self._known[source]), WINDOW))
        if not missing:
            self._requests.pop(source, None)
            return
        self._requests[source] = request
        if request.is_asked:
            self._trips.forget(request.whom)
            request.tries += 1
        gaps = SequenceSet(0, ((number, number) for number in missing))
        ask = Ask(EVERYBODY, source, 0, (*(((1, gaps.prefix),) if gaps.prefix else ()), *gaps.beyond))
        whom = "" if self._to_all else self._whom(source, request.tries)
        if self._to_all:
            self.env.multicast(EVERYBODY, ask, Purpose.CONTROL, turn=request.tries)
        else:
            self.env.send(whom, ask, Purpose.CONTROL)
        self._await(source, request, whom)

    def _await(self, source: str, request: Request, whom: str) -> None:
        """An answer is awaited from a host, or from anybody."""
        if not request.tries:
            self._trips.asked(whom, self.env.now())
        missing = list(islice(self._gaps(source, self._known[source]), WINDOW))
        request.is_asked, request.whom, request.last = True, whom, missing[-1] if missing else 0
        self.env.set_timer(source, self._hold_s + self._trips.wait_s(whom, min(request.tries, MOST_TRIES)))

    def _whom(self, source: str, tries: int) -> str:
        """The holder, then the source, then each of the others."""
        hosts = [host for host in dict.fromkeys((self._holder[source], source, *self.env.hosts)) if host != self.env.host]
        return hosts[tries % len(hosts)]

    def _gaps(self, source: str, last: int) -> Iterator[int]:
        """The numbers that are missing up to this one."""
        got = self._got[source]
        return (number for number in range(got.prefix + 1, last + 1) if number not in got)
