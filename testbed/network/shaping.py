"""Shapes links: sets bandwidth, delay, jitter, loss, duplicates, reordering and queues in the kernel, and reads every parameter back.

Each direction of a link is shaped where it leaves a node, by a chain: loss, bandwidth, delay, queue. Every link between switches has the
whole chain, except delay, from the start. So a fault only changes numbers in the chain. Removing a queueing discipline would discard the
packets that wait in it, adding one would drop packets that pass meanwhile, and the kernel counts neither. Where a fault adds or removes
delay, the part of the chain below the token bucket is replaced, and the kernel counts the packets that waited there as dropped.

* Loss is a filter in front of everything else: four instructions that compare a random number with a threshold. It needs no netem. A
  packet that enters the filter and does not leave it was lost, so losses are counted apart from packets that found the queue full.
* Bandwidth is a token bucket, which takes packets from the disciplines below it. A link without a limit has a bucket that never empties.
* Delay, jitter, duplicates and reordering need netem in the kernel. Netem holds the packets on their way and drops none. A duplicate uses
  bandwidth like any packet. Netem does not count duplicates, so a second filter, after the loss, counts the packets that reach netem.
* The queue is last. It holds packets whose delay is over and for which the bucket has no tokens. For a constant delay it makes no
  difference whether packets wait before or after the delay.

In virtual time `simulator.pipe` does the same, with one difference: a reordered packet skips only the delay there, and with netem the
queue too.

The sender must not learn of a drop. Open vSwitch in userspace sends packets in batches. If the kernel reports a packet as dropped, Open
vSwitch sends it again or discards the rest of the batch: the loss would not be as asked for, and packets would vanish uncounted. So the
loss filter returns "stolen", which the sender sees as sent, and a full queue drops its oldest packet and accepts the new one.

Stock tools leave the link unimpaired when the kernel lacks a feature. Here a difference between asked and seen stops the run.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import chain
from operator import add, sub
from typing import Any

from testbed.errors import CannotRun
from testbed.network.plan import End, Plan
from testbed.network.shell import run, tc
from topologies.network import DEFAULT_QUEUE, Link, Network

# Ten full frames; with a smaller burst the bucket empties faster than the kernel's timer refills it.
BURST_BYTES = 15000
# Bandwidth without a limit: more than a virtual link carries, and small enough for the kernel's 32 bits of bytes a second.
UNLIMITED_BIT = 32_000_000_000
UNLIMITED_BURST_BYTES = 1_000_000
# Switches in userspace have one send buffer for the packets in all their queues, which lose what does not fit uncounted. It is widened
# (`vswitch.widen`); on a kernel that does not allow that it has 208 KiB, of which a small packet takes 768 bytes.
MOST_QUEUED_IN_USERSPACE = 250
_RANDOM = "32 0 0 4294963256"  # load a random 32-bit number
_PASS = "6 0 0 4294967295"  # noqa: S105 - an instruction, not a password: return "unspecified", and the packet goes on
_TAKE = "6 0 0 4"  # return "stolen": the packet is gone, and the sender is told that it was sent
_COUNT = "1,6 0 0 4294967295"  # matches every packet; the filter's action counts them
# The priorities of the filters.
_LOSS, _COUNTED = 1, 2
_QUEUE = "pfifo_head_drop"
# The limit of netem: more packets than a fast link carries in a second, as it is not the link's queue.
ON_THE_WAY = 1_000_000


@dataclass(frozen=True)
class Drops:
    """Packets that were dropped at an interface, by cause."""

    loss: int = 0
    """Outgoing packets that the link lost."""
    queue: int = 0
    """Outgoing packets that found the link's queue full."""
    overrun: int = 0
    """Incoming packets that the switch did not read fast enough: in userspace it has a small buffer for each port."""
    duplicated: int = 0
    """Duplicates of outgoing packets, which are the opposite of drops."""

    def __add__(self, other: "Drops") -> "Drops":
        return Drops(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: "Drops") -> "Drops":
        return Drops(*map(sub, astuple(self), astuple(other)))


def has_chain(link: Link, network: Network) -> bool:
    """Whether a link has the chain: if it is shaped, or is a link between switches, which faults may change."""
    return is_shaped(link) or not (network.is_host(link.a) or network.is_host(link.b))


def is_shaped(link: Link) -> bool:
    """Whether a link has a property that an unimpaired link does not have."""
    return bool(link.bandwidth_mbit or _is_netem(link) or link.loss or link.queue_packets)


def _is_netem(link: Link) -> bool:
    return bool(link.delay_ms or millionths(link.duplicate))


def needs_netem(network: Network) -> list[str]:
    """The links that only a kernel with netem can emulate."""
    return [link.name for link in network.links if _is_netem(link)]


def needs_kernel_datapath(network: Network) -> list[str]:
    """The links whose queues are longer than a switch in userspace can fill."""
    return [link.name for link in network.links if (link.queue_packets or 0) > MOST_QUEUED_IN_USERSPACE]


def needs_simulator(network: Network) -> list[str]:
    """The links that only the simulator can emulate."""
    return [link.name for link in network.links if link.burst > 1]


def commands(link: Link, interface: str) -> Iterator[str]:
    """Commands for `tc` that shape one direction of a link, whether it is shaped already or not. Packets in its queue stay there.

    On an interface that is shaped already, these commands change numbers in place: the same handle is the same queueing discipline. So the
    queue has one handle below netem and another one without netem.
    """
    yield f"qdisc replace dev {interface} root handle 1: tbf {_bucket(link)}"
    parent, queue = "1:1", "12:"
    if _is_netem(link):
        yield f"qdisc replace dev {interface} parent 1:1 handle 10: netem limit {ON_THE_WAY}{_netem(link)}"
        parent, queue = "10:1", "11:"
    yield f"qdisc replace dev {interface} parent {parent} handle {queue} {_QUEUE} limit {link.queue_packets or DEFAULT_QUEUE}"
    yield f"qdisc replace dev {interface} clsact"
    yield f"filter replace dev {interface} egress prio {_LOSS} handle 1 bpf da bytecode '{loss_program(link.loss)}'"


def first_commands(link: Link, interface: str) -> Iterator[str]:
    """Commands for `tc` that shape one direction of a link on an interface that is not shaped yet, with the filter that counts packets."""
    yield from commands(link, interface)
    if millionths(link.duplicate):
        yield f"filter add dev {interface} egress prio {_COUNTED} bpf bytecode '{_COUNT}' action ok"


def _netem(link: Link) -> str:
    """Options of netem. Without delay, no packet can be reordered. An option that is left out would keep its former value."""
    words = f" delay {round(link.delay_ms * 1000)}us {round(link.jitter_ms * 1000)}us" if link.delay_ms else ""
    words += f" duplicate {millionths(link.duplicate) / 1e4}%" if millionths(link.duplicate) else ""
    return words + f" reorder {millionths(link.reorder) / 1e4 if link.delay_ms else 0}%"


def millionths(share: float) -> int:
    """A share in millionths, as netem takes and shows it."""
    return round(share * 1e6)


def _bucket(link: Link) -> str:
    # This limit is in bytes, and must be larger than the queue below, which has a limit in packets.
    burst = BURST_BYTES if link.bandwidth_mbit else UNLIMITED_BURST_BYTES
    return f"rate {_rate_bit(link)}bit burst {burst} limit {(link.queue_packets or DEFAULT_QUEUE) * 1600}"


def _rate_bit(link: Link) -> int:
    return round(link.bandwidth_mbit * 1e6) if link.bandwidth_mbit else UNLIMITED_BIT


def loss_program(loss: float) -> str:
    """A classic BPF program that drops this share of packets at random."""
    if loss >= 1:
        return f"1,{_TAKE}"
    return f"4,{_RANDOM},53 0 1 {threshold(loss)},{_PASS},{_TAKE}"


def threshold(loss: float) -> int:
    """The threshold for this loss: a packet is lost if a random 32-bit number is below it."""
    return round(loss * 2**32)


def shape(plan: Plan) -> None:
    """Shape every link of a network that was just made, and read every parameter back."""
    by_namespace: dict[str, list[str]] = {}
    for link in plan.network.links:
        for end in plan.ends(link) if has_chain(link, plan.network) else ():
            by_namespace.setdefault(end.namespace, []).extend(first_commands(link, end.interface))
    for namespace, lines in by_namespace.items():
        tc(lines, namespace)
    read_back(plan, {(end.node, link.other(end.node)): link for link in plan.network.links for end in plan.ends(link)})


def read_back(plan: Plan, asked: Mapping[tuple[str, str], Link]) -> None:
    """Raise an error unless every direction, by (from, to), is shaped as its link asks, or not at all if the link asks for nothing.

    Hosts whose link asks for nothing are not read, as each would need a command of its own.
    """
    links = {plan.end(*way): link for way, link in asked.items()}
    shown = _read_all(end for end, link in links.items() if not end.namespace or is_shaped(link))
    filters = _read_filters(end for end, qdiscs in shown.items() if "clsact" in _kinds(qdiscs))
    for end, qdiscs in shown.items():
        verify(links[end], end, qdiscs, _loss_of(filters.get(end, [])))


def reshape(link: Link, end: End) -> bool:
    """Shape one direction of a link again, and read it back. Returns whether the kernel counts its drops from zero again.

    It does so after a switch has cleared its ports, and where duplicates begin or end, since all counters must start together. In the
    latter case the packets in the queue are lost.
    """
    kinds = _kinds(_read_all([end])[end])
    anew = "tbf" not in kinds or _duplicates(kinds) != bool(millionths(link.duplicate))
    removals = [
        f"qdisc del dev {end.interface} {what}" for kind, what in (("tbf", "root"), ("clsact", "clsact")) if kind in kinds
    ]
    tc([*removals, *first_commands(link, end.interface)] if anew else list(commands(link, end.interface)), end.namespace)
    verify(link, end, _read_all([end])[end], _loss_of(_read_filters([end])[end]))
    return anew


def _kinds(qdiscs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The options of each queueing discipline on an interface, by its kind."""
    return {qdisc["kind"]: qdisc.get("options", {}) for qdisc in qdiscs}


def _duplicates(kinds: Mapping[str, dict[str, Any]]) -> bool:
    return "duplicate" in kinds.get("netem", {})


def verify(link: Link, end: End, qdiscs: list[dict[str, Any]], loss: int) -> None:
    """Raise an error unless the kernel shows exactly the properties of the link.

    A link that is not shaped has no chain, or a chain whose numbers change nothing.
    """
    kinds = _kinds(qdiscs)
    chained = is_shaped(link) or "tbf" in kinds
    asked = {
        "bandwidth (bytes/s)": _rate_bit(link) // 8 if chained else None,
        "delay (us)": round(link.delay_ms * 1000) or None,
        "jitter (us)": round(link.jitter_ms * 1000) if link.delay_ms else None,
        "duplicates (of 10^6)": millionths(link.duplicate),
        "reordering (of 10^6)": millionths(link.reorder) if link.delay_ms else 0,
        "packets on their way": ON_THE_WAY if _is_netem(link) else None,
        "queue (packets)": (link.queue_packets or DEFAULT_QUEUE) if chained else None,
        "loss (of 2^32)": threshold(link.loss) if link.loss < 1 else 2**32,
    }
    netem = kinds.get("netem", {})
    delay = netem.get("delay", {})
    seen = {
        "bandwidth (bytes/s)": kinds.get("tbf", {}).get("rate"),
        "delay (us)": round(delay["delay"] * 1e6) if delay else None,
        "jitter (us)": round(delay["jitter"] * 1e6) if delay else None,
        "duplicates (of 10^6)": millionths(netem.get("duplicate", {}).get("duplicate", 0)),
        "reordering (of 10^6)": millionths(netem.get("reorder", {}).get("reorder", 0)),
        "packets on their way": netem.get("limit"),
        "queue (packets)": kinds.get(_QUEUE, {}).get("limit"),
        "loss (of 2^32)": loss,
    }
    for what, value in asked.items():
        if seen[what] != value:
            raise CannotRun(
                f"link {link.name}, leaving {end.node}: the kernel shows {what} {seen[what]} where {value} was asked for; "
                "figures from such a link would be wrong"
            )


def read_drops(plan: Plan) -> dict[tuple[str, str], Drops]:
    """The drops so far of every direction that leaves a switch, or a host whose link is shaped, by (from, to)."""
    ways = {end: (end.node, link.other(end.node)) for link in plan.network.links for end in plan.ends(link)}
    looked_at = (end for end, way in ways.items() if not end.namespace or is_shaped(plan.network.link(*way)))
    overruns = {} if plan.kernel_datapath else _read_overruns()
    return {ways[end]: drops + Drops(overrun=overruns.get(end.interface, 0)) for end, drops in drops_at(looked_at).items()}


def drops_at(ends: Iterable[End]) -> dict[End, Drops]:
    """The packets that each interface has dropped and duplicated so far."""
    shown = _read_all(ends)
    # Only an interface that duplicates packets has the counting filter. A fault may have changed the link, so the kernel is asked.
    counted = _read_filters(end for end, qdiscs in shown.items() if _duplicates(_kinds(qdiscs)))
    return {end: _drops(qdiscs, _counted_by(counted[end]) if end in counted else None) for end, qdiscs in shown.items()}


def _read_overruns() -> dict[str, int]:
    """For every port of a switch in userspace, the packets that found the buffer of its packet socket full."""
    shown = run(["ss", "--packet", "--memory", "--numeric", "--processes"])
    ports = re.findall(r"\*:(\S+)\s.*ovs-vswitchd.*skmem:\(.*,d(\d+)\)", shown)
    return {interface: int(count) for interface, count in ports}


def _drops(qdiscs: list[dict[str, Any]], counted: int | None) -> Drops:
    """The drops of an interface from its counters; `counted` is the number of packets behind the loss filter, if a filter counts them.

    Packets that entered the loss filter and were not counted behind it were lost; the queue counts its own drops; packets in the queue
    beyond those counted are duplicates. Without `counted` there are no duplicates, and packets that did not reach the queue were lost.
    """
    entered = sum(qdisc["packets"] for qdisc in qdiscs if qdisc["kind"] == "clsact")
    root: dict[str, Any] = next((qdisc for qdisc in qdiscs if qdisc.get("root")), {"packets": 0, "drops": 0, "qlen": 0})
    reached = root["packets"] + root["drops"] + root["qlen"]
    if counted is not None:
        return Drops(entered - counted, root["drops"], duplicated=reached - counted)
    return Drops(entered - reached if entered else 0, root["drops"])


def _read_all(ends: Iterable[End]) -> dict[End, list[dict[str, Any]]]:
    """Every queueing discipline on each interface, with one command for each namespace."""
    found: dict[End, list[dict[str, Any]]] = {}
    for namespace, there in _by_namespace(ends).items():
        shown: dict[str, list[dict[str, Any]]] = {}
        for qdisc in json.loads(run(["tc", *_inside(namespace), "-s", "-j", "qdisc", "show"])):
            shown.setdefault(qdisc["dev"], []).append(qdisc)
        found |= {end: shown.get(end.interface, []) for end in there}
    return found


def _read_filters(ends: Iterable[End]) -> dict[End, list[dict[str, Any]]]:
    """Every egress filter on each interface."""
    found: dict[End, list[dict[str, Any]]] = {}
    for namespace, there in _by_namespace(ends).items():
        questions = [f"filter show dev {end.interface} egress" for end in there]
        # `tc` prints one line of JSON for each question.
        answers = run(["tc", *_inside(namespace), "-s", "-j", "-batch", "-"], questions).splitlines()
        found |= {end: json.loads(answer) for end, answer in zip(there, filter(None, answers), strict=True)}
    return found


def _by_namespace(ends: Iterable[End]) -> dict[str, list[End]]:
    grouped: dict[str, list[End]] = {}
    for end in ends:
        grouped.setdefault(end.namespace, []).append(end)
    return grouped


def _inside(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []


def _loss_of(filters: Iterable[dict[str, Any]]) -> int:
    """The loss of an interface by its filters, as a share of 2^32."""
    for shown in filters:
        program = shown.get("options", {}).get("bytecode", {}).get("insns", [])
        if shown["pref"] == _LOSS and len(program) == 1:
            return 2**32
        if shown["pref"] == _LOSS and len(program) == 4:
            return int(program[1]["k"])
    return 0


def _counted_by(filters: Iterable[dict[str, Any]]) -> int:
    """The packets that the counting filter of an interface has seen: those that reached netem."""
    actions = (shown.get("options", {}).get("actions", []) for shown in filters if shown["pref"] == _COUNTED)
    return sum(action["stats"]["packets"] for action in chain.from_iterable(actions))
