"""Parts of protocols with one thing broken, one class a mistake, and how a protocol is given one of them."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from operator import attrgetter

from hostagent.contract.messages import LISTED, Destination
from hostagent.parts.detector import Detector
from hostagent.parts.links import Acknowledgement, Links


def with_part(core, part, broken):
    """The core with one of its parts, such as `links` or `ring.reformation`, of another class."""

    def make(self, env, parameters):
        core.__init__(self, env, parameters)
        attrgetter(part)(self).__class__ = broken

    return type(broken.__name__, (core,), {"__init__": make, "__doc__": broken.__doc__})


# Failure detectors


class NeverSuspects(Detector):
    def on_timer(self, name):
        self._silent_periods = dict.fromkeys(self.env.peers, 0)
        super().on_timer(name)


class NeverTrustsAgain(Detector):
    def heard(self, host):
        if host not in self.suspected:
            super().heard(host)


class SuspectsEverybody(Detector):
    def heard(self, host):
        pass


# Links


class RepeatsNothing(Links):
    def on_timer(self, name):
        pass


class RepeatsThreeTimes(Links):
    repeated = 0

    def on_timer(self, name):
        self.repeated += 1
        if self.repeated <= 3:
            super().on_timer(name)


class TakesOneAcknowledgementForAll(Links):
    def acknowledged(self, peer, message):
        for other in self.env.peers:
            super().acknowledged(other, message)


class IgnoresAcknowledgements(Links):
    def acknowledged(self, peer, message):
        pass


class ForgetsLettersAtRestart(Links):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("letter/")})


class NumbersAnewAtRestart(Links):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if key != "sent"})


class SaysThatAllHasArrived(Links):
    @property
    def floor(self):
        return self._sent + 1

    def send(self, origin, sequence, payload, **options):
        kept, self._letters = self._letters, {}
        super().send(origin, sequence, payload, **options)
        self._letters = kept | self._letters


class SkipsTheLastHost(Links):
    def send(self, origin, sequence, payload, **options):
        to = options["to"]
        fewer = tuple(host for host in to.hosts if host != self.env.peers[-1])
        super().send(origin, sequence, payload, **options | {"to": Destination(LISTED, fewer)})


class KeepsEveryLetter(Links):
    def _forget_if_acknowledged(self, number):
        pass


class ReceivesEveryCopy(Links):
    def receive(self, sender, letter):
        super().receive(sender, letter)
        return True


class AcknowledgesAnotherLetter(Links):
    def receive(self, sender, letter):
        self.env.send = lambda to, message, purpose, send=self.env.send: send(to, _next(message), purpose)
        try:
            return super().receive(sender, letter)
        finally:
            del self.env.send


def _next(message):
    return Acknowledgement(0, message.origin, message.sequence, message.number + 1)
