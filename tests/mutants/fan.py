"""The fan with one thing broken."""

from hostagent.parts.in_order import InOrder
from hostagent.protocols.fan import Fan


class DeliversOutOfOrder(Fan):
    def _take(self, origin, number, payload):
        if not self.received.has(origin, number):
            self.received.keep(origin, number, payload)
            self.env.deliver(origin, number, payload)


class DeliversEveryCopy(Fan):
    def _take(self, origin, number, payload):
        if number <= self.received.last(origin):
            self.env.deliver(origin, number, payload)
        super()._take(origin, number, payload)


class ForgetsWhatItDelivered(InOrder):
    def on_start(self, stored):
        pass


class ForgetsItsMessagesAtRestart(Fan):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("message/")})


class GivesUpWhatItMissed(Fan):
    def on_start(self, stored):
        super().on_start(stored)
        self.awake = dict.fromkeys(self.env.peers) if "started" in stored else {}


class NeverAsks(InOrder):
    def _ask(self, sender, left):
        pass


class AsksForTheFirstOnly(InOrder):
    def _missing(self, sender):
        return super()._missing(sender)[:1] if self._heard.get(sender) == 1 else []


class AnswersNobody(Fan):
    def _send_again(self, to, request):
        pass


class SendsNoNullMessages(Fan):
    def _speak_later(self):
        pass


class SpeaksOnlyOnce(Fan):
    def on_timer(self, name):
        super().on_timer(name)
        if name == "silence":
            self.env.cancel_timer("silence")


class SkipsTheLastHost(Fan):
    def on_message(self, sender, message, expensive):
        if self.env.host != self.env.hosts[-1]:
            super().on_message(sender, message, expensive)
