"""Lazy reliable broadcast: a message is passed on only if the host that it came from is suspected to have failed.

Source: the second paper ("Reliable Broadcast"): the code it shows for reliable broadcast, on the perfect links of `hostagent.parts.links`
and the heartbeats of `hostagent.parts.detector`.

Model. Datagrams are lost, duplicated and reordered; hosts crash, for good or to restart with their storage. The paper assumes that failures
are detected perfectly: each crash, and nothing but crashes.

Guarantees. No creation, no duplication, validity as far as the sender itself can reach, and agreement: either the sender of a message is
up, and its links bring the message to all; or the sender is suspected, and every host that has the message from it sends it to all.

When the detector errs. Messages from a host that is suspected wrongly are relayed for nothing: that costs packets and breaks no promise. A
crash that is not noticed yet delays agreement until it is. A host that crashes and restarts so fast that it is never suspected, and never
stays up for long enough to finish, can keep others waiting for its messages: faults must end, or last. Agreement is not uniform: if the
only host that has a message delivers it and dies for good, no other host ever gets the message.

Messages. n - 1 letters (data) per message to n hosts and n - 1 acknowledgements (control) when nobody is suspected. If f hosts relay a
message that they have from a suspected host: (1 + f)(n - 1) letters, those of relays as repair, and as many acknowledgements. Heartbeats
are exchanged by all N hosts of the run, whatever the groups: N (N - 1) a period.

What is kept. A message may have to be relayed until every host has it, and until then it is kept on stable storage. Each heartbeat and each
letter of a host says below which number all hosts have acknowledged its letters; messages that came in letters with lower numbers are
dropped. So messages are kept while a host is down, since it may come back; when all hosts are up, nothing is kept.
"""

from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, Purpose
from hostagent.contract.promises import Guarantee, Promise
from hostagent.parts.delivery import ITEMS_PER_GROUP, DeliverOnce
from hostagent.parts.detector import Detector, DetectorParameters, Heartbeat
from hostagent.parts.links import Letter, Links


class LazyReliable(Core):
    """Relay the messages that came from suspected hosts."""

    name = "lazy-reliable"
    number = 5
    summary = "messages from a host that seems to have failed are passed on to all: reliable, n - 1 packets if none fails"
    assumes = "a host that fails for good stays silent for its time-out; the links have room for the packets that a wrong suspicion costs"
    beyond = frozenset({"restart-lost"})
    all_relay = True
    knows_groups = True
    messages = (*Links.messages, *Detector.messages)
    Parameters = DetectorParameters
    parameters: DetectorParameters

    def __init__(self, env: Environment, parameters: DetectorParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))
        self.detector = self.add("detector", lambda own: Detector(own, parameters, self._heartbeat, self.on_suspect))
        self.kept: dict[str, dict[int, Letter]] = {}

    @classmethod
    def promise(cls, parameters: DetectorParameters, hosts: int) -> Promise:
        """Another host finishes what the sender began once it suspects the sender: that takes a detection and the patience of a link.

        For each other host, a link, two numbers, and two numbers of the detector are kept.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY, Guarantee.AGREEMENT),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY, Guarantee.FAILURE_DETECTION),
        )
        return Promise(
            guarantees=guarantees,
            patience_ms=parameters.patience_ms() + parameters.detection_ms,
            background_per_second=parameters.heartbeats_per_second(hosts),
            retained=5 * hosts,
            retained_per_group=ITEMS_PER_GROUP,
        )

    @classmethod
    def check(cls, parameters: DetectorParameters, hosts: tuple[str, ...]) -> None:  # noqa: ARG003 - they fit any hosts
        """Refuse time-outs that make no sense."""
        parameters.check_detector()

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the messages that may have to be relayed; the detector will say whether they must be."""
        for key, (group, origin, sequence, payload, nth, listed) in stored.items():
            _, sender, number = key.split("/")
            letter = Letter(group, origin, sequence, int(number), 0, payload, nth, listed)
            self.kept.setdefault(sender, {})[letter.number] = letter

    @property
    def unfinished(self) -> int:
        """What the links have still to hear of."""
        return self.links.unfinished

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Deliver here if the message is for this host too, and send to the other destinations."""
        if self.env.host in to.hosts:
            self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        self.links.send(self.env.host, sequence, payload, to=to)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Handle a message while its sender still counts as suspected, if it was. Letters and heartbeats say what all hosts have."""
        super().on_message(sender, message, expensive)
        self.detector.heard(sender)
        if isinstance(message, Letter | Heartbeat):
            self._drop_below(sender, message.floor)

    def on_letter(self, sender: str, letter: Letter) -> None:
        """Deliver a new message; keep it if its sender is trusted, or else pass it on."""
        if self.delivery.is_delivered(letter.origin, letter.sequence, letter.group, letter.nth):
            return
        self.delivery.deliver(letter.origin, letter.sequence, letter.payload, letter.group, letter.nth)
        if sender in self.detector.suspected:
            self._relay(letter)
        else:
            self.kept.setdefault(sender, {})[letter.number] = letter
            fields = letter.group, letter.origin, letter.sequence, letter.payload, letter.nth, letter.listed
            self.env.store(f"kept/{sender}/{letter.number}", fields)

    def on_suspect(self, host: str) -> None:
        """Pass on every message that came from the suspected host: from now on this host's links are responsible for them."""
        for letter in self.kept.pop(host, {}).values():
            self.env.store(f"kept/{host}/{letter.number}", None)
            self._relay(letter)

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(0, self.env.host, 0, self.links.floor)

    def _relay(self, letter: Letter) -> None:
        to = self.links.destination(letter)
        self.links.send(letter.origin, letter.sequence, letter.payload, to=to, purpose=Purpose.REPAIR)

    def _drop_below(self, sender: str, floor: int) -> None:
        """Drop the messages from the sender's letters below `floor`: all hosts have them."""
        kept = self.kept.get(sender, {})
        for number in [number for number in kept if number < floor]:
            del kept[number]
            self.env.store(f"kept/{sender}/{number}", None)
        if not kept:
            self.kept.pop(sender, None)
