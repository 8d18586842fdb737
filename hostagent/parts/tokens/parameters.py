"""The tunable numbers of a ring, and what its token must carry for them."""

from typing import Annotated, Protocol

import msgspec

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.parts.tokens.places import MOST_HOSTS
from hostagent.parts.tokens.reformation import Numbered


class Carried(Numbered, Protocol):
    """What every token carries."""

    @property
    def hop(self) -> int:
        """How often the token was passed on, in all generations."""

    @property
    def next(self) -> int:
        """The next owner."""

    @property
    def stalls(self) -> int:
        """For how many rounds nothing has changed."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do any more."""


class IdleParameters(Parameters, frozen=True, kw_only=True):
    """What a token costs that nobody needs."""

    idle_packets_per_second: Annotated[float, msgspec.Meta(ge=0.01, le=1e5)] = 2.5
    """What the ring may cost when there is nothing to do, in packets without multicast: owners keep the token accordingly longer."""


class RingParameters(IdleParameters, frozen=True, kw_only=True):
    """How long owners keep the token, and when it counts as lost."""

    token_owner_ms: Milliseconds = 3.0
    """T: how long an owner keeps the token while there is something to do. Longer means fewer tokens for a message, and more delay."""
    tries: Annotated[int, msgspec.Meta(ge=1, le=20)] = 4
    """L: how often a token is reissued before the next owner counts as failed."""
    longest_wait_ms: Milliseconds = 2000.0
    """No answer is awaited for longer: more than a round trip over three links with a delay of 200 ms each."""

    def is_for_all(self, state: Carried) -> bool:  # noqa: ARG002 - other rings choose by the token
        """Whether all members hear this token. If not, the next owner does, and the last one, which listens for it."""
        return True

    def idle_s(self, hosts: int) -> float:
        """How long an owner keeps the token when there is nothing to do; a host alone counts as two."""
        return max(max(hosts - 1, 1) / self.idle_packets_per_second, self.token_owner_ms / 1000)

    def hold_s(self, state: Carried, hosts: int, *, rests: bool) -> float:
        """How long an owner keeps a token: if it rests, twice as long with each round in which nothing changes."""
        owner_s, idle_s = self.token_owner_ms / 1000, self.idle_s(hosts)
        if not rests:
            return owner_s
        return idle_s if state.is_idle else min(owner_s * 2.0 ** min(state.stalls, 20), idle_s)

    def check_ring(self, name: str, hosts: int) -> None:
        """Raise a `ValueError` with a sentence if the parameters make no sense among this number of hosts."""
        if hosts > MOST_HOSTS:
            raise ValueError(
                f"{name} is for at most {MOST_HOSTS} hosts, as a token says of each of them what it has; there are {hosts}"
            )
        if self.longest_wait_ms < self.token_owner_ms:
            raise ValueError(
                f"longest_wait_ms={self.longest_wait_ms:g} must not be below token_owner_ms={self.token_owner_ms:g}, "
                "or every token counts as lost"
            )
