"""Lazy reliable and uniform broadcast with one thing broken, one class a mistake; what their links and detector get wrong is in `parts`."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.contract.messages import LISTED, Destination, host_set
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.uniform import Pending, Uniform

# Lazy reliable broadcast


class NeverRelays(LazyReliable):
    def _relay(self, letter):
        pass


class RelaysNothingOnSuspicion(LazyReliable):
    def on_suspect(self, host):
        pass


class KeepsNothing(LazyReliable):
    def on_letter(self, sender, letter):
        super().on_letter(sender, letter)
        self.kept.clear()


class KeepsOnlyInMemory(LazyReliable):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("kept/")})


class DropsWithEveryHeartbeat(LazyReliable):
    def _drop_below(self, sender, floor):
        super()._drop_below(sender, 2**62)


class NeverDrops(LazyReliable):
    def _drop_below(self, sender, floor):
        pass


class RelaysOnlyTheLastMessage(LazyReliable):
    def on_suspect(self, host):
        self.kept[host] = dict(list(self.kept.get(host, {}).items())[-1:])
        super().on_suspect(host)


class DoesNotRelayWhatComesLate(LazyReliable):
    """What arrives from a host that is already suspected is kept, and nobody suspects that host once more."""

    def on_letter(self, sender, letter):
        suspected, self.detector.suspected = self.detector.suspected, {}
        super().on_letter(sender, letter)
        self.detector.suspected = suspected


class DeliversAgainAfterRestart(LazyReliable):
    def on_start(self, stored):
        self.delivery._delivered._sets.clear()
        self.links._received._sets.clear()
        super().on_start(stored)


# Uniform broadcast


class ByMajority(Uniform):
    def _can_deliver(self, acks, hosts):
        return 2 * len(acks) > len(hosts)


class ByMajorityOfTheTrusted(Uniform):
    def _can_deliver(self, acks, hosts):
        trusted = [host for host in hosts if host not in self.detector.suspected]
        return 2 * sum(host in acks for host in trusted) > len(trusted)


class AtOnce(Uniform):
    def _can_deliver(self, acks, hosts):
        return True


class AfterOneAcknowledgement(Uniform):
    def _can_deliver(self, acks, hosts):
        return len(acks) > 1


class AsBestEffort(Uniform):
    def on_multicast(self, to, sequence, payload):
        if self.env.host in to.hosts:
            self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        self.links.send(self.env.host, sequence, payload, to=to)

    def on_letter(self, sender, letter):
        self.delivery.deliver(letter.origin, letter.sequence, letter.payload, letter.group, letter.nth)


class IgnoresSuspicion(Uniform):
    def _can_deliver(self, acks, hosts):
        return len(acks) == len(hosts)


class OriginDeliversAtOnce(Uniform):
    def on_multicast(self, to, sequence, payload):
        if self.env.host in to.hosts:
            self.delivery.deliver(self.env.host, sequence, payload, to.group, to.nth)
        super().on_multicast(to, sequence, payload)


class LooksAgainOnLettersOnly(Uniform):
    def on_suspect(self, host):
        pass


class ForgetsPendingAtRestart(Uniform):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith(("pending/", "ack/"))})


class ForgetsAcknowledgementsAtRestart(Uniform):
    def on_start(self, stored):
        super().on_start(stored)
        for acks in self.acks.values():
            acks.clear()


class NeverForgetsAcknowledgements(Uniform):
    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.archive = {}

    def _note(self, host, message):
        super()._note(host, message)
        self.archive[message, host] = None


class PassesNothingOn(Uniform):
    """Only the origin is told who has a message."""

    def _acknowledge(self, host, message, payload, to):
        origin, sequence = message
        if origin == self.env.host or message in self.pending:
            super()._acknowledge(host, message, payload, to)
            return
        self.pending[message] = Pending(payload, to)
        self.env.store(f"pending/{origin}/{sequence}", (payload, to.group, host_set(to.hosts, self.env.hosts), to.nth))
        self.links.send(origin, sequence, payload, to=Destination(LISTED, (origin,)))
        self._note(self.env.host, message)
        self._note(host, message)
        self._deliver_if_all_have_it(message)
