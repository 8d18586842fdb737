"""Protocols that are right, small enough to see it, and the same protocols with one thing broken, one class a mistake."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from typing import Literal

from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Purpose
from hostagent.parts.delivery import Copy
from hostagent.protocols.basic import Ack, Basic
from hostagent.protocols.best_effort import BestEffort, BestEffortParameters


class BareParameters(BestEffortParameters, frozen=True, kw_only=True):
    links: Literal["perfect", "none"] = "none"


class Bare(BestEffort):
    """Best effort on bare datagrams, to everybody."""

    Parameters = BareParameters

    def on_multicast(self, to, sequence, payload):
        self.on_broadcast(sequence, payload)

    def on_broadcast(self, sequence, payload):
        super().on_multicast(Destination(EVERYBODY, self.env.hosts), sequence, payload)


class Small(Bare):
    """What the small protocols share: a copy to everybody, and knowing what was delivered."""

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.seen = {}

    def to_all(self, message):
        for peer in self.env.peers:
            self.env.send(peer, message, Purpose.DATA)

    def is_new(self, *key):
        new = key not in self.seen
        self.seen[key] = None
        return new

    def on_broadcast(self, sequence, payload):
        self.is_new(self.env.host, sequence)
        super().on_broadcast(sequence, payload)


# No creation


class InventsAMessage(Bare):
    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.delivery.deliver(message.origin, message.sequence + 100, message.payload)


class DeliversAhead(Bare):
    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.delivery.deliver(message.origin, message.sequence + 1, message.payload)


class TakesTheCredit(Bare):
    def on_message(self, sender, message, expensive):
        self.delivery.deliver(self.env.host, message.sequence, message.payload)


# No duplication


class ForgetsToDeduplicate(Bare):
    def on_message(self, sender, message, expensive):
        self.env.deliver(message.origin, message.sequence, message.payload)


class ForgetsAtRestart(Basic):
    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.delivery._delivered.on_start = lambda _: None


class RemembersOnlyTheLast(BestEffort):
    last = None

    def on_message(self, sender, message, expensive):
        if self.last != (message.origin, message.sequence):
            self.env.deliver(message.origin, message.sequence, message.payload)
        self.last = message.origin, message.sequence


# Validity and convergence


class StopsRetrying(Basic):
    def on_timer(self, name):
        pass


class SkipsTheLastHost(Basic):
    def _keep(self, sequence, to, payload):
        super()._keep(sequence, to, payload)
        self.unacknowledged[sequence].pop(self.env.hosts[-1], None)

    def on_multicast(self, to, sequence, payload):
        others = to.hosts[:-1]
        super().on_multicast(Destination(LISTED, others), sequence, payload)


class AcknowledgesBeforeStoring(Basic):
    """It delivers half a second later, from memory."""

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.env.send(sender, Ack(0, message.origin, message.sequence), Purpose.CONTROL)
            self.waiting = message
            self.env.set_timer("deliver", 0.5)
        else:
            super().on_message(sender, message, expensive)

    def on_timer(self, name):
        if name == "deliver":
            self.delivery.deliver(self.waiting.origin, self.waiting.sequence, self.waiting.payload)
        else:
            super().on_timer(name)


class SourceForgetsAtRestart(Basic):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("message")})


class GivesUpAfterThree(Basic):
    tries = 0

    def on_timer(self, name):
        self.tries += 1
        if self.tries <= 3:
            super().on_timer(name)


class TakesOneAckForAll(Basic):
    def _acknowledged(self, sender, sequence):
        for peer in self.env.peers:
            super()._acknowledged(peer, sequence)


# Agreement


class Relay(Small):
    """Everybody passes on what is new (second paper, Algorithm 3.3)."""

    def on_message(self, sender, message, expensive):
        if self.is_new(message.origin, message.sequence):
            self.env.deliver(message.origin, message.sequence, message.payload)
            self.to_all(message)


class SkipsTheRelay(Relay):
    def to_all(self, message):
        pass


class RelaysToTheSource(Relay):
    def to_all(self, message):
        self.env.send(message.origin, message, Purpose.DATA)


class RelaysOnlyTheFirst(Relay):
    def to_all(self, message):
        if message.sequence == 1:
            super().to_all(message)


# Uniform agreement


class AllAck(Small):
    """A host delivers when it has a copy from everybody (second paper, Algorithm 3.4, with nobody suspected)."""

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.copies = {}

    def needed(self):
        return len(self.env.hosts)

    def on_broadcast(self, sequence, payload):
        self.on_message(self.env.host, Copy(0, self.env.host, sequence, payload), False)

    def on_message(self, sender, message, expensive):
        copies = self.copies.setdefault((message.origin, message.sequence), {})
        if not copies:
            copies[self.env.host] = None
            self.to_all(message)
        copies[sender] = None
        if len(copies) >= self.needed():
            self.delivery.deliver(message.origin, message.sequence, message.payload)


class DeliversAtOnce(AllAck):
    def needed(self):
        return 1


class DeliversAfterOneAck(AllAck):
    def needed(self):
        return 2


class SourceDeliversAtOnce(AllAck):
    def on_broadcast(self, sequence, payload):
        self.delivery.deliver(self.env.host, sequence, payload)
        super().on_broadcast(sequence, payload)


# Quiescence


class ChattersForEver(Basic):
    def on_start(self, stored):
        super().on_start(stored)
        self.env.set_timer("chat", 0.1)

    def on_timer(self, name):
        if name != "chat":
            super().on_timer(name)
            return
        self.env.send(self.env.peers[0], Ack(0, self.env.host, 1), Purpose.CONTROL)
        self.env.set_timer("chat", 0.1)


class AnswersAcknowledgements(Basic):
    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        if isinstance(message, Ack):
            self.env.send(sender, message, Purpose.CONTROL)


class IgnoresAcknowledgements(Basic):
    def _acknowledged(self, sender, sequence):
        pass


# Bounded memory


class KeepsEverythingForEver(Basic):
    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.archive = []

    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.archive.append(message.sequence)


class KeepsWhatWasAcknowledged(Basic):
    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.acknowledged = {}

    def _acknowledged(self, sender, sequence):
        self.acknowledged.setdefault(sequence, []).append(sender)
        super()._acknowledged(sender, sequence)


class NeverForgetsItsPayloads(Basic):
    def _forget_if_acknowledged(self, sequence):
        if not self.unacknowledged[sequence]:
            self.env.cancel_timer(str(sequence))


# Cluster tree


class ChildOfTheSource(Bare):
    """On a stage all hosts are in one cluster, so the source leads them."""

    parents = None

    def attach(self, source, parent):
        self.parents = self.parents or {}
        if self.parents.get(source) != parent:
            self.parents[source] = parent
            self.env.trace("parent", source=source, parent=parent, leader=False)

    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.attach(message.origin, message.origin)


class KeepsToItself(ChildOfTheSource):
    def attach(self, source, parent):
        if self.env.host != "h3":
            super().attach(source, parent)


class ChildOfTheHostBefore(ChildOfTheSource):
    def attach(self, source, parent):
        before = self.env.hosts[self.env.hosts.index(self.env.host) - 1]
        super().attach(source, before)


class ChildrenOfEachOther(ChildOfTheSource):
    def attach(self, source, parent):
        super().attach(source, next(host for host in self.env.peers if host != source))


class SourceIsAChild(ChildOfTheSource):
    def on_broadcast(self, sequence, payload):
        super().on_broadcast(sequence, payload)
        self.attach(self.env.host, self.env.peers[0])


class LeavesAgain(ChildOfTheSource):
    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        if self.env.host == "h2" and message.sequence == 2:
            self.attach(message.origin, "")
