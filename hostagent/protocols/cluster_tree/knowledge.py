"""Which hosts are in this host's cluster, known by the cost bit, by transit times, from a list, or not at all.

`members` always holds the host itself. `heard` is called for every message that arrives.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message
from hostagent.protocols.cluster_tree.messages import Hello, Info
from hostagent.protocols.cluster_tree.parameters import ClusterTreeParameters

# Number of last transit times from a host, of which the shortest counts: queues only add to it.
SAMPLES = 8
# A gap of this ratio between sorted transit times separates two populations: times over cheap links differ by less.
GAP = 2.5
# Smaller differences are noise of the machine.
NOISE_S = 0.0002

STAMPED = (Info, Hello)
"""The messages that carry the sender's clock."""


class Clusters:
    """No knowledge: every host is a cluster of its own. The subclasses know more."""

    def __init__(self, env: Environment, parameters: ClusterTreeParameters) -> None:
        self.members: dict[str, None] = {env.host: None}
        self._env = env
        self._parameters = parameters

    def heard(self, sender: str, message: Message, *, expensive: bool) -> None:
        """A message came from `sender`, with this cost bit, and perhaps with the sender's clock."""

    def _put(self, host: str, *, inside: bool) -> None:
        if inside:
            self.members.setdefault(host)
        else:
            self.members.pop(host, None)


class ByCostBit(Clusters):
    """UPDATE-CLUSTER: a host whose message crossed no expensive link is in the cluster."""

    def heard(self, sender: str, message: Message, *, expensive: bool) -> None:  # noqa: ARG002 - the bit says it all
        """Believe the bit."""
        if (sender in self.members) == expensive:
            self._put(sender, inside=not expensive)


class ByList(Clusters):
    """A list that never changes."""

    def __init__(self, env: Environment, parameters: ClusterTreeParameters) -> None:
        super().__init__(env, parameters)
        for cluster in parameters.static_clusters:
            if env.host in cluster:
                self.members.update(dict.fromkeys(cluster))


class ByTransitTime(Clusters):
    """Two populations of transit times: those inside the cluster are all similarly short, and there is a gap to the others.

    The shortest of the last transit times from each host is kept, and the widest gap between neighbours in the sorted list, as a ratio,
    divides them. Without a gap of at least `GAP` there is only one population, and every host counts as outside: that costs packets and
    loses nothing. Clocks that differ by more than a transit time cause wrong results. How often these differ from the cost bit is traced as
    event `transit-times`, with the messages `judged` and those judged `wrongly`.
    """

    def __init__(self, env: Environment, parameters: ClusterTreeParameters) -> None:
        super().__init__(env, parameters)
        self._transits: dict[str, deque[float]] = {}
        self._judged = self._wrongly = 0
        self._told = 0

    def heard(self, sender: str, message: Message, *, expensive: bool) -> None:
        """Sort the sender into one of the populations, and count whether the bit says the same."""
        if isinstance(message, STAMPED):
            self._transits.setdefault(sender, deque(maxlen=SAMPLES)).append(self._env.now() - message.stamp_s)
            self._divide()
        self._judged += 1
        self._wrongly += (sender in self.members) == expensive
        if self._judged >= 2 * self._told:
            self._told = self._judged
            self._env.trace("transit-times", judged=self._judged, wrongly=self._wrongly)

    def _divide(self) -> None:
        shortest = {host: max(min(samples), NOISE_S) for host, samples in self._transits.items()}
        bound_s = _widest_gap(sorted(shortest.values()))
        for host, transit_s in shortest.items():
            self._put(host, inside=transit_s < bound_s)


def _widest_gap(values: Sequence[float]) -> float:
    """The upper end of the widest gap between sorted values, or 0 if none is wide enough."""
    ratio, upper = max(((above / below, above) for below, above in pairwise(values)), default=(0.0, 0.0))
    return upper if ratio >= GAP else 0.0


KNOWLEDGE: dict[str, Callable[[Environment, ClusterTreeParameters], Clusters]] = {
    "cost-bit": ByCostBit,
    "time-stamps": ByTransitTime,
    "static": ByList,
    "none": Clusters,
}
"""By the value of `clusters_from`."""
