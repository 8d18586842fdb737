"""What may come before a message is found out anew, with election, when hosts that took part in its decision have disappeared.

A message waits for all messages that those who accepted its counter had seen. One of them may have been the only one to see some message,
such as one of its own, and may be cut off since. A message that nobody else has seen needs a majority to be decided, and so the vote of
one of those that are left. So a host that cannot go on asks all hosts to propose only counters above those of the messages that wait, and
to say what they have seen. What a majority of them had not seen then cannot come before these messages.
"""

from typing import TYPE_CHECKING

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.questions import JITTER
from hostagent.protocols.two_phase.messages import Look, Looked, Seen
from hostagent.protocols.two_phase.parameters import TwoPhaseParameters

if TYPE_CHECKING:
    from hostagent.protocols.two_phase.electing import Electing


class Looks(Part):
    """The questions of a host whose first message waits for others. `core` is this host as a voter."""

    messages = (Look, Looked)

    def __init__(self, env: Environment, parameters: TwoPhaseParameters, core: "Electing") -> None:
        super().__init__(env)
        self._core = core
        self._wait_s = parameters.takeover_ms / 1000
        self._waits = False
        self._attempts = 0
        self._counter = 0
        """The counter above which hosts were asked to propose."""
        self._answers: dict[str, Seen] = {}

    def wait(self, *, blocked: bool) -> None:
        """Something was delivered, or could not be. Look again if the next message waits for too long."""
        if blocked and not self._waits:
            self.env.set_timer("look", self._wait_s * min(2.0**self._attempts, 2.0) * self.env.random.uniform(1.0, JITTER))
        elif not blocked and self._waits:
            self.env.cancel_timer("look")
            self._answers.clear()
            self._attempts = 0
        self._waits = blocked

    def on_timer(self, name: str) -> None:
        """The next message has waited for too long."""
        if name != "look":
            super().on_timer(name)
        self._counter = self._core.places.highest()
        self._answers = {self.env.host: self._core.promise_above(self._counter)}
        self.env.multicast(EVERYBODY, Look(EVERYBODY, self.env.host, 0, self._counter), Purpose.REPAIR, turn=self._attempts)
        self._attempts = min(self._attempts + 1, 10)
        self._waits = False
        self._enough()
        self.wait(blocked=self._core.places.waits())

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A host wants to know what this one has seen, or answers."""
        match message:
            case Look(origin=origin, counter=counter) if origin == sender:
                seen = self._core.promise_above(counter)
                self.env.send(sender, Looked(EVERYBODY, origin, 0, counter, seen), Purpose.REPAIR)
            case Looked(origin=self.env.host, counter=self._counter, seen=seen) if self._answers:
                self._answers[sender] = seen
                self._enough()

    def _enough(self) -> None:
        """When a majority has answered, nothing that all of them had not seen can come before the messages up to the counter."""
        if 2 * len(self._answers) > len(self.env.hosts):
            self._core.limit(self._counter, tuple(max(numbers) for numbers in zip(*self._answers.values(), strict=True)))
