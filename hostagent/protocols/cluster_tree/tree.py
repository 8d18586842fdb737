"""One source's instance of the cluster tree at one host: the state of the appendix."""

from collections.abc import Mapping
from functools import lru_cache

from hostagent.parts.sequences import SequenceSet


@lru_cache(maxsize=16)
def numbers_of(hosts: tuple[str, ...]) -> Mapping[str, int]:
    """The place of each host in the static order; one mapping for all simulated hosts of a network."""
    return {host: number for number, host in enumerate(hosts)}


class Tree:
    """INFO, MAP, the parent, the parents of others, the children, and the messages that are kept for others."""

    def __init__(self, source: str, hosts: tuple[str, ...], info: SequenceSet) -> None:
        self.source = source
        self.info = info
        self.map: dict[str, SequenceSet] = {}
        """The messages that each host is known to have; none for a host that was never heard of."""
        self.said: dict[str, tuple[int, float]] = {}
        """At the source: the highest number that each host has said it has, and when, in seconds."""
        self.lead: dict[str, int] = {}
        """How far each host was ahead of this one when its INFO arrived."""
        self.parent = ""
        self.heard_in = 0
        """The last datagram whose sender was taken note of, by its number; 0 if that was before the last change of the parent."""
        self.parents: dict[str, str] = {}
        self.children: dict[str, None] = {}
        self.payloads: dict[int, bytes] = {}
        self.sent_s: dict[int, dict[str, float]] = {}
        self.everywhere = 0
        """Every host has all messages up to this one."""
        self.silent: dict[str, None] = {}
        """The hosts that did not answer when asked to be the parent."""
        self.unanswered = 0
        self.asked_s: dict[str, float] = {}
        self._numbers = numbers_of(hosts)

    def order(self, host: str) -> int:
        """The static order with the source last, so that hosts of the source's cluster that are level with the source attach to it."""
        return len(self._numbers) if host == self.source else self._numbers[host]

    def known(self, host: str) -> SequenceSet:
        """The MAP row of a host."""
        known = self.map.get(host)
        if known is None:
            known = self.map[host] = SequenceSet()
        return known

    def highest(self, host: str) -> int:
        """The highest number that a host is known to have."""
        return self.map[host].highest if host in self.map else 0

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The parent, if there is one, and the children."""
        if not self.parent:
            return tuple(self.children)
        if self.parent not in self.children:
            return self.parent, *self.children
        return tuple(dict.fromkeys((self.parent, *self.children)))
