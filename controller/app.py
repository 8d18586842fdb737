"""The Ryu application: it passes what switches report to pure functions, and sends the functions' decisions to the switches.

At the start every port counts as up, so a switch usually gets its final flows as soon as it connects. If it reports ports that are down,
routes change for the first time.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import controller.eventlet_ready  # noqa: F401 - has to come before Ryu

# isort: split

from ryu.base.app_manager import RyuApp
from ryu.controller import ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, HANDSHAKE_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3

from controller import openflow
from controller.barriers import Barrier, Barriers
from controller.log import Log
from controller.routes import Changes, Groups, Port, arp_reply, changes, every_port, routes
from topologies.network import Network

Handler = TypeVar("Handler", bound=Callable[..., None])


class SwitchError(Exception):
    """A switch that is not of the network, or that refused a message."""


def on(event: Any, *states: str) -> Callable[[Handler], Handler]:
    """Decorate the handler of an event from switches in one of these states."""
    mark: Callable[[Handler], Handler] = set_ev_cls(event, list(states))
    return mark


class Routing(RyuApp):  # type: ignore[misc] # Ryu has no types
    """Keeps the flows of all switches in line with the ports that are up and with the members of groups."""

    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, network: Network, groups: Groups, log: Log) -> None:
        super().__init__()
        self._network = network
        self._groups = groups
        self._log = log
        self._up = every_port(network)
        self._routes = routes(network, self._up, groups=groups)
        self._barriers = Barriers()
        self._datapaths: dict[str, Any] = {}
        self._switches = {number: switch for switch, number in network.datapaths.items()}
        self._neighbours = {
            Port(switch, number): node for switch, ports in network.ports.items() for node, number in ports.items()
        }

    @on(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def connected(self, event: Any) -> None:
        """A switch is connected and has described its ports."""
        since, datapath = time.time(), event.datapath
        switch = self._newcomer(datapath)
        up = {Port(switch, number) for number, port in datapath.ports.items() if openflow.is_up(datapath, port)}
        self._reroute("switch_connected", switch, {port: port in up for port in self._neighbours if port.switch == switch}, since)
        self._install(switch, datapath, since)

    @on(ofp_event.EventOFPStateChange, DEAD_DISPATCHER)
    def disconnected(self, event: Any) -> None:
        """A connection ended, perhaps before its switch was identified."""
        switch = self._switches.get(event.datapath.id, "")
        if self._datapaths.get(switch) is event.datapath:
            del self._datapaths[switch]
            self._log.write("switch_lost", switch=switch)
            self._barriers.lost(switch)

    @on(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_changed(self, event: Any) -> None:
        """A port was added, changed or deleted."""
        message, datapath = event.msg, event.msg.datapath
        port = Port(self._switches[datapath.id], message.desc.port_no)
        up = message.reason != datapath.ofproto.OFPPR_DELETE and openflow.is_up(datapath, message.desc)
        if port in self._neighbours:
            self._reroute("port_up" if up else "port_down", port.switch, {port: up}, event.timestamp)

    @on(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def barrier_answered(self, event: Any) -> None:
        """A switch has carried out every message that was sent before this barrier."""
        self._barriers.answered(Barrier(self._switches[event.msg.datapath.id], event.msg.xid))

    @on(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_arrived(self, event: Any) -> None:
        """A host asks for the Ethernet address of another host: send the answer out of the port where the request arrived."""
        datapath, request = event.msg.datapath, openflow.arp_request(event.msg.data)
        mac = request and arp_reply(self._network, request.asker, request.target)
        if request and mac:
            datapath.send_msg(openflow.arp_answer(datapath, event.msg.match["in_port"], request, mac))

    @on(ofp_event.EventOFPErrorMsg, HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER)
    def refused(self, event: Any) -> None:
        """A switch refused a message, so its flows may be wrong and no measurement on this network is valid."""
        datapath = event.msg.datapath
        raise SwitchError(f"switch {self._switches.get(datapath.id)}: {openflow.describe_error(datapath, event.msg)}")

    def regroup(self, groups: Groups) -> None:
        """Install the trees of new groups and of groups whose members have changed."""
        self._groups = groups
        self._recompute(time.time(), cause="groups_changed")

    def _newcomer(self, datapath: Any) -> str:
        """The name of a switch that connects. It must belong to the network and not be connected already."""
        switch = self._switches.get(datapath.id)
        if switch is None:
            raise SwitchError(
                f"a switch with datapath identifier {datapath.id} connected; the network has 1 to {len(self._switches)}"
            )
        if switch in self._datapaths:
            raise SwitchError(f"two switches are connected that both have the datapath identifier of {switch}, {datapath.id}")
        return switch

    def _install(self, switch: str, datapath: Any, since: float) -> None:
        """Give a switch all its flows."""
        self._datapaths[switch] = datapath
        flows = self._routes.at(switch)
        barrier = Barrier(switch, openflow.send(datapath, openflow.install(datapath, flows)))

        def ready() -> None:
            if switch in self._datapaths:
                self._log.write("switch_ready", switch=switch, flows=len(flows), took_ms=_ms_since(since))

        self._barriers.after([barrier], ready)

    def _reroute(self, cause: str, switch: str, states: dict[Port, bool], since: float) -> None:
        """Record the ports of a switch that went down or came up, and send all switches the flows that change."""
        news = {port: up for port, up in states.items() if up != (port in self._up)}
        if not news:
            return
        for port, up in news.items():
            self._log.write("port_up" if up else "port_down", switch=switch, port=port.number, neighbour=self._neighbours[port])
        self._up = (self._up | news.keys()) - {port for port, up in news.items() if not up}
        self._recompute(since, cause=cause, switch=switch, ports=[port.number for port in news])

    def _recompute(self, since: float, **about: object) -> None:
        """Compute the routes again and send the switches what changed; `about` is for the log."""
        before, self._routes = self._routes, routes(self._network, self._up, self._routes, self._groups)
        self._send(changes(before, self._routes), since, **about)

    def _send(self, todo: Changes, since: float, **about: object) -> None:
        """Send every connected switch its share of the changes."""
        shares = {switch: share for switch, share in todo.by_switch().items() if switch in self._datapaths}
        barriers = []
        for switch, share in shares.items():
            datapath = self._datapaths[switch]
            barriers.append(Barrier(switch, openflow.send(datapath, openflow.update(datapath, share))))
        changed = sum(len(share.add) + len(share.delete) for share in shares.values())

        def done() -> None:
            self._log.write("rerouted", **about, flows_changed=changed, switches=len(shares), took_ms=_ms_since(since))

        self._barriers.after(barriers, done)


def _ms_since(then: float) -> float:
    return round((time.time() - then) * 1000, 3)
