"""Files of Hadoop's file systems (hdfs:, s3a:, viewfs: and so on), read by Hadoop's own client.

A Python data source has no access to Spark's Java processes, which could open such files. So a worker that is given such a path starts a
JVM in its own process, with the jars of its Spark, and keeps it. Bytes can be read from any place, so big files are cut into parts like
files on a disk.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from sparkpcap.walk import Bytes

Settings = tuple[tuple[str, str], ...]
"""Settings for Hadoop's client in addition to the files in HADOOP_CONF_DIR: names and values."""

_URI: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")
# Options for a JVM that is small, starts fast, and leaves signals to Python.
_JVM: Final = ("-Xrs", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR")


def is_remote(path: str) -> bool:
    """Whether a path is a URI for Hadoop, and not a file of this machine."""
    return _URI.match(path) is not None


class Remote:
    """A file that Hadoop reads, for example from another machine."""

    def __init__(self, path: str, settings: Settings) -> None:
        with _told():
            place, system = _at(path, settings)
            self.size = int(system.getFileStatus(place).getLen())
            self._stream = system.open(place)
        self._buffer = _bytes(0)
        self.problem = ""

    def window(self, at: int, size: int) -> Bytes:
        """Up to `size` bytes from `at` on. A read error sets `problem` and ends the file."""
        size = min(size, self.size - at)
        if size <= 0 or self.problem:
            return np.empty(0, np.uint8)
        if len(self._buffer) < size:
            self._buffer = _bytes(size)
        try:
            with _told():
                self._stream.readFully(at, self._buffer, 0, size)
        except OSError as error:
            self.problem = f"cannot be read from byte {at} on ({error.strerror})"
            return np.empty(0, np.uint8)
        return np.frombuffer(memoryview(self._buffer), np.uint8, size).copy()

    def rest(self, at: int) -> int:
        """The number of bytes from `at` on."""
        return self.size - at

    def close(self) -> None:
        """Close the file."""
        with _told():
            self._stream.close()


def size_of(path: str, settings: Settings) -> int:
    """The size of a file. Raises `OSError`."""
    with _told():
        place, system = _at(path, settings)
        return int(system.getFileStatus(place).getLen())


def expand(pattern: str, settings: Settings) -> list[str]:
    """The files that a URI names: a file, all files in a directory, or all that match a pattern. Raises `ValueError` on errors."""
    try:
        with _told():
            place, system = _at(pattern, settings)
            found = system.globStatus(place) or ()
            return sorted(str(file.getPath()) for status in found for file in _files(system, status))
    except OSError as error:
        raise ValueError(f"{pattern} cannot be listed: {error.strerror}") from error


def _files(system: Any, status: Any) -> Iterator[Any]:
    if status.isFile():
        yield status
        return
    listed = system.listFiles(status.getPath(), True)
    while listed.hasNext():
        yield listed.next()


def _bytes(size: int) -> Any:
    """A Java array of bytes."""
    return _java("java.nio.ByteBuffer").allocate(size).array()


def _at(path: str, settings: Settings) -> tuple[Any, Any]:
    place = _java("org.apache.hadoop.fs.Path")(path)
    return place, place.getFileSystem(_configuration(settings))


@cache
def _configuration(settings: Settings) -> Any:
    configuration = _java("org.apache.hadoop.conf.Configuration")()
    for name, value in settings:
        configuration.set(name, value)
    return configuration


@cache
def _java(name: str) -> Any:
    """A Java class by name; starts the JVM if it is not running."""
    try:
        import jpype  # noqa: PLC0415 - needed for such files only
    except ImportError as error:
        raise ValueError("files that are not on this machine's disks need the package JPype1: pip install JPype1") from error
    if not jpype.isJVMStarted():
        from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 - needed for such files only

        configured = [os.environ[name] for name in ("HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH") if name in os.environ]
        jpype.startJVM(*_JVM, classpath=[*configured, str(Path(_find_spark_home(), "jars", "*"))])
    return jpype.JClass(name)


@contextmanager
def _told() -> Iterator[None]:
    """Turn exceptions of Java into `OSError`."""
    _java("java.lang.Object")
    import jpype  # noqa: PLC0415 - needed for such files only

    try:
        yield
    except jpype.JException as error:
        why = str(error.getMessage() or error.getClass().getSimpleName()).partition("\n")[0]
        raise OSError(errno.EIO, why) from error
