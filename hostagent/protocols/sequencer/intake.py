"""What sources have submitted to the sequencer, in the order of each source."""

from collections.abc import Callable, Mapping
from itertools import islice

from hostagent.contract.environment import Environment
from hostagent.contract.messages import Purpose, Ranges
from hostagent.parts.in_order import ranges
from hostagent.protocols.sequencer.messages import AT_ONCE, Query, SequencerParameters, Submission, Taken, destination


class Intake:
    """Submissions that wait for an earlier one of their source, or for room in the history; in memory only, as sources keep them too.

    `order` is called with each submission in its turn, and `has_room` says whether there is room for one more.
    """

    def __init__(
        self, parameters: SequencerParameters, has_room: Callable[[], bool], order: Callable[[Submission], None]
    ) -> None:
        self._window = parameters.window
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

    def go_on(self) -> None:
        """Order what is in order, one message of each source at a time, as long as there is room."""
        if self._busy:
            # Ordering a message of this host may make it submit the next one.
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
