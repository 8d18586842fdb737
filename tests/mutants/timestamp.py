"""The timestamp protocol with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

import msgspec

from hostagent.contract.messages import EVERYBODY
from hostagent.protocols.timestamp.asking import Asking
from hostagent.protocols.timestamp.protocol import Timestamp
from hostagent.protocols.timestamp.views import Views
from tests.mutants.mutant import Mutant
from tests.mutants.parts import with_part


class DeliversWithoutWaiting(Timestamp):
    def _clock_of(self, host):
        return 1 << 50


class WaitsForTheSourceOnly(Timestamp):
    """It does not matter what silent hosts have said."""

    def _clock_of(self, host):
        return super()._clock_of(host) if self.last[host] else 1 << 50


class WaitsForAllButTheLastHost(Timestamp):
    def _clock_of(self, host):
        return super()._clock_of(host) if host != self.env.hosts[-1] else 1 << 50


class BelievesClocksBeforeTheMessages(Timestamp):
    """What a host sent before it said its clock may still be missing."""

    def _apply(self, host):
        if (stamp := self.announced.get(host)) is not None:
            self.heard[host] = max(self.heard[host], stamp.clock)
        super()._apply(host)


class KeepsItsClock(Timestamp):
    """The clock does not go beyond the messages that arrive."""

    def _put(self, message):
        before = self.clock
        super()._put(message)
        self.clock = before

    def _hear(self, sender, stamp):
        before = self.clock
        super()._hear(sender, stamp)
        self.clock = before


class ForgetsItsClockAtRestart(Timestamp):
    def on_start(self, stored):
        super().on_start(stored)
        self.clock = self.told = 0


class ForgetsItsQueueAtRestart(Timestamp):
    """What others sent and is not delivered is taken to be delivered."""

    def on_start(self, stored):
        super().on_start(stored)
        self.queue = [entry for entry in self.queue if entry[0][1] == self.env.host]


class ForgetsItsMessagesAtRestart(Timestamp):
    def on_start(self, stored):
        own = f"item/{self.env.host}/"
        super().on_start({key: value for key, value in stored.items() if not key.startswith(own)})


class ForgetsWhatItDelivered(Timestamp):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("passed/")})


class TakesMessagesAsTheyCome(Timestamp):
    def _take(self, message):
        if message.number > self.last[message.origin]:
            self.last[message.origin] = message.number - 1
        super()._take(message)


class NeverAsks(Asking):
    def later(self):
        pass


class AnswersNoRequests(Asking):
    def send_again(self, to, request):
        pass


class NeverForgets(Timestamp):
    def _everybody_has(self, source):
        return 0


class TakesOneForAll(Timestamp):
    def _note(self, host, stamp):
        for other in self.env.peers:
            super()._note(other, stamp)


class SpeaksForEver(Timestamp):
    """Clocks are said also when nobody waits for one."""

    def on_start(self, stored):
        super().on_start(stored)
        self.env.set_timer("silence", 0.1)

    def on_timer(self, name):
        super().on_timer(name)
        if name == "silence":
            self.env.set_timer("silence", 0.1)


class DeliversToEverybody(Timestamp):
    def _put(self, message):
        super()._put(message)
        if message.group != EVERYBODY:
            self.items[message.origin, message.number] = msgspec.structs.replace(message, group=EVERYBODY)


class NeverChangesTheView(Views):
    def on_timer(self, name):
        self._wrong = 0
        self.env.set_timer("review", self._period_s)


class MakesAViewOfAnyVoters(Views):
    """Whoever would like another view makes it, without an election."""

    def on_timer(self, name):
        wanted = self._wanted()
        if wanted != self._core.members and 2 * len(wanted) <= len(self.env.hosts) and wanted[0] == self.env.host:
            self._make(self.election.role, self._core.view + 1, {self.env.host: self._state(self.election.role)})
        super().on_timer(name)


class SaysItsClockAfterItHasVoted(Views):
    @property
    def is_frozen(self):
        return False


class ForgetsTheViewAtRestart(Views):
    def on_start(self, stored):
        super().on_start({})


class CutsByItsOwnMessages(Timestamp):
    """Whoever makes a view does not look at what its voters have."""

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.views.election._on_elected = self._make

    def _make(self, subject, epoch, states):
        told = {host: msgspec.msgpack.decode(state) for host, state in states.items()}
        view, _, have = told[self.env.host]
        clock = max(clock for _, clock, _ in told.values())
        self.views._make(subject, epoch, dict.fromkeys(states, msgspec.msgpack.encode((view, clock, have))))


class KeepsVoidMessages(Timestamp):
    def enter(self, view):
        super().enter(msgspec.structs.replace(view, cut=tuple(map(max, view.cut, self.all_here()))))


class KeepsItsClockInANewView(Timestamp):
    def enter(self, view):
        super().enter(msgspec.structs.replace(view, clock=0))


class DeliversBeforeTheCutIsHere(Timestamp):
    def _deliver(self):
        cut, self.cut = self.cut, {}
        super()._deliver()
        self.cut = cut


class DeliversWhatMembersLack(Timestamp):
    def waits_for(self, host, stamp, number):
        return not self._is_beyond(self._clock_of(host), host, stamp)


SUSPECT = {"detector": "suspect"}
MUTANTS = (
    Mutant(DeliversWithoutWaiting, "A message is delivered as soon as it arrives."),
    Mutant(WaitsForTheSourceOnly, "Hosts that have sent no message are not waited for."),
    Mutant(WaitsForAllButTheLastHost, "The last host is not waited for."),
    Mutant(BelievesClocksBeforeTheMessages, "A clock is believed before the messages that were sent earlier are here."),
    Mutant(KeepsItsClock, "The clock does not go beyond the time stamps that arrive."),
    Mutant(ForgetsItsClockAtRestart, "A host that restarts begins its clock again."),
    Mutant(ForgetsItsQueueAtRestart, "A host that restarts forgets what it has not delivered."),
    Mutant(ForgetsItsMessagesAtRestart, "A source that restarts forgets its messages."),
    Mutant(ForgetsWhatItDelivered, "A host that restarts forgets what it delivered."),
    Mutant(TakesMessagesAsTheyCome, "Messages of a source are taken as they come, whatever their numbers."),
    Mutant(with_part(Timestamp, "asking", NeverAsks), "A host that waits in vain does not ask."),
    Mutant(with_part(Timestamp, "asking", AnswersNoRequests), "A source does not send anything again."),
    Mutant(NeverForgets, "A source keeps messages that everybody has, and its window fills.", parameters={"window": 2}),
    Mutant(TakesOneForAll, "When one host has a message, all are taken to have it."),
    Mutant(SpeaksForEver, "Hosts say their clocks all the time."),
    Mutant(DeliversToEverybody, "A message to a group is delivered by everybody."),
    Mutant(with_part(Timestamp, "views", NeverChangesTheView), "Hosts that seem dead are waited for.", parameters=SUSPECT),
)
DOUBTED = {
    with_part(Timestamp, "views", MakesAViewOfAnyVoters): "A minority makes a view of its own.",
    with_part(Timestamp, "views", SaysItsClockAfterItHasVoted): "A host that has voted for another view goes on in the old one.",
    with_part(Timestamp, "views", ForgetsTheViewAtRestart): "A host that restarts forgets the view.",
    CutsByItsOwnMessages: "Whoever makes a view counts the messages that it has itself, and none that only voters have.",
    KeepsVoidMessages: "A host keeps and delivers messages that are void.",
    KeepsItsClockInANewView: "The clock of a host that is taken in again is not set beyond those of the others.",
    DeliversBeforeTheCutIsHere: "Messages are delivered in a new view before those of the old ones are here.",
    DeliversWhatMembersLack: "A message is delivered that some member of the view does not have.",
}
"""What campaigns hardly ever catch, as their detectors seldom err: `tests/hostagent/test_timestamp_views.py` does."""
