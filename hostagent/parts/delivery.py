"""Parts that broadcast protocols share: the copy of a message, and delivery that happens once, also across a restart."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Environment
from hostagent.contract.messages import Message, Payload
from hostagent.parts.sequences import SequenceSet


class Copy(Message, frozen=True):
    """A broadcast message on its way to one host."""

    payload: Payload


class StoredSets:
    """For each host a set of sequence numbers that survives a restart, under keys of its own on stable storage."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env = env
        self._name = name
        # Most hosts never broadcast: a set for each of them would cost a thousand hosts a million sets.
        self._sets: defaultdict[str, SequenceSet] = defaultdict(SequenceSet)

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what was stored before a restart."""
        for key, value in stored.items():
            match key.split("/"):
                case [self._name, host]:
                    self._sets[host].prefix = value
        for key in stored:
            match key.split("/"):
                case [self._name, host, number]:
                    self._sets[host].add(int(number))

    def of(self, host: str) -> SequenceSet:
        """The numbers of a host; not to be changed."""
        return self._sets[host]

    def add(self, host: str, number: int) -> bool:
        """Add a number; whether it is new. The change is stored, not the set: beyond a gap it grows with every message."""
        numbers = self._sets[host]
        if not numbers.add(number):
            return False
        if number > numbers.prefix:
            self._env.store(f"{self._name}/{host}/{number}", True)
            return True
        self._env.store(f"{self._name}/{host}", numbers.prefix)
        for absorbed in range(number + 1, numbers.prefix + 1):
            self._env.store(f"{self._name}/{host}/{absorbed}", None)
        return True

    def add_up_to(self, host: str, number: int) -> None:
        """Add all numbers up to this one."""
        numbers = self._sets[host]
        if number > numbers.prefix:
            absorbed = numbers.add_up_to(number)
            self._env.store(f"{self._name}/{host}", numbers.prefix)
            for one in absorbed:
                self._env.store(f"{self._name}/{host}/{one}", None)


class DeliverOnce:
    """Delivers a message if it was not delivered before, and remembers that on stable storage."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._delivered = StoredSets(env, "delivered")

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Remember what was delivered before a restart."""
        self._delivered.restore(stored)

    def delivered(self, origin: str) -> SequenceSet:
        """The numbers of the messages of a host that were delivered here; not to be changed."""
        return self._delivered.of(origin)

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        """Hand the message to the application unless it already has it."""
        if self._delivered.add(origin, sequence):
            self._env.deliver(origin, sequence, payload)
