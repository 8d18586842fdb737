"""Best-effort and eager reliable broadcast with one thing broken, one class a mistake; what their links get wrong is in `parts`."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import LISTED, Destination
from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.eager_reliable import EagerReliable


class DeliversEachLetterTwice(BestEffort):
    def on_letter(self, sender, letter):
        super().on_letter(sender, letter)
        self.env.deliver(letter.origin, letter.sequence, letter.payload)


class DeliversTheNextMessage(BestEffort):
    def on_letter(self, sender, letter):
        self.delivery.deliver(letter.origin, letter.sequence + 1, letter.payload)


class SourceDoesNotDeliver(BestEffort):
    def on_multicast(self, to, sequence, payload):
        self.links.send(self.env.host, sequence, payload, to=to)


class DeliversWithoutLooking(BestEffort):
    def on_letter(self, sender, letter):
        self.env.deliver(letter.origin, letter.sequence, letter.payload)


class RelaysNothing(EagerReliable):
    def on_letter(self, sender, letter):
        self.delivery.deliver(letter.origin, letter.sequence, letter.payload, letter.group, letter.nth)


class RelaysTheFirstMessageOnly(EagerReliable):
    def on_letter(self, sender, letter):
        if letter.sequence == 1:
            super().on_letter(sender, letter)
        else:
            self.delivery.deliver(letter.origin, letter.sequence, letter.payload, letter.group, letter.nth)


class RelaysToTheOrigin(EagerReliable):
    def _take(self, origin, sequence, payload, to):
        if origin == self.env.host:
            super()._take(origin, sequence, payload, to)
        elif not self.delivery.is_delivered(origin, sequence, to.group, to.nth):
            self.delivery.deliver(origin, sequence, payload, to.group, to.nth)
            self.links.send(origin, sequence, payload, to=Destination(LISTED, (origin,)))


class RelaysToTheNextHost(EagerReliable):
    def _take(self, origin, sequence, payload, to):
        if origin == self.env.host:
            super()._take(origin, sequence, payload, to)
        elif not self.delivery.is_delivered(origin, sequence, to.group, to.nth):
            self.delivery.deliver(origin, sequence, payload, to.group, to.nth)
            self.links.send(origin, sequence, payload, to=Destination(LISTED, self.env.peers[:1]))


class RelaysWithoutDelivering(EagerReliable):
    def on_letter(self, sender, letter):
        if sender == letter.origin:
            super().on_letter(sender, letter)


class DeliversEveryCopy(EagerReliable):
    def _take(self, origin, sequence, payload, to):
        if self.delivery.is_delivered(origin, sequence, to.group, to.nth):
            self.env.deliver(origin, sequence, payload)
        super()._take(origin, sequence, payload, to)


class ForgetsItsDeliveriesAtRestart(EagerReliable):
    def on_start(self, stored):
        self.delivery._delivered._sets.clear()
        super().on_start(stored)
