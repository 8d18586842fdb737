"""Parts that broadcast protocols share: the copy of a message, and delivery that happens once, also across a restart."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Payload
from hostagent.parts.sequences import SequenceSet


class Copy(Message, frozen=True):
    """A broadcast message on its way to one host."""

    payload: Payload


class StoredSets(Part):
    """For each host a set of sequence numbers that survives a restart."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        # Most hosts never broadcast: a set for each of them would cost a thousand hosts a million sets.
        self._sets: defaultdict[str, SequenceSet] = defaultdict(SequenceSet)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Take up what was stored before a restart: the prefix of a host under its name, a number beyond it under both."""
        for key, value in stored.items():
            if "/" not in key:
                self._sets[key].prefix = value
        for key in stored:
            host, separator, number = key.partition("/")
            if separator:
                self._sets[host].add(int(number))

    def of(self, host: str) -> SequenceSet:
        """The numbers of a host; not to be changed."""
        return self._sets[host]

    def hosts(self) -> list[str]:
        """The hosts of which there are numbers."""
        return [host for host, numbers in self._sets.items() if len(numbers)]

    def add_number(self, host: str, number: int) -> bool:
        """Add a number; whether it is new. The change is stored, not the set: beyond a gap it grows with every message."""
        numbers = self._sets[host]
        if not numbers.add(number):
            return False
        if number > numbers.prefix:
            self.env.store(f"{host}/{number}", True)
            return True
        self.env.store(host, numbers.prefix)
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


class DeliverOnce(Part):
    """Delivers a message if it was not delivered before, and remembers that on stable storage."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._delivered = self.add("delivered", StoredSets)

    def origins(self) -> list[str]:
        """The hosts of which messages were delivered here."""
        return self._delivered.hosts()

    def delivered(self, origin: str) -> SequenceSet:
        """The numbers of the messages of a host that were delivered here; not to be changed."""
        return self._delivered.of(origin)

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        """Hand the message to the application unless it already has it."""
        if self._delivered.add_number(origin, sequence):
            self.env.deliver(origin, sequence, payload)
