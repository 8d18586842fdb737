"""How hosts of the frugal exchange find their cluster, and come to know who is with whom in the others.

Sets of hosts travel and are kept as numbers in which bit i is host i of the list.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostagent.contract.messages import Message
from hostagent.protocols.cluster_tree.messages import Hello
from hostagent.protocols.cluster_tree.tree import numbers_of

if TYPE_CHECKING:
    from hostagent.protocols.cluster_tree.core import ClusterTree

# Greetings in a period of `ein_ms` to a host that a mate says is in the cluster and that is not known to be.
MOST_GREETINGS = 2


class Acquaintance:
    """Whom a host knows, and what it said to whom."""

    def __init__(self, core: "ClusterTree") -> None:
        self._core = core
        self._env = core.env
        self._numbers = numbers_of(core.env.hosts)
        self.everybody = (1 << len(core.env.hosts)) - 1
        self.cluster_of: dict[str, int] = {}
        """For hosts outside, the hosts of their cluster as they said."""
        self.met: dict[str, None] = {}
        """Hosts outside that told of their cluster."""
        self._introduced: dict[str, None] = {}
        """Hosts outside that were told of this host's cluster."""
        self._mates: dict[str, None] = {}
        """Hosts of the cluster that know that this host is one."""
        self._greeted: dict[str, int] = {}
        """Hosts that mates call members and this host does not, and how often they were greeted in this period."""
        self._answered_s: dict[tuple[str, str], float] = {}

    def hello(self, *, mate: bool) -> Message:
        """What a host is told of this cluster."""
        return Hello(0, self._env.host, 0, self.to_bytes(self.mask(self._core.cluster)), mate, self._core.stamp_s())

    def say_hello(self, host: str) -> None:
        """Tell a host outside of this cluster."""
        self._introduced.setdefault(host)
        self._core.tell((host,), self.hello(mate=False))

    def greet_again(self) -> None:
        """Say hello to those who have not answered yet."""
        self._greet(host for host, times in self._greeted.items() if times < MOST_GREETINGS)

    def begin_period(self) -> None:
        """Who was greeted in vain may be greeted again."""
        self._greeted.clear()

    def _greet(self, hosts: Iterable[str]) -> None:
        """Say hello to hosts that mates say are in the cluster."""
        for host in list(hosts):
            self._greeted[host] = self._greeted.get(host, 0) + 1
            self._core.tell((host,), self.hello(mate=True))

    def on_hello(self, sender: str, hello: Hello) -> None:
        """Learn who is in a cluster with whom."""
        members = int.from_bytes(hello.members)
        if sender in self._core.cluster:
            self._greeted.pop(sender, None)
            self.cluster_of.pop(sender, None)
            if sender not in self._mates:
                self._mates.setdefault(sender)
                self._core.tell((sender,), self.hello(mate=True))
            unknown = self.hosts(members & ~self.mask(self._core.cluster))
            self._greet(host for host in unknown if host not in self._greeted)
            return
        self._mates.pop(sender, None)
        self.met.setdefault(sender)
        for host in self.hosts(members):
            self.cluster_of[host] = members
        if sender not in self._introduced or (hello.mate and self.may_answer("", sender)):
            self.say_hello(sender)

    def may_answer(self, source: str, host: str) -> bool:
        """Whether a host was not answered just now: two hosts that lack something of each other must not keep telling each other so."""
        now_s = self._env.now()
        answered_s = self._answered_s.get((source, host))
        if answered_s is not None and 0 <= now_s - answered_s < self._core.again_s():
            return False
        self._answered_s[source, host] = now_s
        return True

    def name_of_cluster(self, host: str) -> str:
        """One host to stand for all of its cluster, as far as that is known."""
        members = self.cluster_of.get(host)
        return next(self.hosts(members)) if members else host

    def distance(self, host: str) -> int:
        """How far away a host is in the list."""
        return abs(self._numbers[host] - self._numbers[self._env.host])

    def beside(self) -> tuple[str, ...]:
        """The neighbours in the list, and this host."""
        here = self._numbers[self._env.host]
        return self._env.hosts[max(0, here - 1) : here + 2]

    def bit(self, host: str) -> int:
        """The set of one host."""
        return 1 << self._numbers[host]

    def mask(self, hosts: Iterable[str]) -> int:
        """A set of hosts."""
        return sum(map(self.bit, hosts))

    def hosts(self, mask: int) -> Iterator[str]:
        """The hosts of a set, in the order of the list. It takes as long as there are hosts in it, and not as in the network."""
        while mask:
            lowest = mask & -mask
            yield self._env.hosts[lowest.bit_length() - 1]
            mask ^= lowest

    def to_bytes(self, mask: int) -> bytes:
        """A set of hosts as it travels."""
        return mask.to_bytes((len(self._env.hosts) + 7) // 8)
