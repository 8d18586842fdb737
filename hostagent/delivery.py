"""Parts that broadcast protocols share: the copy of a message, and delivery that happens once, also across a restart."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from hostagent.core import Environment
from hostagent.messages import Message
from hostagent.sequences import SequenceSet


class Copy(Message, frozen=True):
    """A broadcast message on its way to one host."""

    payload: bytes


class DeliverOnce:
    """Delivers a message if it was not delivered before, and remembers that on stable storage."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        # Most hosts never broadcast: a set for each of them would cost a thousand hosts a million sets.
        self._delivered: defaultdict[str, SequenceSet] = defaultdict(SequenceSet)

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Remember what was delivered before a restart."""
        for key, value in stored.items():
            match key.split("/"):
                case ["delivered", host]:
                    self._delivered[host].prefix = value
        for key in stored:
            match key.split("/"):
                case ["delivered", host, number]:
                    self._delivered[host].add(int(number))

    def delivered(self, origin: str) -> SequenceSet:
        """The numbers of the messages of a host that were delivered here; not to be changed."""
        return self._delivered[origin]

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        """Hand the message to the application unless it already has it."""
        if self._delivered[origin].add(sequence):
            self._remember(origin, sequence)
            self._env.deliver(origin, sequence, payload)

    def _remember(self, origin: str, sequence: int) -> None:
        """Store the change, not the set: beyond a gap that nobody fills the set grows with every message."""
        prefix = self._delivered[origin].prefix
        if sequence > prefix:
            self._env.store(f"delivered/{origin}/{sequence}", True)
            return
        self._env.store(f"delivered/{origin}", prefix)
        for absorbed in range(sequence + 1, prefix + 1):
            self._env.store(f"delivered/{origin}/{absorbed}", None)
