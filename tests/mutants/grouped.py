"""Protocols that know groups with one thing broken about groups, one class a mistake."""

from hostagent.contract.messages import EVERYBODY, LISTED, Destination, host_set
from hostagent.parts.links import Links
from hostagent.protocols.basic import Basic
from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.uniform import Uniform


class SendsToNonMembers(Basic):
    def on_multicast(self, to, sequence, payload):  # noqa: ARG002 - what it breaks has it
        super().on_multicast(Destination(EVERYBODY, self.env.hosts), sequence, payload)


class DeliversItsOwnAsANonMember(Basic):
    def on_multicast(self, to, sequence, payload):
        self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        super().on_multicast(to, sequence, payload)


class ForgetsAMember(BestEffort):
    def on_multicast(self, to, sequence, payload):
        fewer = to.hosts if to.group == EVERYBODY else to.hosts[:-1]
        super().on_multicast(to._replace(hosts=fewer), sequence, payload)


class RelaysToEverybody(EagerReliable):
    def _take(self, origin, sequence, payload, to):  # noqa: ARG002 - what it breaks has it
        super()._take(origin, sequence, payload, Destination(EVERYBODY, self.env.hosts))


class RelaysToAnotherGroup(EagerReliable):
    def _take(self, origin, sequence, payload, to):
        if origin != self.env.host and to.group not in {EVERYBODY, LISTED}:
            wrong = to.group % (len(self.env.groups) - 1) + 1
            to = Destination(wrong, self.env.groups[wrong])
        super()._take(origin, sequence, payload, to)


class RelaysOutsideTheGroup(LazyReliable):
    def _relay(self, letter):
        self.links.send(letter.origin, letter.sequence, letter.payload, to=Destination(EVERYBODY, self.env.hosts))


class WaitsForEverybody(Uniform):
    def _can_deliver(self, acks, hosts):  # noqa: ARG002 - what it breaks has it
        return super()._can_deliver(acks, self.env.hosts)


class WaitsForTheFirstMembers(Uniform):
    def _can_deliver(self, acks, hosts):
        return super()._can_deliver(acks, hosts[:2])


class ForgetsGroupsAtRestart(Links):
    def on_start(self, stored):
        letters = {key: value for key, value in stored.items() if key.startswith("letter/")}
        everybody = {key: [*value[:3], EVERYBODY, host_set(self.env.hosts, self.env.hosts), 0] for key, value in letters.items()}
        super().on_start({**stored, **everybody})
