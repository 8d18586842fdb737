"""The tunable numbers of the counter protocol."""

from typing import Annotated, Literal

import msgspec

from hostagent.parts.tokens.parameters import Carried, RingParameters
from hostagent.protocols.counter.state import Rules

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class CounterParameters(RingParameters, frozen=True, kw_only=True):
    """In which order entries are committed, and how much may be under way."""

    order: Literal["list", "rotating"] = "list"
    """Inside a cycle, messages are ordered as the list is, or as the list is from another host in each cycle."""
    commit: Literal["cycle", "entry"] = "cycle"
    """Commit whole cycles, as in the paper, or each entry as soon as all before it are committed, up to a cycle earlier."""
    flow_control: bool = True
    """Whether hosts wait before they send when buffers are nearly full, and send only so many messages in a cycle."""
    heard_by: Literal["all", "neighbours"] = "all"
    """Who hears a token on a network without multicast. All, as in the paper; or its next owner and its last one, in two packets and not
    n - 1. The others then learn what is committed when the token comes to them, up to a cycle later. A token that may rest is heard by all,
    so that everybody knows whom to wake."""
    sends: Literal["at once", "in turn"] = "at once"
    """When a host sends its messages: at once, as in the paper; or all together right before it passes the token on. They are
    committed no later for it, as they are added to the token at that time in either case; packed, they are fewer packets."""
    window: Count = 1024
    """The most messages that a host sends between two of its turns."""
    buffer: Count = 82_000
    """Messages that a host may have or lack without having committed them. From three quarters on it is nearly full (local field)."""
    overload: Count = 62_000
    """From this many messages in the system state on, the network counts as nearly overloaded (global field)."""

    def is_for_all(self, state: Carried) -> bool:
        """Whether all members hear this token."""
        return self.heard_by == "all" or state.stalls > 0

    def rules(self, hosts: int) -> Rules:
        """The rules of order and commit among this number of hosts."""
        return Rules(hosts, self.order, self.commit)

    def check(self, hosts: int) -> None:
        """Raise a `ValueError` with a sentence if the parameters make no sense among this number of hosts."""
        self.check_ring("counter", hosts)
        if self.order == "rotating" and self.commit == "entry":
            raise ValueError(
                "order=rotating needs commit=cycle: which entry of a cycle comes first is known only when all are there"
            )
        if self.flow_control and self.window * hosts > self.buffer:
            raise ValueError(
                f"buffer={self.buffer} must hold what all {hosts} hosts send in a cycle, {hosts} times window={self.window}"
            )
