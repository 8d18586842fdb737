"""Best-effort broadcast: the sender sends one datagram to every other host, and that is all.

Source: the second paper ("Reliable Broadcast", Best Effort Broadcast), Algorithm 3.1, directly on datagrams.

Model. Hosts exchange datagrams that may be lost, duplicated and reordered.

Guarantees. No creation and no duplication, also across a restart. Validity only as far as the network delivers: nothing is repeated, so a
lost datagram is a lost message. What the paper calls a perfect point-to-point link is exactly what is missing here.

Messages. `Copy`, one to each other host for each broadcast: n - 1 datagrams per message.
"""

from collections.abc import Mapping
from typing import Any

from hostagent.core import Core, Environment
from hostagent.delivery import Copy, DeliverOnce
from hostagent.messages import Purpose
from hostagent.promises import Guarantee, Promise


class BestEffort(Core):
    """Send once to everybody; deliver what arrives, once."""

    name = "best-effort"
    number = 1
    summary = "one copy to every host, never repeated"
    assumes = "nothing is lost: a lost datagram is a lost message"
    beyond = frozenset({"restart-lost"})
    messages = (Copy,)

    def __init__(self, env: Environment, parameters: Any) -> None:
        super().__init__(env, parameters)
        self.delivery = DeliverOnce(env)

    @classmethod
    def promise(cls, parameters: Any, hosts: int) -> Promise:  # noqa: ARG003 - it has none
        """Nothing but what it does at once, so no patience; it remembers a number for each host, and more behind what was lost."""
        guarantees = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.QUIESCENCE)
        return Promise(guarantees=guarantees, patience_ms=0.0, retained=hosts)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Remember what was delivered before a restart."""
        self.delivery.restore(stored)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Deliver here, then send a copy to every other host."""
        copy = Copy(0, self.env.host, sequence, payload)
        self.delivery.deliver(copy.origin, copy.sequence, payload)
        for peer in self.env.peers:
            self.env.send(peer, copy, Purpose.DATA)

    def on_message(self, sender: str, message: Copy, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Deliver a message that is new."""
        self.delivery.deliver(message.origin, message.sequence, message.payload)
