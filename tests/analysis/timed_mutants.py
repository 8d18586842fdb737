"""Protocols that deliver within a time, small enough to see that they do, and the same with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import Purpose
from hostagent.parts.delivery import Copy
from tests.analysis.group_mutants import Safe
from tests.analysis.mutants import Small


class Prompt(Small):
    """A copy to everybody, delivered as soon as it is there."""

    messages = (Copy,)

    def on_multicast(self, to, sequence, payload):
        self.to_all(Copy(0, self.env.host, sequence, payload))
        self.hand_up(self.env.host, sequence, payload)

    def on_message(self, sender, message, expensive):
        self.env.receive(message.origin, message.sequence)
        self.hand_up(message.origin, message.sequence, message.payload)

    def hand_up(self, origin, sequence, payload):
        self.env.deliver(origin, sequence, payload)


class SitsOnIt(Prompt):
    def hand_up(self, origin, sequence, payload):
        self.late = origin, sequence, payload
        self.env.set_timer("deliver", 0.5)

    def on_timer(self, name):
        self.env.deliver(*self.late)


class ForgetsEverySecond(Prompt):
    def hand_up(self, origin, sequence, payload):
        if sequence % 2:
            super().hand_up(origin, sequence, payload)


class WaitsForTheNext(Prompt):
    last = None

    def hand_up(self, origin, sequence, payload):
        if self.last:
            self.env.deliver(*self.last)
        self.last = origin, sequence, payload


class SourceDawdles(Prompt):
    def on_multicast(self, to, sequence, payload):
        self.late = to, sequence, payload
        self.env.set_timer("send", 0.2)

    def on_timer(self, name):
        super().on_multicast(*self.late)


class LeavesOneOut(Prompt):
    def to_all(self, message):
        for peer in self.env.peers[:-1]:
            self.env.send(peer, message, Purpose.DATA)


# With the help of others


class ByMajority(Safe):
    """A message is delivered when the origin knows that half of the other destinations have it."""

    def is_enough(self, missing):
        return len(missing) <= 1


class NeedsEverybody(ByMajority):
    def is_enough(self, missing):
        return not missing


class SaysItLate(ByMajority):
    def count(self, sender, message):
        self.late = sender, message
        self.env.set_timer("count", 0.3)

    def on_timer(self, name):
        super().count(*self.late)


class TellsNobody(ByMajority):
    def count(self, sender, message):
        self.hand_up(message.origin, message.sequence)


# Along a tree


class Chain(Prompt):
    """Every host passes messages on to the next one."""

    def on_start(self, stored):
        place = self.env.hosts.index(self.env.host)
        if place:
            self.env.trace("parent", source=self.env.hosts[0], parent=self.env.hosts[place - 1], leader=False)

    def to_all(self, message):
        place = self.env.hosts.index(self.env.host)
        for child in self.env.hosts[place + 1 : place + 2]:
            self.env.send(child, message, Purpose.DATA)

    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive)
        self.to_all(message)


class StopsHalfWay(Chain):
    def on_message(self, sender, message, expensive):
        Prompt.on_message(self, sender, message, expensive)


class PassesOnTheFirst(Chain):
    def to_all(self, message):
        if message.sequence == 1:
            super().to_all(message)


class PassesOnLate(Chain):
    def on_message(self, sender, message, expensive):
        Prompt.on_message(self, sender, message, expensive)
        self.late = message
        self.env.set_timer("on", 0.2)

    def on_timer(self, name):
        self.to_all(self.late)
