"""The process of a program on one host: lines go to its standard input, and come from its standard output."""

import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hostagent.runtime.namespace import die_with_parent

_AT_ONCE: Final = 1 << 16
LONGEST_LINE: Final = 1 << 24
_LAST_BYTES: Final = 2000


class ProgramEnded(Exception):
    """The program has ended or never began, and its host goes on."""


class Program:
    """A running program, in the network namespace of the calling process. It dies with that process."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._errors = errors
        parent = os.getpid()
        with errors.open("wb") as stderr:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - an agent has one thread
                )
            except OSError as error:
                raise ProgramEnded(f"{command[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input, self.output = self._process.stdin.fileno(), self._process.stdout.fileno()
        for end in (self.input, self.output):
            os.set_blocking(end, False)
        self._unread, self._unwritten = b"", b""

    def write(self, lines: Sequence[bytes] = ()) -> bool:
        """Write lines, and those that found no room before. Returns whether some still wait."""
        self._unwritten += b"".join(line + b"\n" for line in lines)
        # A program that has ended is noticed when its output ends.
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self.input, self._unwritten[:_AT_ONCE]) :]
        return bool(self._unwritten)

    def wait(self, most_s: float) -> None:
        """Wait until the program has written something."""
        if not select.select([self.output], [], [], max(0.0, most_s))[0]:
            raise ProgramEnded(f"the program has not answered init and topology; its last words were: {self._last_words()}")

    def read(self) -> list[bytes]:
        """The lines that have come since the last time."""
        try:
            data = os.read(self.output, _AT_ONCE)
        except BlockingIOError:
            return []
        if not data:
            raise ProgramEnded(f"the program ended with status {self._process.wait()}; its last words were: {self._last_words()}")
        *lines, self._unread = (self._unread + data).split(b"\n")
        if len(self._unread) > LONGEST_LINE:
            raise ProgramEnded(f"the program wrote a line of more than {LONGEST_LINE} bytes")
        return [line for line in lines if line.strip()]

    def end(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        lines = self._errors.read_bytes()[-_LAST_BYTES:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "none"
