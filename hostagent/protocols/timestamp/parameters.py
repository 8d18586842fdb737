"""The parameters of the timestamp protocol."""

from typing import Annotated, Literal

import msgspec

from hostagent.contract.core import Milliseconds
from hostagent.parts.detector import DetectorParameters


class TimestampParameters(DetectorParameters, frozen=True, kw_only=True):
    """When silent hosts speak, who is waited for, how often a host that waits asks, and how many messages are under way."""

    silent: Literal["answer", "null"] = "answer"
    """A host with nothing to say answers every message with its clock, or says its clock after a time of silence."""
    silence_ms: Milliseconds = 100.0
    """With `null`: after this time a host says its clock, if somebody may wait for it."""
    detector: Literal["none", "suspect"] = "none"
    """Everybody is waited for, or a majority takes out hosts that seem dead."""
    window: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    """Messages of one source that not all hosts have; later ones wait at the source, so that queues stay bounded."""

    @property
    def longest_ms(self) -> float:
        """The longest wait before a question is repeated."""
        return max(self.longest_retry_ms, 2 * self.silence_ms if self.silent == "null" else 0.0)
