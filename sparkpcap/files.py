"""Files as windows of bytes: mapped into memory a piece at a time, or decompressed as they are read."""

import glob
import gzip
import mmap
import os
import zlib
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

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
        """Up to `size` bytes from `at` on. They leave memory with the array."""
        size = min(size, self.size - at)
        if size <= 0:
            return np.empty(0, np.uint8)
        before = at % mmap.ALLOCATIONGRANULARITY
        # Populated at once: the lanes of a walk touch pages in an order that no read-ahead expects.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        mapped = mmap.mmap(self._file.fileno(), size + before, flags, mmap.PROT_READ, offset=at - before)
        return np.frombuffer(mapped, np.uint8, offset=before)

    def rest(self, at: int) -> int:
        """How many bytes there are from `at` on."""
        return self.size - at

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Gzipped:
    """A compressed file. It can only be read forwards; places count in what was compressed."""

    def __init__(self, path: str) -> None:
        self._file = gzip.open(path)  # noqa: SIM115 - closed by `close`
        self._kept = bytearray()
        self._begin = 0
        self._over = False
        self.problem = ""

    def window(self, at: int, size: int) -> Bytes:
        """Up to `size` bytes from `at` on; `at` is nowhere before that of the last call."""
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
        """How many bytes there are from `at` on; reads them all."""
        while not self._over:
            self._forget(self._begin + len(self._kept))
            self._read()
        return self._begin + len(self._kept) - at

    def close(self) -> None:
        """Close the file."""
        self._file.close()


Source = Mapped | Gzipped


def open_source(path: str) -> Source:
    """The bytes of a file."""
    return Gzipped(path) if is_compressed(path) else Mapped(path)


def is_compressed(path: str) -> bool:
    """Whether a file starts like one of gzip's."""
    with Path(path).open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def size_of(path: str) -> int:
    """The size of a file; 0 for one that is not there, which is found out again when it is read."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def expand(patterns: list[str]) -> list[str]:
    """The files that a user means: files, everything in directories, and what matches a pattern. Raises `ValueError` for nothing."""
    found: dict[str, None] = {}
    for pattern in patterns:
        local = _local(pattern)
        paths = [local] if Path(local).exists() else sorted(glob.glob(local, recursive=True))  # noqa: PTH207 - a path's glob takes no absolute pattern
        if not paths:
            raise ValueError(f"there is no file {pattern}")
        for path in map(Path, paths):
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            found |= {str(file): None for file in inside if not file.is_dir() and not file.name.startswith((".", "_"))}
    return list(found)


def _local(pattern: str) -> str:
    """A path of this machine's, also from a `file:` URI."""
    scheme = urlsplit(pattern).scheme
    if scheme == "file":
        return unquote(urlsplit(pattern).path)
    if scheme and "://" in pattern:
        raise ValueError(
            f"{pattern} is not a file that workers can open: copy it with sparkpcap.fetch(spark, {pattern!r}, folder) "
            "to a folder that all workers see, and load that"
        )
    return pattern


def fetch(spark: Any, pattern: str, folder: str) -> list[str]:
    """Copy what a Hadoop path or pattern names (hdfs://, s3a://, file:) into a folder, and return the copies' paths.

    Spark's own Hadoop client does it, on the driver, with the file systems and credentials that it is configured for. On a cluster the
    folder must be one that all workers see.
    """
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - the one way to Hadoop's file systems
    source = jvm.org.apache.hadoop.fs.Path(pattern)
    system = source.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
    found = [status.getPath() for status in system.globStatus(source) or () if status.isFile()]
    if not found:
        raise ValueError(f"there is no file {pattern}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    copies = [str(Path(folder, path.getName()).absolute()) for path in found]
    if len(set(copies)) < len(copies):
        raise ValueError(f"{pattern} names several files of the same name: fetch them one folder at a time")
    for path, copy in zip(found, copies, strict=True):
        # The raw file system writes no checksum file beside the copy.
        system.copyToLocalFile(False, path, jvm.org.apache.hadoop.fs.Path(copy), True)
    return copies
