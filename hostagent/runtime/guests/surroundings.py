"""What the adapter gives to the part of it that knows one guest."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol


class Start(Protocol):
    """Starts a process of the guest, with variables added to its environment."""

    def __call__(self, command: list[str], **environment: str) -> None:
        """Start it. When it ends, the adapter ends too."""


class Surroundings(NamedTuple):
    """The host that a guest runs on."""

    number: int
    """The number of this host, from 1."""
    addresses: tuple[str, ...]
    """The addresses of all hosts, in the order of their numbers."""
    private: Path
    """A directory of this host alone, which outlives a crash."""
    installed: Path
    """Where the guest is installed."""
    start: Start
    deliver: Callable[[bytes], None]
    """To be called, from any thread, with each message that the guest delivers."""

    @property
    def address(self) -> str:
        """The address of this host."""
        return self.addresses[self.number - 1]


class GuestHost(Protocol):
    """A guest that is up at one host; `start` of each module NAME_host returns one."""

    def broadcast(self, message: bytes) -> None:
        """Have the guest deliver a message at every host. May block, and holds up the messages after it if it does."""


def message_bytes(origin: int, sequence: int, size: int) -> bytes:
    """The message that a guest carries: the numbers that name it, padded with spaces to the size of the payload that it stands for."""
    return f"{origin} {sequence} ".encode().ljust(size)
