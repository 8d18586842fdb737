"""Decisions as OpenFlow 1.3 messages. `datapath` is Ryu's object for a connected switch; it has the message classes of its version.

A switch has three kinds of flows, by falling priority: ARP requests go to the controller; IPv4 packets for a host or a group go out of
ports, with a mark where the port is on an expensive link; everything else is dropped.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ryu.lib.packet import arp, ethernet, packet

from controller.routes import Changes, Flow
from hostagent.contract.wire import COST_DSCP

# Marks the controller's flows; flows that a user adds by hand are left alone.
COOKIE = 0xCB17
WHOLE_COOKIE = 0xFFFF_FFFF_FFFF_FFFF
ARP_PRIORITY, ADDRESS_PRIORITY, DROP_PRIORITY = 2, 1, 0
TABLE = 0


class ArpRequest(NamedTuple):
    """Who asks, and for which address."""

    asker_mac: str
    asker: str
    target: str


def send(datapath: Any, messages: Iterable[Any]) -> int:
    """Send messages and a barrier in one write, which is many times faster than single ones. Returns the transaction of the barrier."""
    barrier = datapath.ofproto_parser.OFPBarrierRequest(datapath)
    batch = (*messages, barrier)
    for message in batch:
        datapath.set_xid(message)
        message.serialize()
    datapath.send(b"".join(message.buf for message in batch))
    return int(barrier.xid)


def install(datapath: Any, flows: Iterable[Flow]) -> list[Any]:
    """Messages that give a switch in any state exactly these flows."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    to_controller = parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)
    requests = parser.OFPMatch(eth_type=ethernet.ether.ETH_TYPE_ARP, arp_op=arp.ARP_REQUEST)
    return [
        _delete_all(datapath),
        _add(datapath, DROP_PRIORITY, parser.OFPMatch(), []),
        _add(datapath, ARP_PRIORITY, requests, [to_controller]),
        *(_add_flow(datapath, flow) for flow in flows),
    ]


def update(datapath: Any, changes: Changes) -> list[Any]:
    """Messages for changes, all of which are for this switch."""
    return [
        *(_add_flow(datapath, flow) for flow in changes.add),
        *(_delete_flow(datapath, flow) for flow in changes.delete),
    ]


def is_up(datapath: Any, port: Any) -> bool:
    """Whether a port can carry packets: its link has a carrier and the port is not administratively down."""
    ofproto = datapath.ofproto
    return not (port.state & ofproto.OFPPS_LINK_DOWN or port.config & ofproto.OFPPC_PORT_DOWN)


def arp_request(frame: bytes) -> ArpRequest | None:
    """The ARP request in a frame; None if the frame is no well-formed one."""
    request = packet.Packet(frame).get_protocol(arp.arp)
    if request is None or request.opcode != arp.ARP_REQUEST:
        return None
    return ArpRequest(request.src_mac, request.src_ip, request.dst_ip)


def arp_answer(datapath: Any, port: int, request: ArpRequest, mac: str) -> Any:
    """The message by which a switch sends an ARP reply out of one port."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=request.asker_mac, src=mac, ethertype=ethernet.ether.ETH_TYPE_ARP))
    frame.add_protocol(arp.arp_ip(arp.ARP_REPLY, mac, request.target, request.asker_mac, request.asker))
    frame.serialize()
    out = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(datapath, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, out, frame.data)


def describe_error(datapath: Any, error: Any) -> str:
    """An error message of a switch, in words."""
    kind, code = (
        datapath.ofproto.ofp_error_type_to_str(error.type),
        datapath.ofproto.ofp_error_code_to_str(error.type, error.code),
    )
    return f"the switch refused a message: {kind}, {code}, about the message that starts with {bytes(error.data[:64]).hex()}"


def _match(datapath: Any, flow: Flow) -> Any:
    return datapath.ofproto_parser.OFPMatch(eth_type=ethernet.ether.ETH_TYPE_IP, ipv4_dst=flow.address)


def _add_flow(datapath: Any, flow: Flow) -> Any:
    """Add a flow, or replace the flow that the switch has for this address.

    A switch applies actions in order, so the copies for cheap ports leave before the packet is marked.
    """
    parser = datapath.ofproto_parser
    mark = [parser.OFPActionSetField(ip_dscp=COST_DSCP)] if flow.expensive else []
    cheap, expensive = (map(parser.OFPActionOutput, ports) for ports in (flow.cheap, flow.expensive))
    return _add(datapath, ADDRESS_PRIORITY, _match(datapath, flow), [*cheap, *mark, *expensive])


def _add(datapath: Any, priority: int, match: Any, actions: Sequence[Any]) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    return parser.OFPFlowMod(datapath, cookie=COOKIE, table_id=TABLE, priority=priority, match=match, instructions=apply)


def _delete_flow(datapath: Any, flow: Flow) -> Any:
    ofproto = datapath.ofproto
    return datapath.ofproto_parser.OFPFlowMod(
        datapath,
        table_id=TABLE,
        command=ofproto.OFPFC_DELETE_STRICT,
        priority=ADDRESS_PRIORITY,
        match=_match(datapath, flow),
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )


def _delete_all(datapath: Any) -> Any:
    """Delete every flow with our cookie, in all tables."""
    ofproto = datapath.ofproto
    return datapath.ofproto_parser.OFPFlowMod(
        datapath,
        cookie=COOKIE,
        cookie_mask=WHOLE_COOKIE,
        table_id=ofproto.OFPTT_ALL,
        command=ofproto.OFPFC_DELETE,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )
