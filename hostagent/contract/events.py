"""The event log of a host: one JSON object a line, in the order in which things happened."""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a host's event log. `origin` and `sequence` name the message it is about, if any.

    Every agent logs `start`, `broadcast`, `deliver` and `stop`; protocols trace events of their own beside them.
    """

    at_ns: int
    event: str
    origin: str = ""
    sequence: int = 0
    details: dict[str, Any] = {}
