"""What sources have submitted to the sequencer, in the order of each source."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Purpose, Ranges
from hostagent.contract.wire import ROOM_IN_PACK
from hostagent.parts.in_order import ranges
from hostagent.protocols.sequencer.messages import AT_ONCE, Query, SequencerParameters, Submission, Taken, destination

OVERHEAD_BYTES: Final = 16
"""What an ordered message takes at most in a pack, after the one before it, beside its payload."""


class Intake(Part):
    """Submissions that wait for an earlier one of their source, or for room in the history; in memory only, as sources keep them too.

    `order` is called with each submission in its turn, and `has_room` says whether there is room for one more. With `gather_ms`, they also
    wait for each other, until that time is over since others were ordered or they fill a datagram.
    """

    def __init__(
        self,
        env: Environment,
        parameters: SequencerParameters,
        has_room: Callable[[], bool],
        order: Callable[[Submission], None],
    ) -> None:
        super().__init__(env)
        self._window = parameters.window
        self._gather_s = parameters.gather_ms / 1000
        self._rests_until_s = 0.0
        """When those that wait for each other are ordered."""
        self._has_room = has_room
        self._order = order
        self.taken: dict[str, int] = {}
        """The sequence number of the last message of each source that was ordered."""
        self._early: dict[str, dict[int, Submission]] = {}
        self._seen: dict[str, int] = {}
        """The highest sequence number that was seen of each source."""
        self._busy = False

    def begin(self, taken: Mapping[str, int]) -> None:
        """Begin to take submissions, after these were ordered."""
        self.taken = dict(taken)
        self._early, self._seen = {}, {}

    def take(self, submission: Submission) -> Ranges:
        """A submission has arrived: order what is in order now. Returns what was found missing before it."""
        source, sequence = submission.origin, submission.sequence
        taken = self.taken.get(source, 0)
        if not taken < sequence <= taken + self._window:
            return ()
        seen = max(self._seen.get(source, 0), taken)
        self._seen[source] = max(seen, sequence)
        self._early.setdefault(source, {})[sequence] = submission
        self.go_on()
        return ((seen + 1, sequence - 1),) if sequence > seen + 1 else ()

    def serve(self, env: Environment, submission: Submission) -> None:
        """Take the submission of another host, and say at once what was found to be missing."""
        source = submission.origin
        if destination(submission.group, submission.listed, env.groups, env.hosts) is None:
            # The group is not known here yet; the source will ask.
            return
        if missing := self.take(submission):
            env.send(source, Taken(0, source, self.taken.get(source, 0), missing), Purpose.CONTROL)

    def answer(self, env: Environment, query: Query) -> None:
        """Tell a source what became of its submissions."""
        source = query.origin
        taken = Taken(0, source, self.taken.get(source, 0), self.missing(source, query.sequence))
        env.send(source, taken, Purpose.CONTROL)

    def missing(self, source: str, sent: int) -> Ranges:
        """The messages that a source has sent, up to this one, and that have not arrived."""
        early, taken = self._early.get(source, {}), self.taken.get(source, 0)
        numbers = range(taken + 1, min(sent, taken + self._window) + 1)
        return ranges(list(islice((number for number in numbers if number not in early), AT_ONCE)))

    def on_timer(self, name: str) -> None:  # noqa: ARG002 - there is one
        """Those that waited for each other have waited long enough."""
        self._rests_until_s = 0.0
        self.go_on()

    def go_on(self) -> None:
        """Order what is in order, one message of each source at a time, as long as there is room."""
        if self._busy or not self._early:
            # Ordering a message of this host may make it submit the next one.
            return
        if self._gather_s and not self._is_due():
            return
        self._busy = True
        ready = True
        while ready:
            ready = False
            for source in list(self._early):
                submission = self._early[source].pop(self.taken.get(source, 0) + 1, None) if self._has_room() else None
                if submission is not None:
                    ready = True
                    self.taken[source] = submission.sequence
                    self._order(submission)
                if not self._early[source]:
                    del self._early[source]
        self._busy = False

    def _is_due(self) -> bool:
        """Whether to order now, and then to gather others; else set a timer. A clock that is set makes nobody wait longer."""
        now_s = self.env.now()
        waits_s = self._rests_until_s - now_s
        if 0 < waits_s <= self._gather_s and not self._fills_datagram():
            self.env.set_timer("gather", waits_s)
            return False
        self.env.cancel_timer("gather")
        self._rests_until_s = now_s + self._gather_s
        return True

    def _fills_datagram(self) -> bool:
        waiting = (submission for early in self._early.values() for submission in early.values())
        return sum(len(submission.payload) + OVERHEAD_BYTES for submission in waiting) > ROOM_IN_PACK
