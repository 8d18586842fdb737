"""The parameters of Totem."""

from typing import Annotated, Final, Literal

import msgspec

from hostagent.contract.core import Milliseconds
from hostagent.parts.tokens.parameters import IdleParameters

TRIES: Final = 8
"""How often a token is passed on again before it counts as lost, after a time-out or two rotations each time, whichever is longer."""
JOINS: Final = 6
"""Hosts that have not agreed on a membership in this many time-outs are left out of it."""


class TotemParameters(IdleParameters, frozen=True, kw_only=True):
    """When messages are delivered, how many may be under way, and how long to wait."""

    delivery: Literal["agreed", "safe"] = "agreed"
    """Agreed: a message is delivered when all before it are. Safe: when all members are known to have it, up to two rotations later."""
    window_size: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 500
    """Messages that all members together are to send in a rotation. A member may send what the others left of it in the last rotation, its
    share by what waits at all members, or one message, whichever is most: so there may be more while the load moves to other members.
    Packed, 500 of 64 bytes are 27 datagrams to each host: a quarter of the default queue of a link, for one copy."""
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100
    """Messages that one member may send when it is passed the token: so that the others get their turn, and queues do not overflow."""
    keep_ms: Milliseconds = 500.0
    """Only one host sends: how long it keeps the token at most before the others can say what they lack."""
    first_wait_ms: Milliseconds = 200.0
    """How long a rotation may take as long as none was seen."""
    longest_wait_ms: Milliseconds = 2000.0
    """How long a rotation may take at most before the token is passed on again."""
    probe_ms: Milliseconds = 1000.0
    """Time between two messages to each host that is not in the ring."""

    def check(self) -> None:
        """Raise a `ValueError` with a sentence if the parameters contradict each other."""
        if self.max_messages > self.window_size:
            raise ValueError(
                f"max_messages={self.max_messages} must not be above window_size={self.window_size}: "
                f"one host alone may not send more than all together"
            )
        if self.first_wait_ms > self.longest_wait_ms:
            raise ValueError(f"first_wait_ms={self.first_wait_ms:g} must not be above longest_wait_ms={self.longest_wait_ms:g}")

    def idle_s(self, hosts: int) -> float:
        """Nobody has anything to send: how long the token stays where it is before it goes round once, to see who is alive.

        A host that sends does not keep the token for longer than one that does not.
        """
        return max(hosts / self.idle_packets_per_second, self.keep_ms / 1000)

    def patience_ms(self, hosts: int) -> float:
        """A host that is gone is noticed when an idle token goes round, then a ring without it is agreed on, perhaps in three attempts."""
        return 1000 * self.idle_s(hosts) + self.probe_ms + (2 * TRIES + 3 * JOINS) * self.longest_wait_ms
