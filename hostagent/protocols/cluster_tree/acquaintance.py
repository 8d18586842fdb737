"""How hosts of the frugal exchange find their cluster, and learn which hosts form the other clusters.

A set of hosts is a number, in messages and in memory: bit i stands for host i of the list.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostagent.contract.messages import Message
from hostagent.protocols.cluster_tree.messages import Hello
from hostagent.protocols.cluster_tree.tree import numbers_of

if TYPE_CHECKING:
    from hostagent.protocols.cluster_tree.core import ClusterTree

# Greetings in a period of `ein_ms` to a host that only a mate says is in the cluster.
MOST_GREETINGS = 2


class Acquaintance:
    """Which hosts a host knows, and which it has told of its cluster."""

    def __init__(self, core: "ClusterTree") -> None:
        self._core = core
        self._env = core.env
        self._numbers = numbers_of(core.env.hosts)
        self.everybody = (1 << len(core.env.hosts)) - 1
        self.cluster_of: dict[str, int] = {}
        """For each host outside, the hosts that it says are in its cluster."""
        self.met: dict[str, None] = {}
        """Hosts outside that have told this host of their cluster."""
        self._introduced: dict[str, None] = {}
        """Hosts outside that this host has told of its cluster."""
        self._mates: dict[str, None] = {}
        """Hosts of the cluster that know that this host is in it."""
        self._greeted: dict[str, int] = {}
        """Hosts that only mates say are in the cluster, and how often this host greeted each in this period."""
        self._answered_s: dict[tuple[str, str], float] = {}

    def hello(self, *, mate: bool) -> Message:
        """The message that tells another host of this cluster."""
        return Hello(0, self._env.host, 0, self.to_bytes(self.mask(self._core.cluster)), mate, self._core.stamp_s())

    def say_hello(self, host: str) -> None:
        """Tell an outside host of this cluster."""
        self._introduced.setdefault(host)
        self._core.tell((host,), self.hello(mate=False))

    def wants_hello(self, host: str) -> bool:
        """Whether a probe of a host needs a hello. In a known cluster, a host never met before would only repeat who is in the cluster."""
        return host in self.met or host not in self.cluster_of

    def greet_again(self) -> None:
        """Say hello to the hosts that have not answered yet."""
        self._greet(host for host, times in self._greeted.items() if times < MOST_GREETINGS)

    def begin_period(self) -> None:
        """Hosts that were greeted in vain may be greeted again."""
        self._greeted.clear()

    def _greet(self, hosts: Iterable[str]) -> None:
        """Say hello to hosts that mates say are in the cluster."""
        for host in list(hosts):
            self._greeted[host] = self._greeted.get(host, 0) + 1
            self._core.tell((host,), self.hello(mate=True))

    def on_hello(self, sender: str, hello: Hello) -> None:
        """Learn which hosts are in the sender's cluster."""
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
        """Whether a host was not answered just now: two hosts that each lack messages of the other must not answer each other for ever."""
        now_s = self._env.now()
        answered_s = self._answered_s.get((source, host))
        if answered_s is not None and 0 <= now_s - answered_s < self._core.again_s():
            return False
        self._answered_s[source, host] = now_s
        return True

    def name_of_cluster(self, host: str) -> str:
        """One host that stands for all hosts of a host's cluster, as far as they are known."""
        members = self.cluster_of.get(host)
        return next(self.hosts(members)) if members else host

    def distance(self, host: str) -> int:
        """The distance between a host and this host in the list."""
        return abs(self._numbers[host] - self._numbers[self._env.host])

    def beside(self) -> tuple[str, ...]:
        """This host and its neighbours in the list."""
        here = self._numbers[self._env.host]
        return self._env.hosts[max(0, here - 1) : here + 2]

    def bit(self, host: str) -> int:
        """The set of one host."""
        return 1 << self._numbers[host]

    def mask(self, hosts: Iterable[str]) -> int:
        """A set of hosts."""
        return sum(map(self.bit, hosts))

    def hosts(self, mask: int) -> Iterator[str]:
        """The hosts of a set, in the order of the list. The time grows with the set, not with the network."""
        while mask:
            lowest = mask & -mask
            yield self._env.hosts[lowest.bit_length() - 1]
            mask ^= lowest

    def to_bytes(self, mask: int) -> bytes:
        """A set of hosts as it is sent."""
        return mask.to_bytes((len(self._env.hosts) + 7) // 8)
