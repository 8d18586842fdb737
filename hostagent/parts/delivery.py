"""Parts that broadcast protocols share: the copy of a message, and delivery exactly once, also after a restart."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Payload, SequenceNumber
from hostagent.parts.sequences import SequenceSet


class Copy(Message, frozen=True):
    """A broadcast message on its way to one host."""

    payload: Payload
    nth: SequenceNumber = 0
    """As in `Destination`."""


class StoredSets(Part):
    """For each host a set of sequence numbers that survives a restart."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        # Most hosts never broadcast, so sets are made when needed: a thousand hosts would have a million empty ones.
        self._sets: defaultdict[str, SequenceSet] = defaultdict(SequenceSet)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore what was stored: a host's prefix under the name of the host, a number beyond it under host and number."""
        for key, value in stored.items():
            if "/" not in key:
                self._sets[key].prefix = value
        for key in stored:
            host, separator, number = key.partition("/")
            if separator:
                self._sets[host].add(int(number))

    def of(self, host: str) -> SequenceSet:
        """The numbers of a host. The caller must not change the set."""
        return self._sets[host]

    def hosts(self) -> list[str]:
        """The hosts with at least one number."""
        return [host for host, numbers in self._sets.items() if len(numbers)]

    def add_number(self, host: str, number: int) -> bool:
        """Add a number and say whether it is new. Only the change is stored, since a set with a gap grows with every message."""
        numbers = self._sets[host]
        if not numbers.add(number):
            return False
        if number > numbers.prefix:
            self.env.store(f"{host}/{number}", True)
            return True
        self.env.store(host, numbers.prefix)
        if number < numbers.prefix:
            for absorbed in range(number + 1, numbers.prefix + 1):
                self.env.store(f"{host}/{absorbed}", None)
        return True

    def add_up_to(self, host: str, number: int) -> None:
        """Add all numbers up to this one."""
        numbers = self._sets[host]
        if number > numbers.prefix:
            absorbed = numbers.add_up_to(number)
            self.env.store(host, numbers.prefix)
            for one in absorbed:
                self.env.store(f"{host}/{one}", None)


ITEMS_PER_GROUP: Final = 2
"""What `DeliverOnce` keeps for each origin and group: a set. For each message to listed hosts, if there are gaps: a range."""


class DeliverOnce(Part):
    """Delivers each message once, and remembers what was delivered on stable storage.

    For each origin and group there is one set of numbers: those that `Destination.nth` says, so that they have no gaps at a member. Of
    messages to hosts that were listed, which have no such numbers, the sequence numbers are kept, each gap with them.
    """

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._delivered = self.add("delivered", StoredSets)

    def origins(self) -> list[str]:
        """The hosts whose messages were delivered here."""
        return self._delivered.hosts()

    def delivered(self, origin: str) -> SequenceSet:
        """The numbers of the messages of a host to everybody that were delivered here. The caller must not change the set."""
        return self._delivered.of(origin)

    def is_delivered(self, origin: str, sequence: int, group: int = EVERYBODY, nth: int = 0) -> bool:
        """Whether a message, which was the n-th to its group, was delivered here."""
        return (nth or sequence) in self._delivered.of(_series(origin, group))

    def deliver(self, origin: str, sequence: int, payload: bytes, group: int = EVERYBODY, nth: int = 0) -> None:
        """Hand a message, which was the n-th to its group, to the application, unless the application already has it."""
        if self._delivered.add_number(_series(origin, group), nth or sequence):
            self.env.deliver(origin, sequence, payload)


def _series(origin: str, group: int) -> str:
    """The name under which the numbers of an origin's messages to a group are kept. Names of hosts have no colon."""
    return origin if group == EVERYBODY else f"{origin}:{group}"
