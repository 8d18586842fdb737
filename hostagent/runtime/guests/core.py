"""A guest at one host, as a core: the application's messages go to the guest's adapter, and its deliveries come back.

The adapter (`hostagent.runtime.guests.adapter`) is a program beside the agent. They speak in lines:

    to the adapter     broadcast ORIGIN SEQUENCE SIZE     the number of this host, from 1; the number of the message; its size in bytes
    from the adapter   ready                              the guest is up and has found the other hosts
                       deliver ORIGIN SEQUENCE            the guest has delivered this message here

The guest sends its own packets, in its own format, so none of them are ours: they are counted on links, and nothing tells which packet is
about which message. A guest that keeps a log may deliver it again from its start when its host restarts. What this host has delivered in an
earlier life is left out; what is delivered twice in one life counts twice.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.contract.environment import Environment
from hostagent.contract.promises import Carrier, Promise
from hostagent.parts.delivery import DeliverOnce
from hostagent.runtime.guests.catalogue import GuestSystem
from hostagent.runtime.maelstrom.program_core import ProgramCore


class GuestParameters(Parameters, frozen=True):
    """What can be set of every guest. Its own settings are as its makers ship them."""

    patience_ms: Milliseconds = 10_000.0
    """How long the guest may take until everybody has what is due."""


class Guest(ProgramCore):
    """One host of a guest. Each guest has a subclass with its name."""

    all_relay = True
    messages = ()
    Parameters = GuestParameters
    parameters: GuestParameters
    system: ClassVar[GuestSystem]

    def __init__(self, env: Environment, parameters: GuestParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.lines: list[bytes] = []
        self.is_ready = False
        self._delivered: set[tuple[str, int]] = set()
        """What was delivered in this life."""

    @classmethod
    def promise(cls, parameters: GuestParameters, hosts: int) -> Promise:
        """What the makers of the guest promise."""
        return Promise(
            guarantees=cls.system.guarantees,
            orders=cls.system.orders,
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms,
            quorum=hosts // 2 + 1 if cls.system.is_quorum else hosts,
            retained=0,
        )

    def command(self, addresses: Mapping[str, str], directory: Path) -> tuple[str, ...]:
        """The guest's adapter."""
        number = str(self.env.hosts.index(self.env.host) + 1)
        told = json.dumps([addresses[host] for host in self.env.hosts])
        return sys.executable, "-m", "hostagent.runtime.guests.adapter", self.system.name, number, told, str(directory)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Hand a message of the application to the guest."""
        number = self.env.hosts.index(self.env.host) + 1
        self.lines.append(f"broadcast {number} {sequence} {len(payload)}".encode())

    def on_line(self, line: bytes) -> None:
        """The guest is ready, or has delivered a message."""
        match line.decode(errors="replace").split():
            case ["ready"]:
                self.is_ready = True
            case ["deliver", origin, sequence]:
                self._deliver(self.env.hosts[int(origin) - 1], int(sequence))
            case _:
                raise ValueError("this is no line of an adapter")

    def _deliver(self, origin: str, sequence: int) -> None:
        if (origin, sequence) in self._delivered:
            self.env.deliver(origin, sequence, b"")
        else:
            self._delivered.add((origin, sequence))
            self.delivery.deliver(origin, sequence, b"")


def core_of(system: GuestSystem, number: int) -> type[Guest]:
    """The core of a guest, with a number on the wire."""
    named: dict[str, Any] = {"name": system.name, "number": number, "file": f"guest:{system.name}", "system": system}
    return type(system.name, (Guest,), named | {"summary": system.summary, "assumes": system.assumes})
