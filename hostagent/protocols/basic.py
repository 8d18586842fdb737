"""The simple solution: a separately addressed copy to every destination, repeated until it is acknowledged.

Source: the first paper (Garcia-Molina, Kogan, Lynch), section 1. It is the baseline that the cluster tree is measured against.

Model. Hosts exchange datagrams that may be lost, duplicated and reordered; hosts may crash and restart with their storage.

Guarantees. No creation, no duplication, and validity as long as the source can reach the hosts: the source alone is responsible, so a
source that is cut off after a partial broadcast leaves the others without the message until it is back (section 1).

Messages. `Copy` to each destination (data at first, repair when repeated) and `Ack` in return (control): 2 (n - 1) datagrams per message
to n hosts when nothing is lost. On a network that multicasts, the first copy to a group is one datagram for all; repairs go to one host.

State that survives a restart: every message not yet acknowledged by all, and what was delivered. Who acknowledged is not stored: a source
that restarts asks all destinations again, and hosts that have the message only acknowledge it again.
"""

from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Core, Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, Purpose, slots
from hostagent.contract.promises import Guarantee, Promise
from hostagent.parts.delivery import ITEMS_PER_GROUP, Copy, DeliverOnce


class Ack(Message, frozen=True):
    """The receiver has the message on stable storage."""


class BasicParameters(Parameters, frozen=True, kw_only=True):
    """How often an unacknowledged copy is repeated."""

    retry_ms: Milliseconds = 500.0
    """Wait before the first repetition: well above a round trip through a queue of 100 packets on a 10 Mbit/s link (120 ms)."""
    longest_retry_ms: Milliseconds = 4000.0
    """The wait doubles with each repetition up to this value: a partition costs few packets, and its end is noticed within seconds."""


class Basic(Core):
    """The source sends every host its own copy until the host acknowledges it."""

    name = "basic"
    number = 2
    summary = "a copy to every host, repeated by the source until acknowledged"
    assumes = "the source comes back: no other host repeats its messages"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (Copy, Ack)
    Parameters = BasicParameters
    parameters: BasicParameters

    def __init__(self, env: Environment, parameters: BasicParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.unacknowledged: dict[int, dict[str, None]] = {}
        self.copies: dict[int, Copy] = {}
        self.wait_ms: dict[int, float] = {}
        self.fresh: dict[int, int] = {}
        """The messages that were not repeated yet, and the slots of each: whoever lacks one of the others does not answer."""
        self._fresh_slots = 0

    @classmethod
    def promise(cls, parameters: BasicParameters, hosts: int) -> Promise:
        """What reaches a host is repeated until it is acknowledged.

        Twenty repetitions in a row fail one time in a million where half of the copies or acknowledgements are lost.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        patience_ms = 20 * 1.1 * parameters.longest_retry_ms
        return Promise(guarantees=guarantees, patience_ms=patience_ms, retained=hosts, retained_per_group=ITEMS_PER_GROUP)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore every message that was not acknowledged by all, and go on sending it."""
        for key, (group, hosts, nth, payload) in stored.items():
            sequence = int(key.removeprefix("message/"))
            self._keep(sequence, Destination(group, hosts, nth), payload)
            self._repeat(sequence)
            self._wait(sequence)

    @property
    def unfinished(self) -> int:
        """The messages that hosts may be about to acknowledge, in slots."""
        return self._fresh_slots

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Deliver here if the message is for this host too, then start sending to the other destinations."""
        if self.env.host in to.hosts:
            self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        self.env.store(f"message/{sequence}", (*to, payload))
        self._keep(sequence, to, payload)
        self.fresh[sequence] = slots(payload)
        self._fresh_slots += self.fresh[sequence]
        self.env.multicast_to(to, self.copies[sequence], Purpose.DATA)
        self._wait(sequence)
        self._forget_if_acknowledged(sequence)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A copy is delivered if new and acknowledged always; an acknowledgement ends the repetition."""
        if isinstance(message, Copy):
            self.delivery.deliver(message.origin, message.sequence, message.payload, message.group, message.nth)
            self.env.send(sender, Ack(0, message.origin, message.sequence), Purpose.CONTROL)
        elif message.origin == self.env.host:
            self._acknowledged(sender, message.sequence)

    def on_timer(self, name: str) -> None:
        """Repeat a message to those who have not acknowledged it."""
        sequence = int(name)
        self._fresh_slots -= self.fresh.pop(sequence, 0)
        # Each repetition begins with another host: of a burst that is longer than a queue, always the same places are dropped.
        waiting = self.unacknowledged[sequence]
        first = next(iter(waiting))
        waiting[first] = waiting.pop(first)
        self._repeat(sequence)
        self.wait_ms[sequence] = min(2 * self.wait_ms[sequence], self.parameters.longest_retry_ms)
        self._wait(sequence)

    def _keep(self, sequence: int, to: Destination, payload: bytes) -> None:
        self.copies[sequence] = Copy(to.group, self.env.host, sequence, payload, to.nth)
        self.unacknowledged[sequence] = {host: None for host in to.hosts if host != self.env.host}
        self.wait_ms[sequence] = self.parameters.retry_ms

    def _repeat(self, sequence: int) -> None:
        for host in self.unacknowledged[sequence]:
            self.env.send(host, self.copies[sequence], Purpose.REPAIR)

    def _wait(self, sequence: int) -> None:
        # Up to a tenth more, so that messages that were broadcast together are not always repeated together.
        self.env.set_timer(str(sequence), self.wait_ms[sequence] * self.env.random.uniform(1, 1.1) / 1000)

    def _acknowledged(self, sender: str, sequence: int) -> None:
        if sequence in self.unacknowledged:
            self.unacknowledged[sequence].pop(sender, None)
            self._forget_if_acknowledged(sequence)

    def _forget_if_acknowledged(self, sequence: int) -> None:
        if not self.unacknowledged[sequence]:
            self.env.cancel_timer(str(sequence))
            self.env.store(f"message/{sequence}", None)
            self._fresh_slots -= self.fresh.pop(sequence, 0)
            del self.unacknowledged[sequence], self.copies[sequence], self.wait_ms[sequence]
