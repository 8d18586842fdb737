"""The state of network and hosts as faults change it: which links carry packets, which hosts run.

Two rules keep a protocol from being blamed for what no protocol could do.

Routes decide what arrives. The controller routes around links that it knows to be down. It does not know of a link that loses nearly
everything, and while it is stopped it knows of no change at all: packets are still sent to such links although there is another path. So a
link that the routes may still use and that carries nothing counts as down together with its whole block, that is, every link on a common
cycle with it: whether hosts on either side were connected is unknown. Links that come up while there is no controller are not used until
the controller is back.

Both directions count. Every protocol needs answers, so a link that works in one direction only counts as a link that does not work.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from runfiles.format import LATE, FaultRecord
from topologies.network import Link, Network, components

# A link that loses more than half of its packets does not count as a way: how long a message takes over it is a matter of luck.
MOST_LOSS: Final = 0.5
_BREAKING: Final = frozenset({"link-down", "switch-stop", "controller-stop", "crash", "pause", LATE, "depart"})


def moment(fault: FaultRecord) -> int:
    """From when a fault counts: if it breaks something, from when it was asked for; if it mends something, from when it was in force."""
    breaks = fault.fault in _BREAKING or (fault.fault == "link-change" and _loss(fault) > MOST_LOSS)
    return fault.asked_ns if breaks else fault.applied_ns


def timeline(network: Network, faults: Iterable[FaultRecord]) -> Iterator[tuple[int, FaultRecord, "Ground"]]:
    """Every fault in the order of time, and the state after it. The state is one object that changes."""
    ground = Ground(network)
    for fault in sorted(faults, key=moment):
        ground.apply(fault)
        yield moment(fault), fault, ground


class Ground:
    """Links, switches, controller and hosts at one instant."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._pulled: set[str] = set()
        self._stopped: set[str] = set()
        self._loss = _built_loss(network)
        self._frozen: frozenset[str] | None = None
        """While there is no controller: the links that were up when it stopped."""
        self._stale: set[str] = set()
        """While there is no controller: the links that have changed."""
        self.crashed: set[str] = set()
        self.paused: set[str] = set()
        self.absent: set[str] = set()
        """Hosts that have not arrived, or have departed."""
        self.amnesic: set[str] = set()
        """Hosts that have lost their storage."""

    @property
    def alive(self) -> tuple[str, ...]:
        """The hosts that run and never lost their storage."""
        return tuple(host for host in self.running if host not in self.amnesic)

    @property
    def running(self) -> tuple[str, ...]:
        """The hosts that run, also those that lost their storage."""
        return tuple(host for host in self._network.hosts if host not in self.away)

    @property
    def away(self) -> frozenset[str]:
        """The hosts that do not run."""
        return frozenset(self.crashed | self.paused | self.absent)

    @property
    def down(self) -> frozenset[str]:
        """The links that are down, pulled or at a stopped switch, by name."""
        return frozenset(link.name for link in self._network.links if not self._is_up(link))

    def apply(self, fault: FaultRecord) -> None:
        """Apply a fault. Faults that change neither links nor hosts have no effect here."""
        self._apply_to_network(fault)
        self._apply_to_host(fault)

    def _apply_to_network(self, fault: FaultRecord) -> None:
        match fault.fault:
            case "link-down":
                self._pulled.add(self._touch(fault.target))
            case "link-up":
                self._pulled.discard(self._touch(fault.target))
            case "link-change":
                self._change_loss(fault)
            case "heal" if fault.target:
                self._heal({self._network.link(*fault.target.split("-", 1)).name})
            case "heal":
                self._heal({link.name for link in self._network.links})
            case "switch-stop":
                self._touch_switch(fault.target)
                self._stopped.add(fault.target)
            case "switch-start":
                self._touch_switch(fault.target)
                self._stopped.discard(fault.target)
            case "controller-stop":
                self._stop_controller()
            case "controller-start":
                self._frozen = None

    def _apply_to_host(self, fault: FaultRecord) -> None:
        match fault.fault:
            case "late" | "depart":
                self.absent.add(fault.target)
            case "arrive":
                self.absent.discard(fault.target)
            case _ if fault.target in self.absent:
                # A host without an agent neither crashes nor stands still, and nobody restarts it.
                pass
            case "crash":
                self.crashed.add(fault.target)
                self.paused.discard(fault.target)
            case "restart":
                if fault.target in self.crashed and fault.details.get("storage") == "lost":
                    self.amnesic.add(fault.target)
                self.crashed.discard(fault.target)
            case "pause" if fault.target not in self.crashed:
                self.paused.add(fault.target)
            case "resume":
                self.paused.discard(fault.target)

    def parts(self, most_loss: float = MOST_LOSS) -> dict[str, int]:
        """For every node, the number of its connected part of the network, where links with more than `most_loss` do not count."""
        usable = self._usable(most_loss)
        return components(self._network, lambda link: link.name in usable)

    def clusters(self) -> tuple[tuple[str, ...], ...]:
        """The clusters at this instant: hosts that run and whose routes to each other use cheap links only."""
        usable = self._usable(MOST_LOSS)
        group_of = components(self._network, lambda link: link.name in usable and not link.expensive)
        groups: dict[int, list[str]] = {}
        for host in self.running:
            groups.setdefault(group_of[host], []).append(host)
        return tuple(map(tuple, groups.values()))

    def _usable(self, most_loss: float) -> frozenset[str]:
        """The links that routes use and that work."""
        up = frozenset(link.name for link in self._network.links if self._is_up(link))
        believed = up if self._frozen is None else self._frozen
        stale = self._stale if self._frozen is not None else frozenset()
        lossy = frozenset(name for (name, _), loss in self._loss.items() if loss > most_loss)
        blind = {name for name in believed if name not in up or name in stale or name in lossy}
        return believed - _blocks_with(self._network, believed, blind)

    def _is_up(self, link: Link) -> bool:
        return link.name not in self._pulled and link.a not in self._stopped and link.b not in self._stopped

    def _touch(self, name: str) -> str:
        """Note that a link changes. Returns its name as the network spells it."""
        link = self._network.link(*name.split("-", 1))
        self._stale.add(link.name)
        return link.name

    def _heal(self, names: set[str]) -> None:
        self._stale |= self._pulled & names
        self._pulled -= names
        self._loss |= {(name, end): loss for (name, end), loss in _built_loss(self._network).items() if name in names}

    def _touch_switch(self, switch: str) -> None:
        self._stale.update(link.name for link in self._network.neighbours[switch].values())

    def _stop_controller(self) -> None:
        if self._frozen is None:
            self._frozen = frozenset(link.name for link in self._network.links if self._is_up(link))
            self._stale.clear()

    def _change_loss(self, fault: FaultRecord) -> None:
        if fault.details.get("loss") is None:
            return
        link = self._network.link(*fault.target.split("-", 1))
        for end in (link.a, link.b):
            if fault.details.get("towards") in {None, "", end}:
                self._loss[link.name, end] = _loss(fault)


def _loss(fault: FaultRecord) -> float:
    return float(fault.details.get("loss") or 0)


def _built_loss(network: Network) -> dict[tuple[str, str], float]:
    """The loss of each link towards each of its ends."""
    return {(link.name, end): link.loss for link in network.links for end in (link.a, link.b)}


def _blocks_with(network: Network, believed: frozenset[str], blind: set[str]) -> set[str]:
    """The blind links, and all links on a common cycle with one of them."""
    if not blind:
        return set()
    # Imported here: networkx takes long to import, and most runs have no such link.
    import networkx as nx  # noqa: PLC0415 - takes long to import

    name_of = {frozenset((link.a, link.b)): link.name for link in network.links if link.name in believed}
    graph = nx.Graph(list(map(tuple, name_of)))
    blocks = ({name_of[frozenset(edge)] for edge in block} for block in nx.biconnected_component_edges(graph))
    return blind.union(*(block for block in blocks if not block.isdisjoint(blind)))
