"""Lazy reliable and uniform broadcast with one thing broken, one class a mistake; what their detector gets wrong is in `parts`."""

from hostagent.protocols.uniform import Uniform


class ByMajority(Uniform):
    """A message is delivered when more than half of the hosts have it."""

    def _deliver_if_all_have_it(self, message):
        if message in self.pending and 2 * len(self.acks[message]) > len(self.env.hosts):
            for host in self.env.hosts:
                self._note(host, message)
            super()._deliver_if_all_have_it(message)
