"""The parameters of the two-phase protocol."""

from typing import Annotated, Final, Literal

import msgspec

from hostagent.contract.core import Milliseconds, Parameters

LAST_TURN: Final = 4
"""Hosts take over one after another, each waiting half as long again; from this one on, all at the same time."""


class TwoPhaseParameters(Parameters, frozen=True, kw_only=True):
    """Who finishes a message, how often an unanswered message is repeated, and how many are under way."""

    failover: Literal["block", "elect"] = "block"
    """What happens to a message whose source fails between its phases: it waits for the source, or others finish it by majority."""
    first_retry_ms: Milliseconds = 500.0
    """Wait for the first answer of a host, whose round trip is not known: more than a queue of 100 packets on a 10 Mbit/s link takes."""
    longest_retry_ms: Milliseconds = 1000.0
    """The wait doubles with each repetition up to this value: short, to notice the end of an outage soon."""
    window: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    """Messages of one source that are under way at a time; later ones wait at the source, so queues stay bounded."""
    takeover_ms: Milliseconds = 1000.0
    """With `elect`: how long a host waits before it finishes a message of another host, where it does not know how long messages take. It
    waits for six times as long at most: where the four packets of a ballot take longer, hosts may go on taking over from each other."""

    @property
    def longest_takeover_ms(self) -> float:
        """The longest time between two attempts of a host: of the last in turn, and after attempts in vain."""
        return 2 * (1 + LAST_TURN / 2) * self.takeover_ms
