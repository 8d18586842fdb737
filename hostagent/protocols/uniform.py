"""Uniform reliable broadcast: a message is delivered when every destination that is not suspected has passed it on.

Source: the second paper ("Reliable Broadcast"), Algorithm 3.4 (all-ack), on the perfect links of `hostagent.parts.links` and the
heartbeats of `hostagent.parts.detector`.

Model. Datagrams are lost, duplicated and reordered; hosts crash, for good or to restart with their storage. The paper assumes that failures
are detected perfectly: each crash, and nothing but crashes.

Guarantees. No creation, no duplication, validity, and uniform agreement: what any host delivers, even one that crashes right after, every
correct host delivers. A copy from a host acknowledges the message, because that host has stored letters with the message for all others
before it sends. So no message is lost by the crash of a host that has delivered it, which is what a replicated database needs.

When the detector errs. A crash that is not noticed yet delays delivery. A host that is suspected wrongly is not waited for, so others may
deliver a message that this host does not have yet. It still gets the message, from every host that has it, unless all of those die for good
first. Only then is uniform agreement broken, and that is not counted against this protocol: a host that delivers owes the message only to
the hosts that it did not suspect at that time. Whatever the detector says, no message is created or delivered twice.

With `waits_for=majority` a message is delivered when more than half of its destinations have passed it on, suspected or not, as is often
done where no detector can be trusted. That is uniform, and makes progress, only while a majority of them lives. So only what holds whoever
dies is promised: no creation, no duplication.

Messages. n (n - 1) letters per message to n hosts of which the sender is one, and as many acknowledgements of the links. The
acknowledgement of the first letter that each of the n - 1 others receives travels with its own letter to the sender of the first. So there
are n (n - 1) data datagrams and (n - 1)(n - 1) control datagrams when nothing is lost; with packing off, n (n - 1) of each. On a network
that multicasts, the letters to a group are n datagrams. Heartbeats are exchanged by all N hosts of the run, whatever the groups: N (N - 1)
a period.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, host_set, hosts_in
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import ITEMS_PER_GROUP, DeliverOnce
from hostagent.parts.detector import Detector, DetectorParameters, Heartbeat
from hostagent.parts.links import Letter, Links

MessageId = tuple[str, int]


class Pending(msgspec.Struct, frozen=True):
    """A message that waits until its destinations have it."""

    payload: bytes
    to: Destination


class UniformParameters(DetectorParameters, frozen=True, kw_only=True):
    """When a message is delivered."""

    waits_for: Literal["all", "majority"] = "all"
    """Wait until all destinations that are not suspected have a message, or until more than half of the destinations have it."""


class Uniform(Core):
    """Deliver a message when all destinations that are not suspected have it. `pending` is the paper's name, and `acks` its ack_m."""

    name = "uniform"
    number = 6
    summary = "a message is delivered when every host that is not suspected has passed it on: uniform, n (n - 1) packets"
    assumes = "of the hosts with a message one survives while a host without it is suspected wrongly; room for n (n - 1) packets"
    beyond = frozenset({"restart-lost"})
    all_relay = True
    knows_groups = True
    messages = (*Links.messages, *Detector.messages)
    Parameters = UniformParameters
    parameters: UniformParameters

    def __init__(self, env: Environment, parameters: UniformParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))
        self.detector = self.add("detector", lambda own: Detector(own, parameters, self._heartbeat, self.on_suspect))
        self.pending: dict[MessageId, Pending] = {}
        self.acks: dict[MessageId, dict[str, None]] = {}

    @classmethod
    def promise(cls, parameters: UniformParameters, hosts: int) -> Promise:
        """A message goes out and the copies of all others come back, over two links, and hosts that do not answer must be suspected.

        For each other host, a link, two numbers, and two numbers of the detector are kept.
        """
        safe = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION)
        uniform = (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT) if parameters.waits_for == "all" else ()
        return Promise(
            guarantees=(*safe, *uniform, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY, Guarantee.FAILURE_DETECTION),
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms(hops=2) + parameters.detection_ms,
            background_per_second=parameters.heartbeats_per_second(hosts),
            retained=5 * hosts,
            retained_per_group=ITEMS_PER_GROUP,
        )

    @classmethod
    def check(cls, parameters: DetectorParameters, hosts: tuple[str, ...]) -> None:  # noqa: ARG003 - they fit any hosts
        """Refuse time-outs that make no sense."""
        parameters.check_detector()

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the pending messages, and which hosts have each."""
        for key, value in stored.items():
            match key.split("/"):
                case ["pending", origin, sequence]:
                    payload, group, hosts, nth = value
                    to = Destination(group, hosts_in(hosts, self.env.hosts), nth)
                    self.pending[origin, int(sequence)] = Pending(payload, to)
                case ["ack", origin, sequence, host]:
                    self.acks.setdefault((origin, int(sequence)), {})[host] = None

    @property
    def unfinished(self) -> int:
        """What the links have still to hear of."""
        return self.links.unfinished

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send to all destinations. If the message is for this host too, it is delivered here only when all of them have it."""
        if self.env.host in to.hosts:
            self._acknowledge(self.env.host, (self.env.host, sequence), payload, to)
        else:
            self.links.send(self.env.host, sequence, payload, to=to)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Handle a message while its sender still counts as suspected, if it was. Then tell the detector that the sender is up."""
        super().on_message(sender, message, expensive)
        self.detector.heard(sender)

    def on_letter(self, sender: str, letter: Letter) -> None:
        """Note that the sender has the message, and that this host has it too."""
        if not self.delivery.is_delivered(letter.origin, letter.sequence, letter.group, letter.nth):
            self._acknowledge(sender, (letter.origin, letter.sequence), letter.payload, self.links.destination(letter))

    def on_suspect(self, host: str) -> None:  # noqa: ARG002 - whoever it is, it is not waited for any more
        """Deliver the messages that waited only for this host."""
        for message in list(self.pending):
            self._deliver_if_all_have_it(message)

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(0, self.env.host, 0, self.links.floor)

    def _acknowledge(self, host: str, message: MessageId, payload: bytes, to: Destination) -> None:
        """Note that a host has a message, and pass on one that is new."""
        origin, sequence = message
        if message not in self.pending:
            self.pending[message] = Pending(payload, to)
            self.env.store(f"pending/{origin}/{sequence}", (payload, to.group, host_set(to.hosts, self.env.hosts), to.nth))
            self.links.send(origin, sequence, payload, to=to)
            self._note(self.env.host, message)
        self._note(host, message)
        self._deliver_if_all_have_it(message)

    def _note(self, host: str, message: MessageId) -> None:
        acks = self.acks.setdefault(message, {})
        if host not in acks:
            acks[host] = None
            self.env.store(f"ack/{message[0]}/{message[1]}/{host}", True)

    def _deliver_if_all_have_it(self, message: MessageId) -> None:
        """Deliver a message if the paper's canDeliver is true."""
        pending = self.pending[message]
        if not self._can_deliver(self.acks[message], pending.to.hosts):
            return
        origin, sequence = message
        del self.pending[message]
        self.delivery.deliver(origin, sequence, pending.payload, pending.to.group, pending.to.nth)
        self.env.store(f"pending/{origin}/{sequence}", None)
        for host in self.acks.pop(message):
            self.env.store(f"ack/{origin}/{sequence}/{host}", None)

    def _can_deliver(self, acks: Mapping[str, None], hosts: tuple[str, ...]) -> bool:
        """The paper's canDeliver: whether enough of a message's destinations have it."""
        suspected = self.detector.suspected
        if self.parameters.waits_for == "majority":
            return 2 * sum(host in acks for host in hosts) > len(hosts)
        return len(acks) + len(suspected) >= len(hosts) and all(host in acks or host in suspected for host in hosts)
