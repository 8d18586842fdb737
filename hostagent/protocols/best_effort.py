"""Best-effort broadcast: the sender sends the message to every other host, and no other host sends it.

Source: the second paper ("Reliable Broadcast", Best Effort Broadcast), Algorithm 3.1, on the perfect links of `hostagent.parts.links`.

Model. Hosts exchange datagrams that may be lost, duplicated and reordered; hosts may crash and restart with their storage.

Guarantees. No creation, no duplication, and validity between correct hosts: a message reaches all hosts that its sender itself can reach
for long enough. If the sender dies half-way, some hosts have the message and others never get it.

Messages. n - 1 letters (data) per message among n hosts and n - 1 acknowledgements (control): 2 (n - 1) datagrams when nothing is lost.

With `links=none` the protocol uses bare datagrams: n - 1 copies per message and nothing else. Nothing is repeated, so a lost datagram is a
lost message, and validity is not promised. This shows what the links are for, and how a network behaves without repair.
"""

from typing import Literal

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, Purpose
from hostagent.contract.promises import Guarantee, Promise
from hostagent.parts.delivery import ITEMS_PER_GROUP, Copy, DeliverOnce
from hostagent.parts.links import Letter, LinkParameters, Links


class BestEffortParameters(LinkParameters, frozen=True, kw_only=True):
    """What messages are sent over."""

    links: Literal["perfect", "none"] = "perfect"
    """Perfect links, or none: bare datagrams."""


class BestEffort(Core):
    """Send to everybody; deliver what arrives, once."""

    name = "best-effort"
    number = 1
    summary = "the sender sends to every host over perfect links, or with links=none one bare datagram"
    assumes = "the sender does not die half-way; with links=none, nothing is lost"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (Copy, *Links.messages)
    Parameters = BestEffortParameters
    parameters: BestEffortParameters

    def __init__(self, env: Environment, parameters: BestEffortParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))

    @classmethod
    def promise(cls, parameters: BestEffortParameters, hosts: int) -> Promise:
        """With links, validity within the patience of a link. Without links no validity, and more memory, as lost messages leave gaps."""
        safe = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.QUIESCENCE)
        if parameters.links == "none":
            return Promise(guarantees=safe, patience_ms=0.0, retained=2 * hosts)
        guarantees = (*safe, Guarantee.VALIDITY, Guarantee.BOUNDED_MEMORY)
        return Promise(
            guarantees=guarantees,
            patience_ms=parameters.patience_ms(),
            retained=3 * hosts,
            retained_per_group=ITEMS_PER_GROUP,
        )

    @property
    def unfinished(self) -> int:
        """What the links have still to hear of."""
        return self.links.unfinished

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Deliver here if the message is for this host too, then send to the other destinations."""
        if self.env.host in to.hosts:
            self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        if self.parameters.links == "none":
            self.env.multicast_to(to, Copy(to.group, self.env.host, sequence, payload, to.nth), Purpose.DATA)
        else:
            self.links.send(self.env.host, sequence, payload, to=to)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A bare copy is delivered if it is new; all other messages go to the links."""
        if isinstance(message, Copy):
            self._deliver(message)
        else:
            super().on_message(sender, message, expensive)

    def on_letter(self, sender: str, letter: Letter) -> None:  # noqa: ARG002 - nobody but its origin sends a message
        """Deliver the message."""
        self._deliver(letter)

    def _deliver(self, message: Copy | Letter) -> None:
        self.delivery.deliver(message.origin, message.sequence, message.payload, message.group, message.nth)
