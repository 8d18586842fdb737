"""A small complete protocol with membership, and a protocol that marks all that happens to a message; run as the launcher is.

In `managed` the first host is the manager. Hosts send it their joins and leaves over perfect links. It puts them in order, numbers the
views of each group from 1, and sends each view to all hosts, which install the views of a group one after another.
"""

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.messages import LISTED, Destination, Purpose
from hostagent.contract.promises import Guarantee, Promise
from hostagent.parts.delivery import Copy
from hostagent.parts.links import LinkParameters, Links
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.launcher import main

SAFE = (Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION)


class Managed(Core):
    """Every member gets each message of its group once; membership is in the hands of one host."""

    name = "managed"
    number = 230
    summary = "for tests"
    assumes = "the manager is up"
    beyond = frozenset({"restart-lost"})
    knows_groups = knows_membership = True
    messages = Links.messages
    Parameters = LinkParameters

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))
        self.manager = env.hosts[0]
        self.views = {}
        self.waiting = {}

    @classmethod
    def promise(cls, parameters, hosts):
        return Promise(guarantees=(*SAFE, Guarantee.VALIDITY), patience_ms=parameters.patience_ms(), retained=10 * hosts)

    def on_start(self, stored):
        for key, (view, members) in stored.items():
            self.install(int(key), view, members)

    def on_multicast(self, to, sequence, payload):
        if self.env.host in to.hosts:
            self.env.deliver(self.env.host, sequence, payload)
        self.links.send(self.env.host, sequence, msgspec.msgpack.encode(["message", payload]), to=to)

    def on_join(self, group):
        self.ask("join", group)

    def on_leave(self, group):
        self.ask("leave", group)

    def ask(self, what, group):
        if self.env.host == self.manager:
            self.decide(self.env.host, what, group)
        else:
            self.tell((self.manager,), what, group)

    def tell(self, hosts, *words):
        self.links.send(self.env.host, 0, msgspec.msgpack.encode(words), to=Destination(LISTED, hosts))

    def decide(self, host, what, group):
        """Make the next view of a group; the manager only."""
        members = {host} | {*self.env.groups[group]} if what == "join" else {*self.env.groups[group]} - {host}
        if members == {*self.env.groups[group]} or not members:
            return
        view = self.views.get(group, 0) + 1
        self.tell(self.env.hosts, "view", group, view, sorted(members))
        self.install(group, view, members)

    def on_letter(self, sender, letter):
        match msgspec.msgpack.decode(letter.payload):
            case ["message", payload]:
                self.env.deliver(letter.origin, letter.sequence, payload)
            case ["view", group, view, members]:
                self.waiting[group, view] = members
                while (group, next_view := self.views.get(group, 0) + 1) in self.waiting:
                    self.install(group, next_view, self.waiting.pop((group, next_view)))
            case [what, group]:
                self.decide(sender, what, group)

    def install(self, group, view, members):
        self.views[group] = view
        self.env.store(str(group), (view, sorted(members)))
        self.env.install(group, members, view)


class Marking(Core):
    """Sends each message to its group, marks all that happens to it, and then passes a token with it to the next member."""

    name = "marking"
    number = 231
    summary = "for tests"
    assumes = "nothing is lost"
    knows_groups = True
    messages = (Copy,)

    @classmethod
    def promise(cls, parameters, hosts):  # noqa: ARG003 - a core has it so
        return Promise(guarantees=SAFE, patience_ms=0.0, retained=0)

    def on_multicast(self, to, sequence, payload):
        assert to.group != LISTED
        self.env.trace("token", (self.env.host, sequence), group=to.group)
        self.env.multicast(to.group, Copy(to.group, self.env.host, sequence, payload), Purpose.DATA)

    def on_message(self, sender, message, expensive):  # noqa: ARG002 - a core has it so
        about = message.origin, message.sequence
        self.env.receive(*about)
        self.env.deliver(*about, message.payload)
        self.env.take_back(*about)
        self.env.deliver(*about, message.payload)
        # Who is the last member has the token, and commits.
        if self.env.host == self.env.groups[message.group][-1]:
            self.env.trace("token", about, group=message.group)
        self.env.commit(*about)


if __name__ == "__main__":
    PROTOCOLS.update({core.name: core for core in (Managed, Marking)})
    main()
