"""The event log of a host: one JSON object a line, in the order in which things happened."""

from typing import Annotated, Any

import msgspec

from hostagent.contract.messages import SequenceNumber

Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""Since 1970, until 2116, so that sums of two fit into 64 bits."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a host's event log. `origin` and `sequence` name the message it is about, if any.

    Every agent logs `start`, `broadcast`, `deliver` and `stop`; protocols trace events of their own beside them.
    """

    at_ns: Nanoseconds
    event: str
    origin: str = ""
    sequence: SequenceNumber = 0
    details: dict[str, Any] = {}
