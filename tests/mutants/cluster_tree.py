"""The cluster tree with one thing broken, one class a mistake, and what its exchanges get wrong."""
# ruff: noqa: ARG002 - a mutant has the signature of what it breaks

from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.cluster_tree.frugal import Frugal

# The tree, in both modes


class NeverBreaksCycles(ClusterTree):
    def _leader_above(self, tree):
        return super()._leader_above(tree) or ("" if self._outgrew(tree, tree.parent) else None)


class KeepsALeaderThatHasLess(ClusterTree):
    def _outgrew(self, tree, leader):
        return False


class NeverPrunes(ClusterTree):
    def prune(self, tree, everywhere):
        pass


class PrunesWhatItHas(ClusterTree):
    def prune(self, tree, everywhere):
        super().prune(tree, tree.info.prefix)


class NeverAttaches(ClusterTree):
    def new_parent(self, tree):
        self.set(tree, "NP1")


class FillsNoGaps(ClusterTree):
    def fill(self, tree, hosts):
        pass


class DeliversEveryCopy(ClusterTree):
    def _propagation(self, tree, sender, sequence, payload):
        if sequence in tree.info:
            self.env.deliver(tree.source, sequence, payload)
        super()._propagation(tree, sender, sequence, payload)


class ForgetsItsMessagesAtRestart(ClusterTree):
    def on_start(self, stored):
        super().on_start({key: value for key, value in stored.items() if not key.startswith("message/")})


class ForgetsItsDeliveriesAtRestart(ClusterTree):
    def on_start(self, stored):
        self.delivery._delivered._sets.clear()
        super().on_start(stored)


class IgnoresTheCostBit(ClusterTree):
    def on_message(self, sender, message, expensive):
        super().on_message(sender, message, expensive=True)


# What the frugal exchange gets wrong


class FillsNoGapsOfStrangers(Frugal):
    def _meet(self, tree, stranger, info):
        for number in tree.payloads:
            tree.sent_s.setdefault(number, {})[stranger] = self._env.now()
        super()._meet(tree, stranger, info)


class AsksForNoGaps(Frugal):
    def on_gap(self, tree):
        pass


class KeepsQuietChildren(Frugal):
    def _drop_quiet_children(self):
        pass


class NeverProbes(Frugal):
    def _probe(self):
        pass


class ProbesTheHostItMet(Frugal):
    def _target(self, led):
        target = super()._target(led)
        mates = self._known.hosts(self._known.cluster_of.get(target, 0))
        return next((host for host in mates if host in self._known.met), target)


class NeverMissesItsParent(Frugal):
    def parent_silent(self, tree):
        pass


class TellsItsClusterNothing(Frugal):
    def _tell_cluster(self):
        pass
