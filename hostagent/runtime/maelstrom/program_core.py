"""Cores that leave the work to a program: what the agent needs to know of them."""

import abc
from collections.abc import Mapping
from pathlib import Path

from hostagent.contract.core import Core


class ProgramCore(Core):
    """A core that translates between the agent and a program, which the agent starts and whose standard input and output it holds."""

    lines: list[bytes]
    """Lines for the program, which the agent takes."""
    is_ready: bool
    """Whether the program has answered what it was told at its start."""

    @abc.abstractmethod
    def command(self, addresses: Mapping[str, str], directory: Path) -> tuple[str, ...]:
        """The program and its arguments. `addresses` are those of all hosts; `directory` is this host's alone and outlives a crash."""

    @abc.abstractmethod
    def on_line(self, line: bytes) -> None:
        """The program has written a line."""
