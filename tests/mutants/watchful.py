"""Lazy reliable and uniform broadcast with one thing broken, one class a mistake; what their detector gets wrong is in `parts`."""

from hostagent.protocols.uniform import Uniform


class ByMajority(Uniform):
    """A message is delivered when more than half of the hosts have it."""

    def _can_deliver(self, acks):
        return 2 * len(acks) > len(self.env.hosts)
