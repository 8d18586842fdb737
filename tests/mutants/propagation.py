"""The propagation graph with one thing broken: the core, its edges, or how items are put into order."""

from hostagent.contract.messages import Purpose
from hostagent.parts.in_order import InOrder, Null, Request
from hostagent.parts.streams import Have
from hostagent.protocols.propagation_graph.items import Edges, Relay, Submission
from hostagent.protocols.propagation_graph.protocol import PropagationGraph


class SkipsItsLastChild(PropagationGraph):
    def _enter(self):
        super()._enter()
        self._place.below = dict(list(self._place.below.items())[:-1])


class DeliversItsOwnAtOnce(PropagationGraph):
    def on_multicast(self, to, sequence, payload):
        if self.env.host in to.hosts:
            self.env.deliver(self.env.host, sequence, payload)
        super().on_multicast(to, sequence, payload)

    def _pass_on(self, item):
        if item.origin != self.env.host:
            super()._pass_on(item)
            return
        for child, below in self._place.below.items():
            if not below.isdisjoint(self._hosts(item)):
                self._edges.send(child, item)


class SendsFromTheSource(PropagationGraph):
    """Each source is the root of a tree of its own."""

    def on_multicast(self, to, sequence, payload):
        item = Relay(to.group, self.env.host, sequence, 0, self._graph, self._graph, payload)
        for host in to.others(self.env.host):
            self._edges.send(host, item)
        if self.env.host in to.hosts:
            self.env.deliver(self.env.host, sequence, payload)

    def _pass_on(self, item):
        self.env.deliver(item.origin, item.sequence, item.payload)


class DeliversAtExtraHosts(PropagationGraph):
    def _pass_on(self, item):
        super()._pass_on(item)
        if self.env.host not in self._hosts(item):
            self.env.deliver(item.origin, item.sequence, item.payload)


class SendsToAnyMember(PropagationGraph):
    def _take(self, item: Submission):
        self._pass_on(Relay(item.group, item.origin, item.sequence, 0, self._graph, item.view, item.payload, item.listed))

    def _submit(self, route, submission):
        route.primary = self._hosts(submission)[0]
        super()._submit(route, submission)


class ForgetsItemsAtRestart(Edges):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("item/")})


class NumbersAnewAtRestart(Edges):
    def on_start(self, stored):
        super().on_start(stored)
        self._sent = dict.fromkeys(self._sent, 0)


class SendsNoNullMessages(Edges):
    def on_timer(self, name):
        pass


class AnswersNoRequests(Edges):
    def on_message(self, sender, message, expensive):
        if not isinstance(message, Request):
            super().on_message(sender, message, expensive)


class NeverForgetsItems(Edges):
    def _forget_up_to(self, to, number):
        pass


class SaysThatAllHasArrived(Edges):
    def on_message(self, sender, message, expensive):
        if isinstance(message, Null):
            self.env.send(sender, Have(0, sender, message.sequence), Purpose.CONTROL)
        else:
            super().on_message(sender, message, expensive)


class HandsOnWhatComes(InOrder):
    def take(self, sender, number, item):
        if not self.has(sender, number):
            self.keep(sender, number, None)
            self._on_item(sender, number, item)
            while self.last(sender) + 1 in self._waiting.get(sender, {}):
                del self._waiting[sender][self.last(sender) + 1]
                self._last[sender] = self.last(sender) + 1
                self.env.store(sender, self._last[sender])


class ForgetsWhatArrivedAtRestart(InOrder):
    def on_start(self, stored):
        pass


def in_order(broken):
    """The protocol with items put into order by another class."""

    class Broken(PropagationGraph):
        def __init__(self, env, parameters):
            super().__init__(env, parameters)
            self._edges._received.__class__ = broken

    Broken.__name__ = broken.__name__
    return Broken
