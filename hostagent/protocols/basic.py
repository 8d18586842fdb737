"""The simple solution: a separately addressed copy to every host, repeated until it is acknowledged.

Source: the first paper (Garcia-Molina, Kogan, Lynch), section 1. It is the baseline that the cluster tree is measured against.

Model. Hosts exchange datagrams that may be lost, duplicated and reordered; hosts may crash and restart with their storage.

Guarantees. No creation, no duplication, and validity as long as the source can reach the hosts: the source alone is responsible, so a
source that is cut off after a partial broadcast leaves the others without the message until it is back (section 1).

Messages. `Copy` to each host (data at first, repair when repeated) and `Ack` in return (control): 2 (n - 1) datagrams per message when
nothing is lost.

State that survives a restart: every message not yet acknowledged by all, and what was delivered. Who acknowledged is not stored: a source
that restarts asks all hosts again, and hosts that have the message only acknowledge it again.
"""

from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Core, Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.promises import Guarantee, Promise
from hostagent.parts.delivery import Copy, DeliverOnce


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
    messages = (Copy, Ack)
    Parameters = BasicParameters
    parameters: BasicParameters

    def __init__(self, env: Environment, parameters: BasicParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.unacknowledged: dict[int, dict[str, None]] = {}
        self.payloads: dict[int, bytes] = {}
        self.wait_ms: dict[int, float] = {}

    @classmethod
    def promise(cls, parameters: BasicParameters, hosts: int) -> Promise:
        """What reaches a host is repeated until it is acknowledged.

        Twenty repetitions in a row fail one time in a million where half of the copies or acknowledgements are lost.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(guarantees=guarantees, patience_ms=20 * 1.1 * parameters.longest_retry_ms, retained=hosts)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore every message that was not acknowledged by all, and go on sending it."""
        for key, payload in stored.items():
            if key.startswith("message/"):
                self._send_until_acknowledged(int(key.removeprefix("message/")), payload, Purpose.REPAIR)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Deliver here, then start sending to everybody else."""
        self.delivery.deliver(self.env.host, sequence, payload)
        self.env.store(f"message/{sequence}", payload)
        self._send_until_acknowledged(sequence, payload, Purpose.DATA)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A copy is delivered if new and acknowledged always; an acknowledgement ends the repetition."""
        match message:
            case Copy(origin=origin, sequence=sequence, payload=payload):
                self.delivery.deliver(origin, sequence, payload)
                self.env.send(sender, Ack(0, origin, sequence), Purpose.CONTROL)
            case Ack(origin=self.env.host, sequence=sequence):
                self._acknowledged(sender, sequence)

    def on_timer(self, name: str) -> None:
        """Repeat a message to those who have not acknowledged it."""
        sequence = int(name)
        # Each repetition begins with another host: of a burst that is longer than a queue, always the same places are dropped.
        waiting = self.unacknowledged[sequence]
        first = next(iter(waiting))
        waiting[first] = waiting.pop(first)
        self._send_copies(sequence, Purpose.REPAIR)
        self.wait_ms[sequence] = min(2 * self.wait_ms[sequence], self.parameters.longest_retry_ms)
        self._wait(sequence)

    def _send_until_acknowledged(self, sequence: int, payload: bytes, purpose: Purpose) -> None:
        self.payloads[sequence] = payload
        self.unacknowledged[sequence] = dict.fromkeys(self.env.peers)
        self.wait_ms[sequence] = self.parameters.retry_ms
        self._send_copies(sequence, purpose)
        self._wait(sequence)
        self._forget_if_acknowledged(sequence)

    def _send_copies(self, sequence: int, purpose: Purpose) -> None:
        copy = Copy(0, self.env.host, sequence, self.payloads[sequence])
        for peer in self.unacknowledged[sequence]:
            self.env.send(peer, copy, purpose)

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
            del self.unacknowledged[sequence], self.payloads[sequence], self.wait_ms[sequence]
