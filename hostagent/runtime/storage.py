"""Stable storage and the event log of one host, written so that a SIGKILL at any instant leaves both consistent.

What a core stored and what it logged during one wake-up belong together: a host that remembers a delivery that its log does not show has
lost a message, and one that shows a delivery it does not remember will deliver it twice. So a wake-up is committed as a whole. The lines
go to the event log first; then one record with the stored values *and the length of the log* goes to the store. A restart believes the
store: it drops an incomplete last record, and cuts the log back to the length of the last complete one. Datagrams leave the host only
after the commit, so nobody can have heard of what is cut off.

Data handed to `write(2)` survives the death of the process, which is the failure that is injected here; it is not synced to disk.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from hostagent.contract.events import Event

_SIZE: Final = 4
# Rewrite the store when it has grown to four times its size after the last rewrite, but not while it is this small.
_SMALLEST_REWRITE: Final = 1 << 20


class _Record(msgspec.Struct, array_like=True):
    """One commit: where the event log ends, and the values stored; a value of None is forgotten."""

    log_length: int
    values: dict[str, Any]


_encode_record = msgspec.msgpack.Encoder().encode
_decode_record = msgspec.msgpack.Decoder(_Record).decode
_encode_event = msgspec.json.Encoder().encode


class Storage:
    """The store and the event log of one host."""

    def __init__(self, store: Path, log: Path) -> None:
        self._path = store
        self.values: dict[str, Any] = {}
        # Without a store, because it is the first start or because it was lost, the log stays as it is.
        self._log_length = self._replay() if store.exists() else log.stat().st_size if log.exists() else 0
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._log, self._log_length)
        self._lines: list[bytes] = []
        self._changed: dict[str, Any] = {}
        self._rewrite()

    def put(self, key: str, value: object) -> None:
        """Keep a value, or forget it if it is None; durable after the next commit."""
        self._changed[key] = value

    def log(self, event: Event) -> None:
        """Add a line to the event log; durable after the next commit."""
        self._lines.append(_encode_event(event))

    def commit(self) -> None:
        """Make everything since the last commit durable, all or nothing."""
        if not self._lines and not self._changed:
            return
        if self._lines:
            self._lines.append(b"")
            lines = b"\n".join(self._lines)
            _write(self._log, lines)
            self._log_length += len(lines)
            self._lines.clear()
        self._size += _append(self._store, self._log_length, self._changed)
        _apply(self.values, self._changed)
        self._changed.clear()
        if self._size > max(_SMALLEST_REWRITE, 4 * self._rewritten_size):
            os.close(self._store)
            self._rewrite()

    def close(self) -> None:
        """Commit and close both files."""
        self.commit()
        os.close(self._log)
        os.close(self._store)

    def _replay(self) -> int:
        """Read the store back; the committed length of the event log."""
        data = self._path.read_bytes()
        log_length = position = 0
        while position + _SIZE <= len(data):
            end = position + _SIZE + int.from_bytes(data[position : position + _SIZE])
            if end > len(data):
                break
            record = _decode_record(data[position + _SIZE : end])
            log_length = record.log_length
            _apply(self.values, record.values)
            position = end
        return log_length

    def _rewrite(self) -> None:
        """Replace the store by one record that says the same, atomically, and open it for appending."""
        draft = self._path.with_suffix(".new")
        self._store = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = self._rewritten_size = _append(self._store, self._log_length, self.values)
        draft.replace(self._path)


def _append(file: int, log_length: int, values: dict[str, Any]) -> int:
    body = _encode_record(_Record(log_length, values))
    _write(file, len(body).to_bytes(_SIZE) + body)
    return _SIZE + len(body)


def _apply(values: dict[str, Any], changed: dict[str, Any]) -> None:
    for key, value in changed.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def _write(file: int, data: bytes) -> None:
    """Write all of it: a full disk raises here, and the agent stops rather than go on unrecorded."""
    while data:
        data = data[os.write(file, data) :]
