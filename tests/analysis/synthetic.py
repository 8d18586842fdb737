"""Run directories made by hand: captures, event logs and counters of packets that never were, each number of them known.

h1 h2 - s1 ===(expensive)=== s2 - s3        h3 at s2, h4 at s3: two clusters, {h1, h2} and {h3, h4}
"""

import itertools
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
import pyarrow as pa

from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Guarantee, Promise
from hostagent.contract.wire import COST_TOS, HEADER, MAGIC, VERSION
from runfiles.format import CaptureRecord, Event, FaultRecord, GroupRecord, GroupsFile, LinkDrops, RunRecord
from topologies.files import dump
from topologies.network import Cost, Link, Network, group_address
from topologies.paths import group_tree, path

NETWORK = Network(
    name="two clusters",
    hosts=("h1", "h2", "h3", "h4"),
    switches=("s1", "s2", "s3"),
    links=(
        Link("h1", "s1"),
        Link("h2", "s1"),
        Link("h3", "s2"),
        Link("h4", "s3"),
        Link("s1", "s2", Cost.EXPENSIVE),
        Link("s2", "s3"),
    ),
)
RUN, PORT = 77, 5000
START_NS = 1_700_000_000_000_000_000
_NUMBERS = itertools.count()
HOP_NS = 1_000_000
BODY = b"\x91\xc4\x04abcd"
PROMISE = Promise(
    guarantees=(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY), patience_ms=10_000.0, retained=10
)

DELIVERIES = pa.table(
    {
        "origin": ["h1"] * 6,
        "sequence": [1, 1, 1, 2, 2, 2],
        "host": ["h2", "h3", "h4"] * 2,
        "delivered_ns": [2, 3, 4, 12, 13, 14],
        "delay_ms": [2.0, 3.0, 4.0] * 2,
    }
)
"""What the table of deliveries says of the delays of an honest run: h2 is two hops away from h1, h3 three and h4 four."""


def datagram(
    sender: int,
    packet: int,
    purpose: Purpose = Purpose.DATA,
    origin: int = 1,
    sequence: int = 1,
    run: int = RUN,
    body: bytes = BODY,
    kind: int = 0,
) -> bytes:
    return HEADER.pack(MAGIC, VERSION, 1, kind, purpose, run, sender, packet, 0, origin, sequence, START_NS) + body


def frame(source: str, destination: str | int, payload: bytes, tos: int = 0, port: int = PORT, options: bytes = b"") -> bytes:
    """An Ethernet frame with IPv4 and UDP around a payload, to a host or a group; without checksums, as in captures of veth pairs."""
    length, first = 28 + len(options) + len(payload), 0x45 + len(options) // 4
    to = NETWORK.addresses[destination] if isinstance(destination, str) else group_address(destination)
    addresses = IPv4Address(NETWORK.addresses[source]).packed + IPv4Address(to).packed
    ip = struct.pack("!BBHHHBBH", first, tos, length, 0, 0x4000, 64, 17, 0) + addresses + options
    return bytes(12) + b"\x08\x00" + ip + struct.pack("!HHHH", port, port, 8 + len(payload), 0) + payload


def pcap(packets, order: str = "<", nano: bool = True, snaplen: int = 96, link_type: int = 1) -> bytes:
    """A capture file of (at_ns, frame) pairs."""
    tick = 1 if nano else 1000
    parts = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, link_type)]
    for at_ns, data in packets:
        kept = data[:snaplen]
        parts.append(struct.pack(order + "IIII", at_ns // 10**9, at_ns % 10**9 // tick, len(kept), len(data)) + kept)
    return b"".join(parts)


def captures() -> dict[tuple[str, str], CaptureRecord]:
    """A capture for each direction of each link; an access link has one for both."""
    found = {}
    for link in NETWORK.links:
        one = CaptureRecord(f"captures/{link.a}-{link.b}.pcap", link.a, link.b, NETWORK.is_host(link.a), 0, 0)
        other = one if one.both_ways else CaptureRecord(f"captures/{link.b}-{link.a}.pcap", link.b, link.a, False, 0, 0)
        found[link.a, link.b], found[link.b, link.a] = one, other
    return found


@dataclass
class Maker:
    """Builds a run packet by packet. Change what it holds before `write` to cook the books."""

    protocol: str = "basic"
    promise: Promise = PROMISE
    seed: int = 1
    problems: tuple[str, ...] = ()
    seen: dict[tuple[str, str], list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[str, Counter] = field(default_factory=lambda: {host: Counter(sent=0) for host in NETWORK.hosts})
    events: dict[str, list[Event]] = field(default_factory=lambda: {host: [] for host in NETWORK.hosts})
    link_drops: list[LinkDrops] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    capture_drops: dict[str, int] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] | None = None
    """The members of groups 1, 2, ...; without them the run is one of the unicast medium."""

    def send(self, sender, destination, at_ns, purpose=Purpose.DATA, message=("h1", 1), lost_on=None, kind=0) -> int:
        """A packet on its way, one hop a millisecond; returns its number. `lost_on` is the link that loses it."""
        self.counters[sender]["sent"] += 1
        packet = (1 << 32) + self.counters[sender]["sent"]
        payload = datagram(NETWORK.numbers[sender], packet, purpose, NETWORK.numbers[message[0]], message[1], kind=kind)
        node, tos = sender, 0
        for link in path(NETWORK, sender, destination):
            at_ns += HOP_NS
            if link.name == lost_on:
                return packet
            tos |= COST_TOS if link.expensive else 0
            self.seen[node, link.other(node)].append((at_ns, frame(sender, destination, payload, tos)))
            node = link.other(node)
        self.counters[destination]["received"] += 1
        return packet

    def multicast(self, sender, group, at_ns, message=("h1", 1), lost_on=(), early_mark=False) -> int:
        """A packet to a group, copied along its tree, one hop a millisecond; returns its number. `lost_on` are directions (from, to).

        With `early_mark`, switches mark a packet before they send the copies for cheap links, if any of its copies is to be marked.
        """
        self.counters[sender]["sent"] += 1
        packet = (1 << 32) + self.counters[sender]["sent"]
        payload = datagram(NETWORK.numbers[sender], packet, Purpose.DATA, NETWORK.numbers[message[0]], message[1])
        tree = group_tree(NETWORK, self.groups[group - 1] if group else NETWORK.hosts)
        under_way = [(at_ns, sender, NETWORK.access_switch(sender), 0)]
        while under_way:
            at_ns, node, following, tos = under_way.pop()
            if (node, following) in lost_on:
                continue
            tos |= COST_TOS if NETWORK.link(node, following).expensive else 0
            self.seen[node, following].append((at_ns + HOP_NS, frame(sender, group, payload, tos)))
            if NETWORK.is_host(following):
                self.counters[following]["received"] += 1
                continue
            branches = [branch for branch in tree.get(following, ()) if branch != node]
            if early_mark and any(NETWORK.link(following, branch).expensive for branch in branches):
                tos |= COST_TOS
            under_way += [(at_ns + HOP_NS, following, branch, tos) for branch in branches]
        return packet

    def broadcast(self, origin, sequence, at_ns, hosts=NETWORK.hosts, to=()) -> None:
        """The events of a message that every one of `hosts` delivers, as late as its packet takes."""
        details = {"to": list(to)} if to else {}
        self.events[origin].append(Event(at_ns=at_ns, event="broadcast", origin=origin, sequence=sequence, details=details))
        for host in hosts:
            hops = 0 if host == origin else len(path(NETWORK, origin, host))
            self.events[host].append(Event(at_ns=at_ns + hops * HOP_NS, event="deliver", origin=origin, sequence=sequence))

    def write(self, directory: Path) -> Path:
        (directory / "captures").mkdir(parents=True)
        (directory / "events").mkdir()
        described = []
        for capture in dict.fromkeys(captures().values()):
            packets = list(self.seen[capture.source, capture.target])
            packets += self.seen[capture.target, capture.source] if capture.both_ways else []
            (directory / capture.file).write_bytes(pcap(sorted(packets)))
            dropped = self.capture_drops.get(capture.file, 0)
            described.append(msgspec.structs.replace(capture, captured=len(packets), dropped=dropped))
        encode = msgspec.json.Encoder().encode
        for host, events in self.events.items():
            (directory / "events" / f"{host}.jsonl").write_bytes(b"".join(encode(event) + b"\n" for event in events))
        (directory / "counters.json").write_bytes(encode(self.counters))
        (directory / "faults.jsonl").write_bytes(b"".join(encode(fault) + b"\n" for fault in self.faults))
        (directory / "run.json").write_bytes(encode(self._run(tuple(described))))
        if self.groups is not None:
            groups = (GroupRecord(f"g{number}", members) for number, members in enumerate(self.groups, start=1))
            (directory / "scenario.json").write_bytes(encode(GroupsFile(tuple(groups))))
        dump(NETWORK, directory / "network.json")
        return directory

    def _run(self, described) -> RunRecord:
        return RunRecord(
            run=RUN,
            scenario="demo",
            protocol=self.protocol,
            engine="mininet",
            seed=self.seed,
            settings={},
            parameters={},
            promise=self.promise,
            medium="unicast" if self.groups is None else "multicast",
            udp_port=PORT,
            # No two runs begin at the same time.
            started_ns=START_NS - next(_NUMBERS),
            ended_ns=START_NS + 60_000_000_000,
            versions={},
            datapath="kernel",
            shaping="netem",
            captures=described,
            link_drops=tuple(self.link_drops),
            problems=self.problems,
        )


def honest(protocol: str = "basic") -> Maker:
    """Host h1 broadcasts two messages; h3 and h4 acknowledge the first."""
    maker = Maker(protocol=protocol)
    for sequence in (1, 2):
        at_ns = START_NS + sequence * 100_000_000
        maker.broadcast("h1", sequence, at_ns)
        for host in ("h2", "h3", "h4"):
            maker.send("h1", host, at_ns, Purpose.DATA, ("h1", sequence))
    for host in ("h3", "h4"):
        maker.send(host, "h1", START_NS + 110_000_000, Purpose.CONTROL, ("h1", 1))
    return maker
