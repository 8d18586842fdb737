"""Eager reliable broadcast: a host that receives a message for the first time passes it on to all others that it is for.

Source: the second paper ("Reliable Broadcast"), Algorithm 3.3, on the perfect links of `hostagent.parts.links`.

Model. Datagrams are lost, duplicated and reordered; hosts crash, for good or to restart with their storage. There is no failure detector.

Guarantees. No creation, no duplication, validity, and agreement: before a host delivers a message, it has stored letters with the message
for all others. So if the sender dies half-way, one live host that received the message is enough for all others to get it. Agreement is not
uniform: a host may deliver a message and crash for good before it has sent anything, so that no other host ever gets the message. As there
is no detector that can err, partitions, pauses and delays cost time and nothing else.

Messages. n (n - 1) letters per message to n hosts of which the sender is one, and as many acknowledgements. The acknowledgement of the
first letter that each of the n - 1 others receives travels with its own letter to the sender of the first. So there are n (n - 1) data
datagrams and (n - 1)(n - 1) control datagrams when nothing is lost; with packing off, n (n - 1) of each. On a network that multicasts, the
letters to a group are n datagrams.
"""

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import ITEMS_PER_GROUP, DeliverOnce
from hostagent.parts.links import Letter, LinkParameters, Links


class EagerReliable(Core):
    """Every host relays every message once."""

    name = "eager-reliable"
    number = 4
    summary = "every host passes every message on to all: reliable whoever dies, n (n - 1) packets"
    assumes = (
        "one host that delivered a message survives, or comes back with its storage; the links have room for n (n - 1) packets"
    )
    beyond = frozenset({"restart-lost"})
    all_relay = True
    knows_groups = True
    messages = Links.messages
    Parameters = LinkParameters
    parameters: LinkParameters

    def __init__(self, env: Environment, parameters: LinkParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))

    @classmethod
    def promise(cls, parameters: LinkParameters, hosts: int) -> Promise:
        """A way that is open for the patience of a link is used. For each other host, a link and two numbers are kept."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY, Guarantee.AGREEMENT),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(
            guarantees=guarantees,
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms(),
            retained=3 * hosts,
            retained_per_group=ITEMS_PER_GROUP,
        )

    @property
    def unfinished(self) -> int:
        """What the links have still to hear of."""
        return self.links.unfinished

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Deliver here if the message is for this host too, and send to the other destinations."""
        if self.env.host in to.hosts:
            self._take(self.env.host, sequence, payload, to)
        else:
            self.links.send(self.env.host, sequence, payload, to=to)

    def on_letter(self, sender: str, letter: Letter) -> None:  # noqa: ARG002 - it does not matter who passed it on
        """Treat a new message like one of this host's own."""
        self._take(letter.origin, letter.sequence, letter.payload, self.links.destination(letter))

    def _take(self, origin: str, sequence: int, payload: bytes, to: Destination) -> None:
        if not self.delivery.is_delivered(origin, sequence, to.group, to.nth):
            self.delivery.deliver(origin, sequence, payload, to.group, to.nth)
            self.links.send(origin, sequence, payload, to=to)
