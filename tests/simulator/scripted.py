"""A core that does what it is told and says what it was called with, for looking into a host; run as `hostagent.runtime.launcher` is.

A broadcast is a script, one command a line. Everything that the core is called with is traced, so the event log of its host tells.
"""

from collections.abc import Mapping
from typing import Any

from hostagent.contract.core import Core
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.promises import Promise
from hostagent.parts.delivery import Copy
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.launcher import main


class Letter(Message, frozen=True):
    """A message with a part that can change."""

    parts: list[str]


class Scripted(Core):
    """Does what its broadcasts say."""

    name = "scripted"
    number = 210
    summary = "for tests"
    assumes = "nothing"
    messages = (Copy, Letter)

    @classmethod
    def promise(cls, parameters, hosts):  # noqa: ARG003 - a core has it so
        return Promise(guarantees=(), patience_ms=0.0, retained=0)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        self.stored = dict(stored)
        self.env.trace("started", keys=sorted(stored))

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        for line in payload.decode().strip(".").splitlines():
            self.obey(sequence, line.split())

    def on_message(self, sender: str, message: Any, expensive: bool) -> None:
        self.env.trace("message", sender=sender, kind=type(message).__name__, sequence=message.sequence, expensive=expensive)
        if isinstance(message, Copy) and message.payload.startswith(b"answer"):
            self.env.send(sender, Copy(0, self.env.host, message.sequence, b""), Purpose.CONTROL)

    def on_timer(self, name: str) -> None:
        self.env.trace("timer", name=name)

    def obey(self, sequence: int, command: list[str]) -> None:
        env = self.env
        match command:
            case ["timer", name, after_s]:
                env.set_timer(name, float(after_s))
            case ["cancel", name]:
                env.cancel_timer(name)
            case ["send", to, *words]:
                env.send(to, Copy(0, env.host, sequence, " ".join(words).encode()), Purpose.DATA)
            case ["everybody"]:
                for peer in env.peers:
                    env.send(peer, Copy(0, env.host, sequence, b""), Purpose.DATA)
            case ["store", key, value]:
                env.store(key, int(value) or None)
            case ["trace", event]:
                env.trace(event)
            case ["clock"]:
                env.trace("clock", now_s=env.now())
            case ["deliver"]:
                env.deliver(env.host, sequence, b"")


if __name__ == "__main__":
    PROTOCOLS["scripted"] = Scripted
    main()
