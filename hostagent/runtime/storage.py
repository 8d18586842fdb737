"""Stable storage and the event log of one host, written so that both agree after a SIGKILL at any instant.

What a core stored and what it logged during one wake-up must survive together: if a delivery is stored and not logged, a message is lost;
if a delivery is logged and not stored, the host will deliver the message twice. So a wake-up is committed as a whole. First one record is
appended to the store, with a checksum, the stored values and the length that the log is about to have. Then the lines are appended to the
log, the last of them with the checksum of all (`hostagent.contract.events`). That last line is the commit: from then on readers of the log
accept the lines, and a restart accepts the last record of the store, because the log is as long as the record says. Datagrams leave the
host only after the commit, so no other host can know of a wake-up that is not committed.

Readers ignore an unfinished commit, and a restart cuts it off the log, whether the storage was kept or lost. So a line that a reader
accepted is never taken back, and the log of a host that died for good ends with its last commit.

Data handed to `write(2)` survives the death of the process, which is the failure that is injected here; it is not synced to disk.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from hostagent.contract.events import Event, commit, committed

# Each record starts with its length and its checksum.
_NUMBER: Final = 4
_FRONT: Final = 2 * _NUMBER
# Rewrite the store when it has grown to four times its size after the last rewrite, but not while it is this small.
_SMALLEST_REWRITE: Final = 1 << 20


class _Record(msgspec.Struct, array_like=True):
    """The length of the event log after a commit, and the encoded values stored; the value None removes a key."""

    log_length: int
    values: dict[str, bytes | None]


_encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgspec.msgpack.Decoder(_Record).decode


class Storage:
    """The store and the event log of one host."""

    def __init__(self, store: Path, log: Path) -> None:
        self._path = store
        self.values: dict[str, bytes] = {}
        """Every key with its value, encoded."""
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._log_length = self._restore(list(_records(store.read_bytes())) if store.exists() else [])
        os.ftruncate(self._log, self._log_length)
        self._rewrite()

    def commit(self, stored: Mapping[str, bytes | None], events: Sequence[Event]) -> None:
        """Make all values and events durable, or none of them."""
        lines = commit(events) if events else b""
        self._log_length += len(lines)
        if stored:
            self._size += _append(self._store, self._log_length, stored)
            _apply(self.values, stored)
        if lines:
            _write(self._log, lines)
        if self._size > max(_SMALLEST_REWRITE, 4 * self._rewritten_size):
            os.close(self._store)
            self._rewrite()

    def close(self) -> None:
        """Close both files."""
        os.close(self._log)
        os.close(self._store)

    def _restore(self, records: list[_Record]) -> int:
        """Restore the values of every record whose commit is in the log. Returns the length of the log's commits.

        Only the last record can lack its lines, as each commit ends before the next begins. The first record was written when the log
        was complete.
        """
        trusted, length = records[-2:][0].log_length if records else 0, os.fstat(self._log).st_size
        # A log that is shorter than the store says was cut, and is read from its beginning.
        trusted = trusted if trusted <= length else 0
        length = trusted + committed(os.pread(self._log, length - trusted, trusted)).length
        assert all(a.log_length <= b.log_length for a, b in pairwise(records)), "a log never shrinks"
        for number, record in enumerate(records):
            if number == 0 or record.log_length <= length:
                _apply(self.values, record.values)
        return length

    def _rewrite(self) -> None:
        """Replace the store atomically by one record with the same values, and open it for appending."""
        assert os.fstat(self._log).st_size == self._log_length, "the store is rewritten when the log is complete"
        draft = self._path.with_suffix(".new")
        self._store = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = self._rewritten_size = _append(self._store, self._log_length, self.values)
        draft.replace(self._path)


def _records(data: bytes) -> Iterator[_Record]:
    """The records of a store, up to the first that is incomplete."""
    position = 0
    while position + _FRONT <= len(data):
        start = position + _FRONT
        size, checksum = (int.from_bytes(data[at : at + _NUMBER]) for at in (position, position + _NUMBER))
        body = data[start : start + size]
        if not size or len(body) < size or crc32(body) != checksum:
            return
        yield _decode_record(body)
        position = start + size


def _append(file: int, log_length: int, values: Mapping[str, bytes | None]) -> int:
    body = _encode_record((log_length, values))
    _write(file, len(body).to_bytes(_NUMBER) + crc32(body).to_bytes(_NUMBER) + body)
    return _FRONT + len(body)


def _apply(values: dict[str, bytes], changed: Mapping[str, bytes | None]) -> None:
    for key, value in changed.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def _write(file: int, data: bytes) -> None:
    """Write all of `data`. A full disk raises an exception here, so that the agent stops and does not go on unrecorded."""
    while data:
        data = data[os.write(file, data) :]
