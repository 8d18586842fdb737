"""The tunable numbers of the counter protocol."""

from typing import Annotated, Literal

import msgspec

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.protocols.counter.state import MOST_HOSTS, Rules, TokenState

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class CounterParameters(Parameters, frozen=True, kw_only=True):
    """How long owners keep the token, in which order entries are committed, and when a token counts as lost."""

    token_owner_ms: Milliseconds = 3.0
    """T: how long an owner keeps the token while there is something to do. Longer means fewer tokens for a message, and more delay."""
    order: Literal["list", "rotating"] = "list"
    """Inside a cycle, messages are ordered as the list is, or as the list is from another host in each cycle."""
    commit: Literal["cycle", "entry"] = "cycle"
    """Commit whole cycles, as in the paper, or each entry as soon as all before it are committed, up to a cycle earlier."""
    tries: Annotated[int, msgspec.Meta(ge=1, le=20)] = 4
    """L: how often a token is reissued before the next owner counts as failed."""
    longest_wait_ms: Milliseconds = 2000.0
    """No answer is awaited for longer: more than a round trip over three links with a delay of 200 ms each."""
    idle_packets_per_second: Annotated[float, msgspec.Meta(ge=0.01, le=1e5)] = 2.5
    """What the ring may cost when there is nothing to do, in packets without multicast: owners keep the token accordingly longer."""
    flow_control: bool = True
    """Whether hosts wait before they send when buffers are nearly full, and send only so many messages in a cycle."""
    window: Count = 128
    """The most messages that a host sends between two of its turns."""
    buffer: Count = 4000
    """Messages that a host may have or lack without having committed them. From three quarters on it is nearly full (local field)."""
    overload: Count = 6000
    """From this many messages in the system state on, the network counts as nearly overloaded (global field)."""

    def rules(self, hosts: int) -> Rules:
        """The rules of order and commit among this number of hosts."""
        return Rules(hosts, self.order, self.commit)

    def idle_s(self, hosts: int) -> float:
        """How long an owner keeps the token when there is nothing to do."""
        return max((hosts - 1) / self.idle_packets_per_second, self.token_owner_ms / 1000)

    def hold_s(self, state: TokenState, *, rests: bool) -> float:
        """How long an owner keeps a token: if it rests, twice as long with each cycle in which nothing changes."""
        owner_s, idle_s = self.token_owner_ms / 1000, self.idle_s(len(state.done))
        if not rests:
            return owner_s
        return idle_s if state.is_idle else min(owner_s * 2.0 ** min(state.stalls, 20), idle_s)

    def check(self, hosts: int) -> None:
        """Raise a `ValueError` with a sentence if the parameters make no sense among this number of hosts."""
        if hosts > MOST_HOSTS:
            raise ValueError(
                f"counter is for at most {MOST_HOSTS} hosts, as a token says of each of them what it has; there are {hosts}"
            )
        if self.order == "rotating" and self.commit == "entry":
            raise ValueError(
                "order=rotating needs commit=cycle: which entry of a cycle comes first is known only when all are there"
            )
        if self.longest_wait_ms < self.token_owner_ms:
            raise ValueError(
                f"longest_wait_ms={self.longest_wait_ms:g} must not be below token_owner_ms={self.token_owner_ms:g}, "
                "or every token counts as lost"
            )
        if self.flow_control and self.window * hosts > self.buffer:
            raise ValueError(
                f"buffer={self.buffer} must hold what all {hosts} hosts send in a cycle, {hosts} times window={self.window}"
            )
