"""Parts that broadcast protocols share: the copy of a message, and delivery that happens once, also across a restart."""

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
        self._delivered = {host: SequenceSet() for host in env.hosts}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Remember what was delivered before a restart."""
        for host in self._env.hosts:
            self._delivered[host] = SequenceSet(*stored.get(f"delivered/{host}", ()))

    def deliver(self, origin: str, sequence: int, payload: bytes) -> None:
        """Hand the message to the application unless it already has it."""
        delivered = self._delivered[origin]
        if delivered.add(sequence):
            self._env.store(f"delivered/{origin}", delivered.state())
            self._env.deliver(origin, sequence, payload)
