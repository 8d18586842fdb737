"""Protocols that deliver in some order, small enough to see that they are right, and the same with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import Message, Purpose
from hostagent.parts.delivery import Copy
from tests.analysis.mutants import Small

# Single-source order


class Fifo(Small):
    """What comes early waits."""

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.waiting = {}

    def on_message(self, sender, message, expensive):
        self.waiting[message.origin, message.sequence] = message
        self.deliver_all(message.origin)

    def deliver_all(self, origin):
        following = 1 + max((sequence for host, sequence in self.seen if host == origin), default=0)
        if message := self.waiting.pop((origin, following), None):
            self.is_new(origin, following)
            self.env.deliver(origin, following, message.payload)
            self.deliver_all(origin)


class DoesNotWait(Fifo):
    def deliver_all(self, origin):
        for message in list(self.waiting.values()):
            self.delivery.deliver(origin, message.sequence, message.payload)


class WaitsForThreeAndTurnsThemRound(Fifo):
    def deliver_all(self, origin):
        if len(self.waiting) == 3:
            for (_, sequence), message in sorted(self.waiting.items(), reverse=True):
                self.env.deliver(origin, sequence, message.payload)


class LosesPatience(Fifo):
    def deliver_all(self, origin):
        super().deliver_all(origin)
        for (_, sequence), message in list(self.waiting.items()):
            if sequence % 2 == 0:
                self.delivery.deliver(origin, sequence, message.payload)


# Multiple-source and multiple-group order


class Numbered(Message, frozen=True):
    number: int
    payload: bytes


class Sequencer(Small):
    """The first host numbers all messages; every host delivers in the order of numbers."""

    messages = (Copy, Numbered)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.numbers, self.following, self.waiting = {}, {}, {}

    def sequencer(self, origin, sequence):
        return self.env.hosts[0]

    def on_broadcast(self, sequence, payload):
        copy, to = Copy(0, self.env.host, sequence, payload), self.sequencer(self.env.host, sequence)
        if to == self.env.host:
            self.assign(copy)
        else:
            self.env.send(to, copy, Purpose.DATA)

    def assign(self, copy):
        self.numbers[0] = number = self.numbers.get(0, 0) + 1
        numbered = Numbered(0, copy.origin, copy.sequence, number, copy.payload)
        self.to_all(numbered)
        self.on_message(self.env.host, numbered, False)

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.assign(message)
            return
        of = self.sequencer(message.origin, message.sequence)
        self.waiting[of, message.number] = message
        while following := self.waiting.pop((of, self.following.get(of, 1)), None):
            self.following[of] = following.number + 1
            self.hand_up(following)

    def hand_up(self, message):
        self.env.deliver(message.origin, message.sequence, message.payload)


class IgnoresTheNumbers(Sequencer):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.assign(message)
        else:
            self.hand_up(message)


class EverybodyNumbers(Sequencer):
    def sequencer(self, origin, sequence):
        return origin


class OneHostSwapsTwo(Sequencer):
    kept = None

    def hand_up(self, message):
        if self.env.host != "h3" or self.following[self.env.hosts[0]] > 3:
            super().hand_up(message)
        elif self.kept is None:
            self.kept = message
        else:
            super().hand_up(message)
            super().hand_up(self.kept)


class OneSequencerAGroup(Sequencer):
    """Right for each of two groups, and wrong across them."""

    def sequencer(self, origin, sequence):
        return self.env.hosts[sequence % 2]


# Causal order


class WithPast(Message, frozen=True):
    payload: bytes
    past: tuple[tuple[str, int, bytes], ...]


class Causal(Small):
    """Every message brings along all that its origin delivered before it, and that is delivered first."""

    messages = (WithPast,)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.past = []

    def relevant(self):
        return self.past

    def on_broadcast(self, sequence, payload):
        self.to_all(WithPast(0, self.env.host, sequence, payload, tuple(self.relevant())))
        self.hand_up(self.env.host, sequence, payload)

    def on_message(self, sender, message, expensive):
        for earlier in (*message.past, (message.origin, message.sequence, message.payload)):
            self.hand_up(*earlier)

    def hand_up(self, origin, sequence, payload):
        if self.is_new(origin, sequence):
            self.past.append((origin, sequence, payload))
            self.env.deliver(origin, sequence, payload)


class BringsNoPast(Causal):
    def relevant(self):
        return []


class BringsOnlyItsOwn(Causal):
    def relevant(self):
        return [earlier for earlier in self.past if earlier[0] == self.env.host]


class DeliversTheEffectFirst(Causal):
    def on_message(self, sender, message, expensive):
        self.hand_up(message.origin, message.sequence, message.payload)
        super().on_message(sender, message, expensive)
