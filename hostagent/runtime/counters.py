"""Counters of one host in a small shared file: the agent writes, any process may read, and a SIGKILL loses nothing."""

import mmap
from pathlib import Path
from typing import Final

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import REASONS

# An injected fault may drop a message on arrival ("injected"), or kill the agent while datagrams are unread ("unread").
_REFUSALS: Final = (*REASONS, "injected", "unread")
NAMES: Final = (
    "sent",
    *(f"sent_{purpose.name.lower()}" for purpose in Purpose),
    "messages",
    "send_failed",
    "received",
    *(f"refused_{reason}" for reason in _REFUSALS),
    "broadcast",
    "delivered",
)
"""Every counter, in file order: 64-bit integers in the byte order of the machine. `sent`, `received` and `refused_` count datagrams.
`messages` counts the messages in the datagrams sent, since several may share one; `delivered` counts deliveries to the application."""

SENT: Final = NAMES.index("sent")
SENT_FOR: Final = tuple(NAMES.index(f"sent_{purpose.name.lower()}") for purpose in Purpose)
MESSAGES: Final = NAMES.index("messages")
SEND_FAILED: Final = NAMES.index("send_failed")
RECEIVED: Final = NAMES.index("received")
REFUSED: Final = {reason: NAMES.index(f"refused_{reason}") for reason in _REFUSALS}
BROADCAST: Final = NAMES.index("broadcast")
DELIVERED: Final = NAMES.index("delivered")


def open_counters(path: Path) -> "memoryview[int]":
    """The counters at `path` as a writable array, with the values in the file, or zeros if there is none."""
    size = 8 * len(NAMES)
    with path.open("a+b") as file:
        file.truncate(size)
        return memoryview(mmap.mmap(file.fileno(), size)).cast("Q")


def read_counters(path: Path) -> dict[str, int]:
    """The counters at `path` by name, as they are now."""
    return dict(zip(NAMES, memoryview(path.read_bytes()).cast("Q"), strict=True))
