"""What one host broadcasts, one message in a token period: its own messages, and again whatever was rolled back and is its to repeat.

A period is the time between two tokens. A message that no owner has named after a whole round is broadcast again, as all who owned the
token meanwhile may have missed it. From its second repetition on, a message leaves at a random time: else it may meet the same token in the
same queue each time, and be dropped for ever. Those who are known to lack a message come at the end of a broadcast: a full queue drops its
oldest packet, so of a burst that is longer than a queue, the end gets through.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.parts.tokens.places import places
from hostagent.protocols.optimistic.journal import Journal
from hostagent.protocols.optimistic.messages import Data
from hostagent.protocols.optimistic.state import Key, Stamp, TokenState

MOST_DOUBLINGS: Final = 4
"""Each repetition leaves at a random time in a span twice as long as the last one, up to 16 times `late_ms`: by default 320 ms, in which a
link of 200 kbit/s sends about 50 small packets, four bursts of a dozen hosts."""


class Speaking(Part):
    """The broadcasts of one host."""

    def __init__(self, env: Environment, journal: Journal, latest: Callable[[], TokenState], late_s: float) -> None:
        super().__init__(env)
        self._journal, self._latest, self._late_s = journal, latest, late_s
        self._me = env.hosts.index(env.host)
        self._said: dict[Key, tuple[Stamp, int, int]] = {}
        """For each message that is not committed: the list and rollback, and the hop, at which it was last broadcast; how often it was."""
        self._waits = False
        """Whether the next message leaves when a timer expires."""
        self._may_speak = True
        """Whether this host has broadcast nothing in this token period."""
        self.has_spoken = False
        """Whether what this host broadcast last waits for a name."""

    def begin_period(self, state: TokenState) -> None:
        """There is a newer token."""
        self._may_speak, self.has_spoken = True, False
        waiting = {name.key for name in state.names}.union(islice(self._waiting(state), state.members.bit_count() + 2))
        self._said = {key: said for key, said in self._said.items() if key in waiting}
        self.speak(state)

    def is_waiting(self, state: TokenState) -> bool:
        """Whether there is anything to broadcast, or broadcast and without a name in force."""
        return next(self._waiting(state), None) is not None

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one timer
        """Broadcast the message that was to leave at a random time."""
        self._waits = False
        self.speak(self._latest(), at_once=True)

    def speak(self, state: TokenState, *, at_once: bool = False) -> None:
        """Broadcast the next message, if this host may, or have it leave later."""
        if self._waits or not self._may_speak or not state.members >> self._me & 1:
            return
        most = state.members.bit_count()
        for ahead, key in enumerate(self._in_window(state)):
            stamp, hop, times = self._said.get(key, ((-1, -1), 0, 0))
            if stamp != state.stamp or (not ahead and state.hop - hop > most):
                if times < 2 or at_once:
                    self._broadcast(key, state, times + 1)
                else:
                    self._waits = True
                    span_s = self._late_s * 2.0 ** min(times - 2, MOST_DOUBLINGS)
                    self.env.set_timer("again", self.env.random.uniform(0.0, span_s))
                return

    def _waiting(self, state: TokenState) -> Iterator[Key]:
        """The messages that this host must broadcast, and that have no name in force, in the order in which they need one."""
        for name in state.names[state.valid :]:
            if name.speaker == self._me and self._journal.find(name.key) is not None:
                yield name.key
        yield from self._journal.own(state.named()[self._me])

    def _in_window(self, state: TokenState) -> Iterator[Key]:
        """Those of them that may be broadcast now."""
        early = {name.key for name in state.names[state.valid : state.window]}
        room = max(state.window - len(state.names), 0)
        new = set(islice(self._journal.own(state.named()[self._me]), min(room, state.members.bit_count())))
        return (key for key in self._waiting(state) if key in early or key in new)

    def _broadcast(self, key: Key, state: TokenState, times: int) -> None:
        kept = self._journal.find(key)
        assert kept is not None, key
        (origin, sequence), (to, payload) = key, kept
        to_set = to.to_bytes((len(self.env.hosts) + 7) // 8)
        purpose = Purpose.REPAIR if key in self._journal.stamps else Purpose.DATA
        data = Data(EVERYBODY, self.env.hosts[origin], sequence, *state.stamp, to_set, payload)
        # Which of the other copies are dropped is to be another matter each time.
        others = self.env.shuffled([host for host in self.env.groups[EVERYBODY] if host != self.env.host])
        others.sort(key=places(state.lacking, self.env.hosts).__contains__)
        self.env.send_to_some(others, EVERYBODY, data, purpose)
        self._said[key] = state.stamp, state.hop, times
        self._journal.stamps[key] = state.stamp
        self._may_speak, self.has_spoken = False, True
