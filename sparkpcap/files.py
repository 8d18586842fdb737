"""Files as windows of bytes: mapped into memory a piece at a time, or decompressed as they are read."""

import glob
import gzip
import io
import mmap
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from sparkpcap import hadoop
from sparkpcap.hadoop import Remote, Settings, is_remote
from sparkpcap.walk import Bytes

_GZIP: Final = b"\x1f\x8b"
_COMPRESSED_READ: Final = 1 << 20


class Mapped:
    """A file on a disk."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by `close`
        self.size = os.fstat(self._file.fileno()).st_size
        self.problem = ""

    def window(self, at: int, size: int) -> Bytes:
        """Up to `size` bytes from `at` on. The memory is freed with the array."""
        size = min(size, self.size - at)
        if size <= 0:
            return np.empty(0, np.uint8)
        before = at % mmap.ALLOCATIONGRANULARITY
        # All pages are read at once, since the lanes of a walk touch pages in an order that read-ahead does not predict.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        mapped = mmap.mmap(self._file.fileno(), size + before, flags, mmap.PROT_READ, offset=at - before)
        return np.frombuffer(mapped, np.uint8, offset=before)

    def rest(self, at: int) -> int:
        """The number of bytes from `at` on."""
        return self.size - at

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Gzipped:
    """A compressed file. It can only be read forwards; places are those of the uncompressed bytes."""

    def __init__(self, compressed: Mapped | Remote) -> None:
        self._compressed = compressed
        self._file = gzip.open(io.BufferedReader(_Stream(compressed), _COMPRESSED_READ))  # noqa: SIM115 - holds nothing open
        self._kept = bytearray()
        self._begin = 0
        self._over = False
        self.problem = ""

    def window(self, at: int, size: int) -> Bytes:
        """Up to `size` bytes from `at` on; `at` must not be less than in the last call."""
        self._forget(at)
        while len(self._kept) < size and not self._over:
            self._read()
            self._forget(at)
        return np.frombuffer(bytes(memoryview(self._kept)[:size]), np.uint8)

    def _forget(self, at: int) -> None:
        passed = max(0, min(at - self._begin, len(self._kept)))
        del self._kept[:passed]
        self._begin += passed

    def _read(self) -> None:
        try:
            data = self._file.read1(_COMPRESSED_READ)
        except (OSError, EOFError, zlib.error) as error:
            self.problem = f"cannot be decompressed to its end ({error})"
            data = b""
        self._kept += data
        self._over = not data

    def rest(self, at: int) -> int:
        """The number of bytes from `at` on; this reads all of them."""
        while not self._over:
            self._forget(self._begin + len(self._kept))
            self._read()
        return self._begin + len(self._kept) - at

    def close(self) -> None:
        """Close the file."""
        self._compressed.close()


class _Stream(io.RawIOBase):
    """The bytes of a file as a stream."""

    def __init__(self, source: Mapped | Remote) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.window(self._at, len(buffer))
        if self._source.problem:
            raise OSError(self._source.problem)
        buffer[: len(data)] = data.data
        self._at += len(data)
        return len(data)


Source = Mapped | Remote | Gzipped


def open_source(path: str, settings: Settings = ()) -> Source:
    """Open a file; a compressed file gives its uncompressed bytes. Raises `OSError`."""
    source = Remote(path, settings) if is_remote(path) else Mapped(path)
    return Gzipped(source) if bytes(source.window(0, len(_GZIP))) == _GZIP else source


def size_of(path: str, settings: Settings = ()) -> int:
    """The size of a file; 0 for a missing file, which is reported when it is read."""
    try:
        return hadoop.size_of(path, settings) if is_remote(path) else Path(path).stat().st_size
    except OSError:
        return 0


def expand(patterns: Iterable[str], settings: Settings = ()) -> list[str]:
    """All files that are named, are in a named directory, or match a pattern. Raises `ValueError` if a name gives no file."""
    found: dict[str, None] = {}
    for pattern in patterns:
        files = hadoop.expand(pattern, settings) if is_remote(pattern) else _on_disk(pattern)
        if not files:
            raise ValueError(f"there is no file {pattern}")
        found |= {file: None for file in files if file == pattern or not file.rpartition("/")[2].startswith((".", "_"))}
    return list(found)


def _on_disk(pattern: str) -> list[str]:
    path = unquote(urlsplit(pattern).path) if pattern.startswith("file:") else pattern
    named = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - a path's glob takes no absolute pattern
    inside = (sorted(place.rglob("*")) if place.is_dir() else [place] for place in map(Path, named))
    return [str(file) for files in inside for file in files if not file.is_dir()]
