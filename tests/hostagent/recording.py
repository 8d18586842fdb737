"""The launcher with three more protocols, for looking into an agent: run as `hostagent.runtime.launcher` is."""

from hostagent.contract.core import Core
from hostagent.contract.messages import LISTED, Message, Purpose
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


class Grouped(Unpromising):
    """Sends each message to its group, and marks all that happens to it; joins are granted at once."""

    name = "grouped"
    number = 221
    knows_groups = knows_membership = True
    messages = (Copy,)

    def on_multicast(self, to, sequence, payload):
        self.asked = to
        if to.group != LISTED:
            self.env.multicast(to.group, Copy(to.group, self.env.host, sequence, payload), Purpose.DATA)

    def on_message(self, sender, message, expensive):  # noqa: ARG002 - a core has it so
        about = message.origin, message.sequence
        self.env.receive(*about)
        self.env.deliver(*about, message.payload, ordinal=7)
        self.env.take_back(*about)
        self.env.deliver(*about, message.payload)
        self.env.commit(*about)
        self.env.trace("done", about, group=message.group)

    def on_join(self, group):
        self.env.install(group, {*self.env.groups[group], self.env.host}, view=2)

    def on_leave(self, group):
        self.env.install(group, set(self.env.groups[group]) - {self.env.host}, view=3)


if __name__ == "__main__":
    PROTOCOLS.update({core.name: core for core in (Recorder, Crasher, Grouped)})
    main()
