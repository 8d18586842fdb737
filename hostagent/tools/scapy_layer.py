"""The wire format as a Scapy layer, to craft and to inspect packets by hand.

>>> from hostagent.tools.scapy_layer import Castbed, bind
>>> bind(port=47000)
>>> rdpcap("captures/s1-s2.pcap")[0][Castbed].show()
"""

from scapy.fields import (
    ByteEnumField,
    ByteField,
    IntField,
    LongField,
    ShortField,
    XIntField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import MAGIC, PACK, VERSION
from hostagent.protocols import PROTOCOLS


class Castbed(Packet):  # type: ignore[misc] # Scapy has no types
    """The fixed header; the body, a message's fields or a pack of messages, follows as the payload."""

    name = "Castbed"
    fields_desc = (
        XShortField("magic", MAGIC),
        ByteField("version", VERSION),
        ByteEnumField("protocol", 0, {core.number: name for name, core in PROTOCOLS.items()}),
        ByteEnumField("kind", 0, {PACK: "pack"}),
        ByteEnumField("purpose", 0, {purpose.value: purpose.name.lower() for purpose in Purpose}),
        XIntField("run", 0),
        ShortField("sender", 0),
        LongField("packet", 0),
        ShortField("group", 0),
        ShortField("origin", 0),
        IntField("sequence", 0),
        LongField("sent", 0),
    )


def bind(port: int) -> None:
    """Let Scapy recognise the layer on this UDP port."""
    bind_layers(UDP, Castbed, dport=port)
    bind_layers(UDP, Castbed, sport=port)
