"""A user's protocol as a text, working and broken, for the tests of protocols in files."""

import textwrap

FLOOD = '''\
"""Flood: everybody sends a new message on once."""

from hostagent.contract.core import Core
from hostagent.contract.core import Parameters as NoParameters
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import Copy, DeliverOnce


class FloodParameters(NoParameters, frozen=True, kw_only=True):
    times: int = 1


class Flood(Core):
    summary = "everybody sends a new message on"
    assumes = "one of the packets arrives"
    all_relay = True
    beyond = frozenset({"restart-lost"})
    messages = (Copy,)
    Parameters = FloodParameters

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)

    @classmethod
    def promise(cls, parameters, hosts):
        guarantees = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION)
        return Promise(guarantees=guarantees, carrier=Carrier.ANYONE, patience_ms=1000.0, retained=hosts)

    def on_broadcast(self, sequence, payload):
        self._pass_on(Copy(0, self.env.host, sequence, payload))

    def on_message(self, sender, message, expensive):
        # here
        if not self.delivery.is_delivered(message.origin, message.sequence):
            self._pass_on(message)

    def _pass_on(self, message):
        self.delivery.deliver(message.origin, message.sequence, message.payload)
        for _ in range(self.parameters.times):
            self.env.multicast(0, message, Purpose.DATA)
'''


def broken(*lines: str) -> str:
    """The protocol with lines in front of `on_message`, the first of which is line 35 of the file."""
    return FLOOD.replace("        # here\n", textwrap.indent("".join(f"{line}\n" for line in lines), " " * 8))


RAISES = broken("if message.sequence == 2 and self.env.host == 'h3':", "    self.seen[sender] = 1")
"""Raises an exception at line 36, when the second message of anybody reaches h3."""
