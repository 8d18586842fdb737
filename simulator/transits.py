"""The datagrams between simulated hosts, for histories whose promise is about them; one transit for each message in a datagram."""

from collections.abc import Iterable
from itertools import chain

from analysis.judging.history import MembershipRequest, Transit
from hostagent.contract.messages import Purpose
from simulator.pipe import Pipe
from simulator.world import Packet, World


class TransitRecorder:
    """Notes when packets leave and reach hosts: `left` is what a world calls `on_transmit`, and `crossed` what it calls `on_crossing`."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, int], tuple[int, Packet]] = {}
        self._arrived: dict[tuple[str, int], dict[str, int]] = {}

    def left(self, at_ns: int, packet: Packet) -> None:
        """A packet leaves its host, perhaps for a link that is down."""
        self._left[packet.sender, packet.number] = at_ns, packet

    def crossed(self, at_ns: int, pipe: Pipe, packet: Packet) -> None:
        """A packet was seen on a link."""
        key = packet.sender, packet.number
        if packet.destination == pipe.target or isinstance(packet.destination, int):
            self._arrived.setdefault(key, {}).setdefault(pipe.target, at_ns)

    def transits(self, world: World, requests: Iterable[MembershipRequest]) -> tuple[Transit, ...]:
        """All transits in the order in which they left. Whom a datagram to a group was for, `analysis.tables.transits` says too."""
        asked = {(request.group, request.host) for request in requests}
        found = []
        for key, (left_ns, packet) in self._left.items():
            reached = self._arrived.get(key, {})
            # While routes change, a copy to a group may come back to its sender, which is no transit.
            arrived = {to: at_ns for to, at_ns in reached.items() if to in world.hosts and to != packet.sender}
            to = packet.destination
            members = (to,) if isinstance(to, str) else world.groups.get(to, world.network.hosts)
            expected = [host for host in members if host != packet.sender and (to, host) not in asked]
            for host in dict.fromkeys(chain(expected, arrived)):
                found += [
                    Transit(
                        *(left_ns, arrived.get(host), packet.sender, host, part.message.origin, part.message.sequence, part.kind),
                        carries=part.purpose is not Purpose.CONTROL,
                        shared=isinstance(to, int),
                    )
                    for part in packet.parts
                ]
        return tuple(sorted(found, key=lambda transit: transit.left_ns))
