"""Protocols with views, safe delivery, groups or a token, small enough to see that they are right; the same with one thing broken."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import Message, Purpose
from hostagent.parts.delivery import Copy
from tests.analysis.mutants import Small

# Views


class Ask(Message, frozen=True):
    joins: bool


class Sent(Message, frozen=True):
    view: int
    payload: bytes


class Step(Message, frozen=True):
    """A message or, with members, a view, in the one order of the group."""

    number: int
    view: int
    members: tuple[str, ...]
    payload: bytes


class Synchronous(Small):
    """The first host puts the messages and views of a group into one order, and gives up a message that was sent in an earlier view."""

    messages = (Ask, Sent, Step)
    knows_membership = True

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.view, self.steps = 0, 0
        self.next_view, self.members = 0, None
        self.following, self.waiting = 1, {}

    def to_first(self, message):
        if self.env.host == self.env.hosts[0]:
            self.on_message(self.env.host, message, False)
        else:
            self.env.send(self.env.hosts[0], message, Purpose.DATA)

    def on_multicast(self, to, sequence, payload):
        self.to_first(Sent(to.group, self.env.host, sequence, self.view, payload))

    def on_join(self, group):
        self.to_first(Ask(group, self.env.host, 0, True))

    def on_leave(self, group):
        self.to_first(Ask(group, self.env.host, 0, False))

    def on_message(self, sender, message, expensive):
        if isinstance(message, Step):
            self.waiting[message.number] = message
            self.take_steps()
        elif isinstance(message, Ask):
            self.change(message.group, message.origin, message.joins)
        elif self.is_timely(message):
            self.to_members(message, (), message.view)

    def is_timely(self, message):
        return message.view == self.next_view

    def change(self, group, host, joins):
        if self.members is None:
            self.members = list(self.env.groups[group])
        self.members = [*self.members, host] if joins else [member for member in self.members if member != host]
        self.next_view += 1
        self.to_members(Sent(group, self.env.host, 0, 0, b""), tuple(self.members), self.next_view)

    def to_members(self, message, members, view):
        self.steps += 1
        step = Step(message.group, message.origin, message.sequence, self.steps, view, members, message.payload)
        self.to_all(step)
        self.on_message(self.env.host, step, False)

    def take_steps(self):
        while step := self.waiting.pop(self.following, None):
            self.following += 1
            self.take(step)

    def take(self, step):
        if step.members:
            self.view = step.view
            self.env.install(step.group, step.members, self.number_of(step))
        elif self.env.host in self.env.groups[step.group]:
            self.env.deliver(step.origin, step.sequence, step.payload)

    def number_of(self, step):
        return step.view


class TakesOldMessages(Synchronous):
    def is_timely(self, message):
        return True


class InstallsAtOnce(Synchronous):
    """A view does not wait for the messages before it."""

    def on_message(self, sender, message, expensive):
        if isinstance(message, Step) and message.members and self.env.host == "h3":
            self.take(message)
            self.waiting[message.number] = Step(message.group, message.origin, 0, message.number, 0, ("nobody",), b"")
            return
        super().on_message(sender, message, expensive)

    def take(self, step):
        if step.members != ("nobody",):
            super().take(step)


class InstallsLate(Synchronous):
    """One host puts a view off until the first message after it."""

    late = None

    def take(self, step):
        if self.env.host == "h2" and step.members:
            self.late = step
            return
        super().take(step)
        if self.late:
            super().take(self.late)
            self.late = None


class InstallsWhatItAsksFor(Synchronous):
    """A host that leaves or joins counts itself out or in, and numbers the view, before anybody has agreed."""

    def on_join(self, group):
        self.view += 1
        self.env.install(group, (*self.env.groups[group], self.env.host), self.view)
        super().on_join(group)


class ForgetsWhatWaits(Synchronous):
    """One host takes the messages that a view finds waiting for lost."""

    def take(self, step):
        if self.env.host == "h3" and not step.members and any(later.members for later in self.waiting.values()):
            return
        super().take(step)


class DeliversOnlyItsOwnBeforeAView(Synchronous):
    def take(self, step):
        if self.env.host == "h3" and self.view == 0 and not step.members and step.origin != "h3":
            return
        super().take(step)


class IgnoresRequests(Synchronous):
    def change(self, group, host, joins):
        pass


class TellsOnlyTheOneThatAsked(Synchronous):
    def take(self, step):
        if not step.members or self.env.host in {"h1", step.members[-1]}:
            super().take(step)


class ForgetsToCountOut(Synchronous):
    def change(self, group, host, joins):
        super().change(group, host if joins else "h9", joins)


class NumbersViewsByItself(Synchronous):
    def number_of(self, step):
        return step.view + (self.env.host == "h3")


# Progress in the last view


class Meeting(Small):
    """A while after its start the first host tells all that they are the members of view 1. Messages are sent once to all of them."""

    messages = (Sent, Step)

    def on_start(self, stored):
        if self.env.host == self.env.hosts[0]:
            self.env.set_timer("meet", 1.5)

    def on_timer(self, name):
        step = Step(0, self.env.host, 0, 1, 1, self.env.hosts, b"")
        self.to_all(step)
        self.on_message(self.env.host, step, False)

    def on_broadcast(self, sequence, payload):
        sent = Sent(0, self.env.host, sequence, 0, payload)
        self.to_all(sent)
        self.on_message(self.env.host, sent, False)

    def on_message(self, sender, message, expensive):
        if isinstance(message, Step):
            self.env.install(0, self.members_of(message), self.number_of(message))
        else:
            self.env.deliver(message.origin, message.sequence, message.payload)

    def members_of(self, step):
        return step.members

    def number_of(self, step):
        return step.view


class NeverMeets(Meeting):
    def on_timer(self, name):
        pass


class LeavesTheLastOut(Meeting):
    def members_of(self, step):
        return step.members[:-1]


class NumbersItsOwnView(Meeting):
    def number_of(self, step):
        return step.view + (self.env.host == "h3")


class SendsOnlyBeforeTheView(Meeting):
    """The last host takes no messages any more once it has a view."""

    meets = False

    def on_message(self, sender, message, expensive):
        self.meets = self.meets or isinstance(message, Step)
        if isinstance(message, Step) or not self.meets or self.env.host != "h3":
            super().on_message(sender, message, expensive)


class KeepsNothingForItself(Meeting):
    """Before it has a view, a host does not deliver its own messages."""

    def on_broadcast(self, sequence, payload):
        self.to_all(Sent(0, self.env.host, sequence, 0, payload))


# Safe delivery


class Note(Message, frozen=True):
    """Somebody has a message, or all have it."""

    all_have: bool


class Safe(Small):
    """A host delivers a message of another when the origin knows that all destinations have it, and says so."""

    messages = (Copy, Note)

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.payloads, self.acknowledged = {}, {}

    def on_multicast(self, to, sequence, payload):
        self.env.receive(self.env.host, sequence)
        self.payloads[self.env.host, sequence] = payload
        self.acknowledged[sequence] = {host: None for host in to.hosts if host != self.env.host}
        self.env.multicast_to(to, Copy(to.group, self.env.host, sequence, payload), Purpose.DATA)

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.has(message)
        elif message.all_have:
            self.hand_up(message.origin, message.sequence)
        else:
            self.count(sender, message)

    def has(self, message):
        self.payloads[message.origin, message.sequence] = message.payload
        self.env.receive(message.origin, message.sequence)
        self.env.send(message.origin, Note(message.group, message.origin, message.sequence, False), Purpose.CONTROL)

    def count(self, sender, message):
        self.acknowledged[message.sequence].pop(sender, None)
        if self.is_enough(self.acknowledged[message.sequence]):
            self.hand_up(message.origin, message.sequence)
            self.env.multicast(message.group, Note(message.group, message.origin, message.sequence, True), Purpose.CONTROL)

    def is_enough(self, missing):
        return not missing

    def hand_up(self, origin, sequence):
        if (origin, sequence) in self.payloads and self.is_new(origin, sequence):
            self.env.deliver(origin, sequence, self.payloads[origin, sequence])


class DeliversOnReceipt(Safe):
    def has(self, message):
        super().has(message)
        self.hand_up(message.origin, message.sequence)


class OneMissingIsEnough(Safe):
    def is_enough(self, missing):
        return len(missing) <= 1


class OriginDoesNotWait(Safe):
    def on_multicast(self, to, sequence, payload):
        super().on_multicast(to, sequence, payload)
        self.hand_up(self.env.host, sequence)


class AcknowledgesFirst(Safe):
    """One host acknowledges a message half a second before it has it."""

    def has(self, message):
        if self.env.host == "h3" and not self.payloads:
            self.payloads[message.origin, message.sequence] = message.payload
            self.env.send(message.origin, Note(message.group, message.origin, message.sequence, False), Purpose.CONTROL)
            self.env.set_timer("late", 0.5)
            self.late = message
        else:
            super().has(message)

    def on_timer(self, name):
        self.env.receive(self.late.origin, self.late.sequence)


class CommitsWhatIsSafe(Safe):
    """It delivers at once, and commits where `Safe` delivers."""

    def has(self, message):
        super().has(message)
        self.env.deliver(message.origin, message.sequence, message.payload)

    def hand_up(self, origin, sequence):
        if self.is_new(origin, sequence):
            self.env.commit(origin, sequence)


class CommitsAfterOne(CommitsWhatIsSafe):
    def is_enough(self, missing):
        return len(missing) <= 1


# Genuineness


class SendsToAll(Small):
    def on_multicast(self, to, sequence, payload):
        super().on_multicast(to, sequence, payload)
        self.to_all(Copy(to.group, self.env.host, sequence, payload))


class GoesOverTheFirstHost(Small):
    """As a sequencer that serves all groups."""

    messages = (Copy,)

    def on_multicast(self, to, sequence, payload):
        self.env.send("h1", Copy(to.group, self.env.host, sequence, payload), Purpose.DATA)

    def on_message(self, sender, message, expensive):
        if self.env.host == "h1":
            self.env.multicast(message.group, message, Purpose.DATA)
        else:
            self.env.deliver(message.origin, message.sequence, message.payload)


class TellsAllThatItHasIt(Safe):
    def has(self, message):
        super().has(message)
        self.to_all(Note(message.group, message.origin, message.sequence, False))

    def count(self, sender, message):
        if message.sequence in self.acknowledged:
            super().count(sender, message)


# A token


class Token(Message, frozen=True):
    generation: int
    turn: int


class Ring(Small):
    """The token goes round; who holds it broadcasts what waits, and hands it on a tenth of a second later."""

    messages = (Token, Copy)
    token_kind = 0

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.queue, self.turn = [], 0

    def on_start(self, stored):
        if self.env.host == "h1":
            self.hold(Token(0, "h1", 0, 1, 1))

    @property
    def successor(self):
        return self.env.hosts[(self.env.hosts.index(self.env.host) + 1) % len(self.env.hosts)]

    def on_broadcast(self, sequence, payload):
        self.queue.append((sequence, payload))

    def on_multicast(self, to, sequence, payload):
        self.on_broadcast(sequence, payload)

    def hold(self, token):
        self.turn, self.token = token.turn, token
        self.env.trace("token", generation=token.generation, held=True)
        for sequence, payload in self.queue:
            self.to_all(Copy(0, self.env.host, sequence, payload))
            self.env.deliver(self.env.host, sequence, payload)
        self.queue.clear()
        self.env.set_timer("on", 0.1)

    def on_timer(self, name):
        self.log_that_it_goes()
        self.env.send(self.successor, Token(0, self.env.host, 0, self.token.generation, self.token.turn + 1), Purpose.CONTROL)

    def log_that_it_goes(self):
        self.env.trace("token", generation=self.token.generation, held=False)

    def is_old(self, token):
        return token.turn <= self.turn

    def on_message(self, sender, message, expensive):
        if isinstance(message, Copy):
            self.env.deliver(message.origin, message.sequence, message.payload)
        elif not self.is_old(message):
            self.hold(message)


class TakesATokenTwice(Ring):
    def is_old(self, token):
        return False


class KeepsTheToken(Ring):
    def log_that_it_goes(self):
        pass


class MakesASecondToken(Ring):
    """The last host takes a token that is late for lost, and does not count the generation on."""

    def on_start(self, stored):
        super().on_start(stored)
        if self.env.host == "h3":
            self.env.set_timer("lost", 0.15)

    def on_timer(self, name):
        if name == "lost":
            self.hold(Token(0, "h3", 0, 1, 3))
        else:
            super().on_timer(name)


class ForgesAToken(Ring):
    def on_broadcast(self, sequence, payload):
        super().on_broadcast(sequence, payload)
        self.env.send(self.successor, Token(0, self.env.host, 0, 2, 1000), Purpose.CONTROL)
