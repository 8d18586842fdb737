"""The launcher with two more protocols, for looking into an agent: run as `hostagent.runtime.launcher` is."""

from hostagent.contract.core import Core
from hostagent.contract.messages import Message
from hostagent.contract.promises import Promise
from hostagent.parts.delivery import Copy
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.launcher import main


class Unpromising(Core):
    """Promises nothing."""

    @classmethod
    def promise(cls, parameters, hosts):  # noqa: ARG003 - a core has it so
        return Promise(guarantees=(), patience_ms=0.0, retained=0)


class Recorder(Unpromising):
    """Traces what it is called with. A broadcast is a list of what to do: `timer NAME AFTER` or `cancel NAME`, one a line."""

    name = "recorder"
    number = 200
    messages = (Copy,)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:  # noqa: ARG002 - a core has it so
        for line in payload.decode().splitlines():
            match line.split():
                case ["timer", name, after]:
                    self.env.set_timer(name, float(after))
                case ["cancel", name]:
                    self.env.cancel_timer(name)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        self.env.trace("message", sender=sender, sequence=message.sequence, expensive=expensive)

    def on_timer(self, name: str) -> None:
        self.env.trace("timer", name=name)


class Crasher(Unpromising):
    """Fails half-way through a message."""

    name = "crasher"
    number = 201
    messages = (Copy,)

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """Nobody asks."""

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - a core has it so
        self.env.store("half", 1)
        self.env.trace("half")
        raise RuntimeError(f"cannot stand {message.sequence}")


if __name__ == "__main__":
    PROTOCOLS.update({core.name: core for core in (Recorder, Crasher)})
    main()
