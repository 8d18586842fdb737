"""Protocols that number, commit and take back messages, small enough to see that they are right, and the same with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import Message, Purpose
from hostagent.parts.delivery import Copy
from tests.analysis.mutants import Small
from tests.analysis.ordered_mutants import Numbered

# One global order, no gaps, same position


class Numbers(Small):
    """The first host numbers all messages, to whichever groups. Every host follows the numbers, and delivers what is for it."""

    messages = (Copy, Numbered)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.last, self.following, self.waiting, self.ordinals = {}, {}, {}, {}

    def line(self, group):
        """What is numbered by itself: everything."""
        return 0

    def numberer(self, group):
        return self.env.hosts[0]

    def on_multicast(self, to, sequence, payload):
        copy, numberer = Copy(to.group, self.env.host, sequence, payload), self.numberer(to.group)
        if numberer == self.env.host:
            self.assign(copy)
        else:
            self.env.send(numberer, copy, Purpose.DATA)

    def assign(self, copy):
        line = self.line(copy.group)
        self.last[line] = number = self.last.get(line, 0) + 1
        numbered = Numbered(copy.group, copy.origin, copy.sequence, number, copy.payload)
        self.to_all(numbered)
        self.on_message(self.env.host, numbered, False)

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.assign(message)
            return
        line = self.line(message.group)
        self.waiting[line, message.number] = message
        while following := self.waiting.pop((line, self.following.get(line, 1)), None):
            self.following[line] = following.number + 1
            self.take(following)

    def take(self, message):
        self.ordinals[message.group] = ordinal = self.ordinals.get(message.group, 0) + 1
        if self.env.host in self.env.groups[message.group]:
            self.env.deliver(message.origin, message.sequence, message.payload, ordinal=self.ordinal(message, ordinal))

    def ordinal(self, message, ordinal):
        return ordinal


class OneNumbererAGroup(Numbers):
    """Right for each group, and wrong across them."""

    def line(self, group):
        return group

    def numberer(self, group):
        return self.env.hosts[group - 1]


class GoesByArrival(Numbers):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.assign(message)
        else:
            self.take(message)

    def ordinal(self, message, ordinal):
        return 0


class SkipsWhatIsMissing(Numbers):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Numbered):
            self.following[0] = max(message.number, self.following.get(0, 1))
        super().on_message(sender, message, expensive)

    def take(self, message):
        self.ordinals[message.group] = message.number - 1
        super().take(message)


class SkipsUnnumbered(SkipsWhatIsMissing):
    def ordinal(self, message, ordinal):
        return 0


class DeliversOnlyWhatOthersSent(Numbers):
    def take(self, message):
        if message.origin == self.env.host:
            self.ordinals[message.group] = self.ordinals.get(message.group, 0) + 1
        else:
            super().take(message)


class NumbersArrivals(GoesByArrival):
    def ordinal(self, message, ordinal):
        return ordinal


class RightNumbersWrongOrder(GoesByArrival):
    def ordinal(self, message, ordinal):
        return message.number


class EachSourceNumbers(NumbersArrivals):
    def numberer(self, group):
        return self.env.host

    def ordinal(self, message, ordinal):
        return message.number


# Rollback discipline, and the order of commits


class Hasty(Small):
    """A host delivers on arrival. When the first host has numbered a message, what came too early is taken back and comes later."""

    messages = (Copy, Numbered)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.early, self.numbered, self.payloads, self.done, self.last = [], {}, {}, 0, 0

    def on_broadcast(self, sequence, payload):
        copy = Copy(0, self.env.host, sequence, payload)
        self.to_all(copy)
        self.on_message(self.env.host, copy, False)

    def on_message(self, sender, message, expensive):
        key = message.origin, message.sequence
        if isinstance(message, Numbered):
            self.numbered[message.number] = message
        elif self.env.host == self.env.hosts[0]:
            self.last += 1
            numbered = Numbered(0, *key, self.last, message.payload)
            self.to_all(numbered)
            self.numbered[self.last] = numbered
        if key not in self.payloads:
            self.payloads[key] = message.payload
            self.early.append(key)
            self.env.deliver(*key, message.payload)
        while following := self.numbered.get(self.done + 1):
            key = following.origin, following.sequence
            self.payloads.setdefault(key, following.payload)
            if self.early[:1] != [key]:
                self.put_first(key)
            self.early.remove(key)
            self.done += 1
            self.commit(key)

    def put_first(self, key):
        wrong = list(self.early)
        for one in reversed(wrong):
            self.take_back(one)
        if key not in wrong:
            wrong.append(key)
        self.early = [key, *(one for one in wrong if one != key)]
        for one in self.early:
            self.env.deliver(*one, self.payloads[one])

    def take_back(self, key):
        self.env.take_back(*key)

    def commit(self, key):
        self.env.commit(*key)


class NeverTakesBack(Hasty):
    def take_back(self, key):
        pass


class TakesBackTwice(Hasty):
    def take_back(self, key):
        super().take_back(key)
        super().take_back(key)


class CommitsTwice(Hasty):
    def commit(self, key):
        super().commit(key)
        super().commit(key)


class TakesBackWhatItCommitted(Hasty):
    before = None

    def commit(self, key):
        super().commit(key)
        if self.before:
            self.env.take_back(*self.before)
        self.before = key


class CommitsBeforeItDelivers(Hasty):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.env.commit(message.origin, message.sequence)
        super().on_message(sender, message, expensive)

    def commit(self, key):
        pass


class CommitsOnArrival(CommitsBeforeItDelivers):
    """Without the mistake of its parent."""

    def on_message(self, sender, message, expensive):
        Hasty.on_message(self, sender, message, expensive)
        if isinstance(message, Copy):
            self.env.commit(message.origin, message.sequence)


class CommitsTwoBackwards(Hasty):
    kept = None

    def commit(self, key):
        if self.env.host != "h3" or self.done > 2:
            super().commit(key)
        elif self.kept is None:
            self.kept = key
        else:
            super().commit(key)
            super().commit(self.kept)


# Operational and rollback order


class Past(Message, frozen=True):
    messages: tuple[tuple[str, int, bytes], ...]


class Succession(Small):
    """The first host orders all messages, and delivers before anybody has them. When it is silent the second host takes over.

    A host that comes back asks the second host for its messages, takes back its own and delivers those.
    """

    messages = (Copy, Past)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.leader, self.log, self.pending = self.env.hosts[0], [], {}

    def on_start(self, stored):
        if stored:
            self.log = [tuple(one) for one in stored["log"]]
            self.leader = self.env.hosts[1]
            self.env.send(self.leader, Copy(0, self.env.host, 0, b""), Purpose.CONTROL)

    def on_broadcast(self, sequence, payload):
        self.pending[sequence] = payload
        self.env.set_timer(str(sequence), 0.5)
        self.ask(sequence)

    def on_timer(self, name):
        if (self.env.host, int(name), self.pending[int(name)]) not in self.log:
            self.leader = self.env.hosts[1]
            self.ask(int(name))

    def ask(self, sequence):
        copy = Copy(0, self.env.host, sequence, self.pending[sequence])
        if self.leader == self.env.host:
            self.on_message(self.env.host, copy, False)
        else:
            self.env.send(self.leader, copy, Purpose.DATA)

    def on_message(self, sender, message, expensive):
        if isinstance(message, Past):
            self.catch_up(list(message.messages))
        elif message.sequence == 0:
            self.env.send(sender, Past(0, self.env.host, 0, tuple(self.log)), Purpose.REPAIR)
        elif self.is_new(message.origin, message.sequence):
            self.hand_up(message.origin, message.sequence, message.payload)
            if sender == message.origin and self.env.host == self.env.hosts[1]:
                self.leader = self.env.host
            if self.leader == self.env.host:
                self.to_all(message)

    def hand_up(self, *message):
        self.log.append(message)
        self.env.store("log", self.log)
        self.env.deliver(*message)

    def take_back(self, messages):
        for origin, sequence, _ in reversed(messages):
            self.env.take_back(origin, sequence)

    def catch_up(self, past):
        self.take_back(self.log)
        self.log = []
        for message in past:
            self.hand_up(*message)


class KeepsItsOrder(Succession):
    def catch_up(self, past):
        for message in past:
            if message not in self.log:
                self.hand_up(*message)


class TakesBackOnlyTheLast(Succession):
    def catch_up(self, past):
        self.take_back(self.log[-1:])
        self.hand_up(*self.log.pop())


class DeliversAgainAsBefore(Succession):
    def catch_up(self, past):
        super().catch_up([*self.log, *(message for message in past if message not in self.log)])
