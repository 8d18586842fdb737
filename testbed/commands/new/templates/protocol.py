"""Gossip: whoever has a new message tells a few others at random, again and again for a while.

Say here what the protocol assumes, what it guarantees and what it does not, and how many packets a message takes.

    ./castbed campaign --protocol gossip.py                          random failures in virtual time
    ./castbed run clusters --on simulator --protocol gossip.py --protocol basic
                                                                     cost, delay and verdict beside another protocol
    sudo ./castbed run clusters --protocol gossip.py                 the same with real packets, on Mininet
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hostagent.contract.core import Core, Milliseconds
from hostagent.contract.core import Parameters as CoreParameters
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Payload, Purpose
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import DeliverOnce


class Rumour(Message, frozen=True):
    """A message on its way. Every message has `group`, `origin` and `sequence`; the types of other fields say what is allowed."""

    payload: Payload


class GossipParameters(CoreParameters, frozen=True, kw_only=True):
    """What users set with --set gossip.fanout=4; every parameter has a default."""

    fanout: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    """How many hosts are told in each round."""
    rounds: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    """How often a host tells of a message."""
    round_ms: Milliseconds = 50.0
    """The time between two rounds."""


class Gossip(Core):
    """One host. Castbed makes one object for each host, and another when the host restarts; attributes are lost in between."""

    summary = "everybody tells a few others of each message, at random"
    assumes = "that chance reaches everybody: nothing is acknowledged"
    beyond = frozenset({"restart-lost"})  # Troubles that it need not survive; simulator/swarm.py has their names.
    all_relay = True
    messages = (Rumour,)
    Parameters = GossipParameters
    parameters: GossipParameters

    def __init__(self, env: Environment, parameters: GossipParameters) -> None:
        super().__init__(env, parameters)
        # A part that remembers on stable storage what was delivered. hostagent/parts/ has more: links, a failure detector, elections.
        self.delivery = self.add("delivery", DeliverOnce)
        self.hot: list[tuple[int, Rumour]] = []  # rounds that are left, and the message

    @classmethod
    def promise(cls, parameters: GossipParameters, hosts: int) -> Promise:
        """What every run is judged by. Add Guarantee.AGREEMENT, and a campaign finds the schedule in which chance did not do."""
        return Promise(
            guarantees=(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.QUIESCENCE),
            carrier=Carrier.ANYONE,
            patience_ms=2 * parameters.rounds * parameters.round_ms,
            retained=hosts,
        )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """The host starts; `stored` has what `self.env.store(key, value)` kept in an earlier life."""

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """The application at this host broadcasts its message number `sequence`."""
        self._learn(Rumour(EVERYBODY, self.env.host, sequence, payload))

    def on_message(self, sender: str, message: Rumour, expensive: bool) -> None:  # noqa: ARG002 - every core has it so
        """A message has arrived; `expensive` says whether it crossed an expensive link."""
        if not self.delivery.is_delivered(message.origin, message.sequence):
            self._learn(message)

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one timer
        """A timer has expired."""
        self._tell()

    def _learn(self, rumour: Rumour) -> None:
        """Deliver a new message, and begin to tell of it."""
        self.delivery.deliver(rumour.origin, rumour.sequence, rumour.payload)
        self.hot.append((self.parameters.rounds, rumour))
        if len(self.hot) == 1:
            self._tell()

    def _tell(self) -> None:
        """Tell some hosts of everything that is hot. Time and randomness come from the environment, so that runs can be repeated."""
        for left, rumour in self.hot:
            purpose = Purpose.DATA if left == self.parameters.rounds else Purpose.REPAIR
            for host in self.env.random.sample(self.env.peers, min(self.parameters.fanout, len(self.env.peers))):
                self.env.send(host, rumour, purpose)
        self.hot = [(left - 1, rumour) for left, rumour in self.hot if left > 1]
        if self.hot:
            self.env.set_timer("round", self.parameters.round_ms / 1000)
