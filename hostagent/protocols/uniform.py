"""Uniform reliable broadcast: a message is delivered when every host that is not suspected has passed it on.

Source: the second paper ("Reliable Broadcast"), Algorithm 3.4 (all-ack), on the perfect links of `hostagent.parts.links` and the
heartbeats of `hostagent.parts.detector`.

Model. Datagrams are lost, duplicated and reordered; hosts crash, for good or to restart with their storage. The paper assumes that failures
are detected perfectly: each crash, and nothing but crashes.

Guarantees. No creation, no duplication, validity, and uniform agreement: what any host delivers, also one that crashes right after, every
correct host delivers. A copy from a host acknowledges the message, as that host has it on stable storage by then, for all others. So
the crash of a host that has delivered takes nothing away, which is what a replicated database needs.

When the detector errs. A crash that is not noticed yet delays delivery. A host that is suspected wrongly is not waited for: a message may
then be delivered that it does not have yet. It still gets it, from every host that has it, unless all of those die for good first; only
then is uniform agreement broken, and it is not counted against this protocol: every host owes a message only to those that it did not
suspect when it delivered it. What is delivered was broadcast, and is delivered once, whatever the detector says.

With `waits_for=majority` a message is delivered when more than half of the hosts have passed it on, suspected or not, as is often done
where no detector is to be trusted. That is uniform, and goes on, only while a majority of all hosts lives. What is promised of it is what
holds whoever dies: no creation, no duplication.

Messages. n (n - 1) letters per message among n hosts, and as many acknowledgements of the links. The n - 1 acknowledgements of what a host
receives first travel with its own letter to the sender, so that makes n (n - 1) data datagrams and (n - 1)(n - 1) of control when nothing
is lost; with packing off n (n - 1) of each. And the heartbeats: n (n - 1) a period, whatever is broadcast.
"""

from collections.abc import Mapping
from typing import Any, Literal

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import DeliverOnce
from hostagent.parts.detector import Detector, DetectorParameters, Heartbeat
from hostagent.parts.links import Letter, Links

MessageId = tuple[str, int]


class UniformParameters(DetectorParameters, frozen=True, kw_only=True):
    """When a message is delivered."""

    waits_for: Literal["all", "majority"] = "all"
    """Until all hosts that are not suspected have a message, or more than half of all hosts."""


class Uniform(Core):
    """Deliver when all who seem to be there have it. The paper's names: `pending`, and `acks` for its ack_m."""

    name = "uniform"
    number = 6
    summary = "a message is delivered when every host that is not suspected has passed it on: uniform, n (n - 1) packets"
    assumes = (
        "not all that have a message fail for good while a host that lacks it is suspected wrongly; room for n (n - 1) packets"
    )
    beyond = frozenset({"restart-lost"})
    all_relay = True
    messages = (*Links.messages, *Detector.messages)
    Parameters = UniformParameters
    parameters: UniformParameters

    def __init__(self, env: Environment, parameters: UniformParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))
        self.detector = self.add("detector", lambda own: Detector(own, parameters, self._heartbeat, self.on_suspect))
        self.pending: dict[MessageId, bytes] = {}
        self.acks: dict[MessageId, dict[str, None]] = {}

    @classmethod
    def promise(cls, parameters: UniformParameters, hosts: int) -> Promise:
        """A message goes out and the copies of all others come back, over two links, and those who do not answer must be suspected.

        Kept are, for each host, a link, two numbers, and two of the detector.
        """
        safe = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION)
        uniform = (Guarantee.VALIDITY, Guarantee.UNIFORM_AGREEMENT) if parameters.waits_for == "all" else ()
        return Promise(
            guarantees=(*safe, *uniform, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY, Guarantee.FAILURE_DETECTION),
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms(hops=2) + parameters.detection_ms,
            background_per_second=parameters.heartbeats_per_second(hosts),
            retained=5 * hosts,
        )

    @classmethod
    def check(cls, parameters: DetectorParameters, hosts: tuple[str, ...]) -> None:  # noqa: ARG003 - they fit any hosts
        """Refuse time-outs that make no sense."""
        parameters.check_detector()

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Take up again what was pending, and who had it."""
        for key, value in stored.items():
            match key.split("/"):
                case ["pending", origin, sequence]:
                    self.pending[origin, int(sequence)] = value
                case ["ack", origin, sequence, host]:
                    self.acks.setdefault((origin, int(sequence)), {})[host] = None

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Send to all; it is delivered here, too, only when all have it."""
        self._acknowledge(self.env.host, (self.env.host, sequence), payload)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Take a message as one from a host that was suspected until now, if it was. Whatever it says, its sender is there."""
        super().on_message(sender, message, expensive)
        self.detector.heard(sender)

    def on_letter(self, sender: str, letter: Letter) -> None:
        """The sender has the message; from now on this host has it, too."""
        if letter.sequence not in self.delivery.delivered(letter.origin):
            self._acknowledge(sender, (letter.origin, letter.sequence), letter.payload)

    def on_suspect(self, host: str) -> None:  # noqa: ARG002 - whoever it is, it is not waited for any more
        """What waited for this host alone can be delivered."""
        for message in list(self.pending):
            self._deliver_if_all_have_it(message)

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(0, self.env.host, 0, self.links.floor)

    def _acknowledge(self, host: str, message: MessageId, payload: bytes) -> None:
        """Note that a host has a message, and pass on one that is new."""
        origin, sequence = message
        if message not in self.pending:
            self.pending[message] = payload
            self.env.store(f"pending/{origin}/{sequence}", payload)
            self.links.send(origin, sequence, payload)
            self._note(self.env.host, message)
        self._note(host, message)
        self._deliver_if_all_have_it(message)

    def _note(self, host: str, message: MessageId) -> None:
        acks = self.acks.setdefault(message, {})
        if host not in acks:
            acks[host] = None
            self.env.store(f"ack/{message[0]}/{message[1]}/{host}", True)

    def _deliver_if_all_have_it(self, message: MessageId) -> None:
        """What follows from the paper's canDeliver."""
        if not self._can_deliver(self.acks[message]):
            return
        origin, sequence = message
        self.delivery.deliver(origin, sequence, self.pending.pop(message))
        self.env.store(f"pending/{origin}/{sequence}", None)
        for host in self.acks.pop(message):
            self.env.store(f"ack/{origin}/{sequence}/{host}", None)

    def _can_deliver(self, acks: Mapping[str, None]) -> bool:
        """The paper's canDeliver: whether enough hosts have a message."""
        hosts, suspected = self.env.hosts, self.detector.suspected
        if self.parameters.waits_for == "majority":
            return 2 * len(acks) > len(hosts)
        return len(acks) + len(suspected) >= len(hosts) and all(host in acks or host in suspected for host in hosts)
