"""A ring as one member sees it: who is in it, and which of its messages have arrived and been delivered here."""

from collections.abc import Iterable, Iterator, Sequence

from hostagent.contract.messages import host_set
from hostagent.parts.sequences import SequenceSet
from hostagent.protocols.totem.messages import MOST_OBLIGED, MOST_REPORTED, Data, Range, Report


class Ring:
    """The members in the order in which the token goes round, and the messages by number."""

    def __init__(self, code: int, members: tuple[str, ...], messages: Iterable[Data] = ()) -> None:
        self.code = code
        self.members = members
        self.received = SequenceSet()
        self.messages: dict[int, Data] = {}
        """The messages that not all members are known to have, or that are not delivered here yet."""
        self.delivered = 0
        """All messages up to this number are delivered here."""
        self.safe = 0
        """All members have all messages up to this number."""
        self.obliged: frozenset[str] = frozenset()
        """The hosts whose messages are delivered here even beyond a gap: `recovery` says why."""
        for data in messages:
            self.add(data.number, data)

    @property
    def aru(self) -> int:
        """All received up to: the number before the first gap."""
        return self.received.prefix

    def successor(self, host: str) -> str:
        """The member to which a member passes the token."""
        return self.members[(self.members.index(host) + 1) % len(self.members)]

    def add(self, number: int, data: Data) -> bool:
        """A message has arrived; whether it is new."""
        if not self.received.add(number):
            return False
        self.messages[number] = data
        return True

    def missing(self, up_to: int) -> Iterator[Range]:
        """The ranges of messages up to this number that have not arrived."""
        first = self.aru + 1
        for begin, end in (*self.received.beyond, (up_to + 1, up_to + 1)):
            if first <= min(begin - 1, up_to):
                yield first, min(begin - 1, up_to)
            first = max(first, end + 1)

    def next_up_to(self, number: int) -> Iterator[Data]:
        """Take what is to be delivered next, up to this number or the first gap."""
        while self.delivered < min(number, self.aru):
            self.delivered += 1
            yield self.messages[self.delivered]

    def forget(self) -> list[Data]:
        """Forget the messages that all members have and that are delivered here, and return them in their order."""
        done = min(self.safe, self.delivered)
        return [self.messages.pop(number) for number in sorted(self.messages) if number <= done]

    def report(self, size: int, hosts: Sequence[str]) -> Report:
        """What the commit token of a ring with this number of members is told of this ring."""
        beyond, most = self.received.beyond, MOST_REPORTED // size
        obliged = host_set(self.obliged, hosts) if self.obliged and size <= MOST_OBLIGED else b""
        return self.code, self.aru, self.safe, beyond[:most], len(beyond) > most, obliged
