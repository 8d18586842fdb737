"""Counters of one host in a small shared file: the agent writes, any process may read, and a SIGKILL loses nothing.

The agent receives datagrams in batches (`hostagent.runtime.batches`) and counts a batch when it has handled it. What the kernel has handed
over of a batch stands in the same file, so that the datagrams of an agent that is killed meanwhile count as unread.
"""

import mmap
from pathlib import Path
from typing import Final

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import REASONS
from hostagent.runtime import batches

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

BEFORE_BATCH: Final = len(NAMES)
"""After the counters, another number: how many datagrams had been received or refused before the batch that is being handled."""
_HEADERS: Final = 8 * (BEFORE_BATCH + 1)
_SIZE: Final = _HEADERS + batches.HEADERS


def open_counters(path: Path) -> "tuple[memoryview[int], memoryview[int]]":
    """The counters at `path` as a writable array, with the values in the file, or zeros if there is none; and memory for a batch."""
    with path.open("a+b") as file:
        file.truncate(_SIZE)
        shared = memoryview(mmap.mmap(file.fileno(), _SIZE))
    counts, headers = shared[:_HEADERS].cast("Q"), shared[_HEADERS:]
    counts[REFUSED["unread"]] += _uncounted(counts, headers)
    headers[:] = bytes(batches.HEADERS)
    counts[BEFORE_BATCH] = _counted(counts)
    return counts, headers


def read_counters(path: Path) -> dict[str, int]:
    """The counters at `path` by name, as they are now. Datagrams that are being handled count as unread."""
    shared = memoryview(path.read_bytes())
    counts, headers = shared[:_HEADERS].cast("Q"), shared[_HEADERS:]
    named = dict(zip(NAMES, counts[:BEFORE_BATCH], strict=True))
    return named | {"refused_unread": named["refused_unread"] + _uncounted(counts, headers)}


def _uncounted(counts: "memoryview[int]", headers: "memoryview[int]") -> int:
    """The datagrams that an agent has received and neither counted nor forgotten.

    Below 0 if the agent has counted a batch and not yet begun the next one.
    """
    return max(0, counts[BEFORE_BATCH] + batches.handed_over(headers) - _counted(counts))


def _counted(counts: "memoryview[int]") -> int:
    return counts[RECEIVED] + sum(counts[index] for index in REFUSED.values())
