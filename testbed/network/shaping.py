"""Bandwidth, delay, jitter, loss, duplicates, overtaking and queues on links: what to ask of the kernel, and whether it did it.

Each direction of a link is shaped where it leaves a node, by a chain: loss, bandwidth, delay, queue.

* Loss is a filter in front of everything else: four instructions that compare a random number with a threshold. It needs no netem, and
  what goes into it and does not come out was lost, so that lost packets and packets that found the queue full are told apart.
* Bandwidth is a token bucket, which takes packets from what stands below it.
* Delay, jitter, duplicates and overtaking are netem's, if the kernel has it. It holds what is on its way and drops nothing. A duplicate
  takes up bandwidth as any packet. Netem does not count them, so a second filter, behind the loss, counts what comes to it.
* The queue is last: packets that are not delayed any longer and for which the bucket has no tokens. For a constant delay it makes no
  difference whether they wait before or after it. A link with delay and without bandwidth needs no queue.

In virtual time `simulator.pipe` does the same, except that a packet that overtakes leaves out the delay only; with netem also the queue.

Neither may tell the sender. Open vSwitch in userspace sends packets in batches, and when the kernel reports one as dropped, it sends that
one again or throws the rest of the batch away: asked for 5 %, the network would lose something else, and packets would vanish that nobody
counted. So the filter takes a packet as if it were delivered, and a full queue lets its oldest packet go and takes the new one.

Stock tools go on when the kernel lacks a piece, with an unimpaired link. Here every parameter is read back, and a difference stops the run.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from operator import add, sub
from typing import Any

from testbed.errors import CannotRun
from testbed.network.plan import End, Plan
from testbed.network.shell import run, tc
from topologies.network import DEFAULT_QUEUE, Link, Network

# Ten full frames may leave at once; below that the bucket empties faster than the kernel's timer refills it.
BURST_BYTES = 15000
# A switch in userspace has one buffer for all packets that wait in queues, of 208 KiB, and a small packet takes 768 bytes of it. What
# does not fit is lost without a count.
MOST_QUEUED_IN_USERSPACE = 250
_RANDOM = "32 0 0 4294963256"  # load a random 32-bit number
_PASS = "6 0 0 4294967295"  # noqa: S105 - an instruction, no password: return "no opinion"
_TAKE = "6 0 0 4"  # return "stolen": gone, and the sender is told that it was sent
_COUNT = "1,6 0 0 4294967295"  # every packet is of the filter's class, and its action counts it
# The order of the filters.
_LOSS, _COUNTED = 1, 2
_QUEUE = "pfifo_head_drop"
# What netem holds at most: more than a fast link carries in a second. It is not the link's queue.
ON_THE_WAY = 1_000_000


@dataclass(frozen=True)
class Drops:
    """Packets that were dropped at an interface, by cause."""

    loss: int = 0
    """On their way out, by the link's loss."""
    queue: int = 0
    """On their way out, because the link's queue was full."""
    overrun: int = 0
    """On their way in, because the switch did not take them fast enough: it has a small buffer for each port if it runs in userspace."""
    duplicated: int = 0
    """Not dropped but the opposite: made on their way out."""

    def __add__(self, other: "Drops") -> "Drops":
        return Drops(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: "Drops") -> "Drops":
        return Drops(*map(sub, astuple(self), astuple(other)))


def is_shaped(link: Link) -> bool:
    """Whether anything has to be asked of the kernel for this link."""
    return bool(link.bandwidth_mbit or _is_netem(link) or link.loss or link.queue_packets)


def _is_netem(link: Link) -> bool:
    return bool(link.delay_ms or millionths(link.duplicate))


def _has_queue(link: Link) -> bool:
    """Whether packets can wait for anything but their delay."""
    return bool(link.bandwidth_mbit) or (is_shaped(link) and not _is_netem(link))


def needs_netem(network: Network) -> list[str]:
    """The links that only a kernel with netem can emulate."""
    return [link.name for link in network.links if _is_netem(link)]


def needs_kernel_datapath(network: Network) -> list[str]:
    """The links whose queues are longer than a switch in userspace can fill."""
    return [link.name for link in network.links if (link.queue_packets or 0) > MOST_QUEUED_IN_USERSPACE]


def needs_simulator(network: Network) -> list[str]:
    """The links that do what the testbed does not ask of any kernel."""
    return [link.name for link in network.links if link.burst > 1]


def orders(link: Link, interface: str) -> Iterator[str]:
    """Orders for `tc` that shape one direction of a link, on an interface that is not shaped yet."""
    parent = "root"
    if link.bandwidth_mbit:
        yield f"qdisc add dev {interface} root handle 1: tbf rate {round(link.bandwidth_mbit * 1e6)}bit {_bucket(link)}"
        parent = "parent 1:1"
    if _is_netem(link):
        yield f"qdisc add dev {interface} {parent} handle 10: netem limit {ON_THE_WAY}{_netem(link)}"
        parent = "parent 10:1"
    if _has_queue(link):
        yield f"qdisc add dev {interface} {parent} handle 11: {_QUEUE} limit {link.queue_packets or DEFAULT_QUEUE}"
    if link.loss or millionths(link.duplicate):
        yield f"qdisc add dev {interface} clsact"
    if link.loss:
        yield f"filter add dev {interface} egress prio {_LOSS} bpf da bytecode '{loss_program(link.loss)}'"
    if millionths(link.duplicate):
        yield f"filter add dev {interface} egress prio {_COUNTED} bpf bytecode '{_COUNT}' action ok"


def _netem(link: Link) -> str:
    """The words for netem. Without a delay there is nothing to overtake."""
    words = f" delay {round(link.delay_ms * 1000)}us {round(link.jitter_ms * 1000)}us" if link.delay_ms else ""
    words += f" duplicate {millionths(link.duplicate) / 1e4}%" if millionths(link.duplicate) else ""
    return words + (f" reorder {millionths(link.reorder) / 1e4}%" if link.delay_ms and millionths(link.reorder) else "")


def millionths(share: float) -> int:
    """A share as it is asked of netem, and read back."""
    return round(share * 1e6)


def _bucket(link: Link) -> str:
    # The limit is in bytes and must not be what fills first: the queue below counts in packets.
    return f"burst {BURST_BYTES} limit {(link.queue_packets or DEFAULT_QUEUE) * 1600}"


def loss_program(loss: float) -> str:
    """A classic BPF program that drops this share of packets at random."""
    if loss >= 1:
        return f"1,{_TAKE}"
    return f"4,{_RANDOM},53 0 1 {threshold(loss)},{_PASS},{_TAKE}"


def threshold(loss: float) -> int:
    """A random 32-bit number below this means loss."""
    return round(loss * 2**32)


def shape(plan: Plan) -> None:
    """Shape every link of a network that was just made, and read every parameter back."""
    by_namespace: dict[str, list[str]] = {}
    for link in filter(is_shaped, plan.network.links):
        for end in plan.ends(link):
            by_namespace.setdefault(end.namespace, []).extend(orders(link, end.interface))
    for namespace, lines in by_namespace.items():
        tc(lines, namespace)
    read_back(plan, {(end.node, link.other(end.node)): link for link in plan.network.links for end in plan.ends(link)})


def read_back(plan: Plan, asked: Mapping[tuple[str, str], Link]) -> None:
    """Stop with a sentence unless every direction, by (from, to), is shaped as its link asks; also if that is not at all.

    Only hosts whose link asks for nothing are not looked at: that would be a command for each.
    """
    observed: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for (source, target), link in asked.items():
        end = plan.end(source, target)
        if end.namespace and not is_shaped(link):
            continue
        if end.namespace not in observed:
            observed[end.namespace] = _read_qdiscs(end.namespace)
        qdiscs = observed[end.namespace].get(end.interface, [])
        verify(link, end, qdiscs, _read_loss(end, qdiscs))


def reshape(before: Link, link: Link, end: End) -> None:
    """Shape one direction of a link anew, and read it back. The kernel's count of drops there starts again from zero."""
    present = {qdisc["kind"] for qdisc in _read_qdiscs(end.namespace).get(end.interface, [])}
    removals = []
    if is_shaped(before) and present & {"tbf", _QUEUE, "netem"}:
        removals.append(f"qdisc del dev {end.interface} root")
    if "clsact" in present:
        removals.append(f"qdisc del dev {end.interface} clsact")
    tc([*removals, *orders(link, end.interface)], end.namespace)
    qdiscs = _read_qdiscs(end.namespace).get(end.interface, [])
    verify(link, end, qdiscs, _read_loss(end, qdiscs))


def verify(link: Link, end: End, qdiscs: list[dict[str, Any]], loss: int) -> None:
    """Stop with a sentence unless the kernel shows exactly what the link asks for."""
    kinds = {qdisc["kind"]: qdisc.get("options", {}) for qdisc in qdiscs}
    asked = {
        "bandwidth (bytes/s)": round(link.bandwidth_mbit * 1e6) // 8 if link.bandwidth_mbit else None,
        "delay (us)": round(link.delay_ms * 1000) or None,
        "jitter (us)": round(link.jitter_ms * 1000) if link.delay_ms else None,
        "duplicates (of 10^6)": millionths(link.duplicate),
        "overtaking (of 10^6)": millionths(link.reorder) if link.delay_ms else 0,
        "packets on their way": ON_THE_WAY if _is_netem(link) else None,
        "queue (packets)": (link.queue_packets or DEFAULT_QUEUE) if _has_queue(link) else None,
        "loss (of 2^32)": threshold(link.loss) if link.loss < 1 else 2**32,
    }
    netem = kinds.get("netem", {})
    delay = netem.get("delay", {})
    seen = {
        "bandwidth (bytes/s)": kinds.get("tbf", {}).get("rate"),
        "delay (us)": round(delay["delay"] * 1e6) if delay else None,
        "jitter (us)": round(delay["jitter"] * 1e6) if delay else None,
        "duplicates (of 10^6)": millionths(netem.get("duplicate", {}).get("duplicate", 0)),
        "overtaking (of 10^6)": millionths(netem.get("reorder", {}).get("reorder", 0)),
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
    counts: dict[tuple[str, str], Drops] = {}
    observed: dict[str, dict[str, list[dict[str, Any]]]] = {}
    overruns = {} if plan.kernel_datapath else _read_overruns()
    for link in plan.network.links:
        for end in plan.ends(link):
            if end.namespace and not is_shaped(link):
                continue
            if end.namespace not in observed:
                observed[end.namespace] = _read_qdiscs(end.namespace)
            qdiscs = observed[end.namespace].get(end.interface, [])
            # A fault may have changed what the link was built with.
            duplicates = any("duplicate" in qdisc.get("options", {}) for qdisc in qdiscs)
            dropped = _drops(qdiscs, _read_counted(end) if duplicates else None)
            counts[end.node, link.other(end.node)] = dropped + Drops(overrun=overruns.get(end.interface, 0))
    return counts


def _read_overruns() -> dict[str, int]:
    """For every port of a switch in userspace, the packets that found the buffer of its packet socket full."""
    shown = run(["ss", "--packet", "--memory", "--numeric", "--processes"])
    ports = re.findall(r"\*:(\S+)\s.*ovs-vswitchd.*skmem:\(.*,d(\d+)\)", shown)
    return {interface: int(count) for interface, count in ports}


def _drops(qdiscs: list[dict[str, Any]], counted: int | None) -> Drops:
    """What went into the filter and was not `counted` behind it was lost; the queue counts its own; what is left over was duplicated.

    Where nothing is counted behind the filter, nothing is duplicated either, and what did not reach the queue was lost.
    """
    entered = sum(qdisc["packets"] for qdisc in qdiscs if qdisc["kind"] == "clsact")
    root: dict[str, Any] = next((qdisc for qdisc in qdiscs if qdisc.get("root")), {"packets": 0, "drops": 0, "qlen": 0})
    reached = root["packets"] + root["drops"] + root["qlen"]
    if counted is not None:
        return Drops(entered - counted, root["drops"], duplicated=reached - counted)
    return Drops(entered - reached if entered else 0, root["drops"])


def _read_qdiscs(namespace: str) -> dict[str, list[dict[str, Any]]]:
    """Every queueing discipline in a namespace, by interface."""
    table: dict[str, list[dict[str, Any]]] = {}
    shown = run(["tc", *(["-n", namespace] if namespace else []), "-s", "-j", "qdisc", "show"])
    for qdisc in json.loads(shown):
        table.setdefault(qdisc["dev"], []).append(qdisc)
    return table


def _read_loss(end: End, qdiscs: list[dict[str, Any]]) -> int:
    """The loss in force on an interface, in 2^32ths."""
    if all(qdisc["kind"] != "clsact" for qdisc in qdiscs):
        return 0
    for shown in _read_filters(end, _LOSS):
        program = shown.get("options", {}).get("bytecode", {}).get("insns", [])
        if len(program) == 1:
            return 2**32
        if len(program) == 4:
            return int(program[1]["k"])
    return 0


def _read_counted(end: End) -> int:
    """How many packets have come to netem on an interface that duplicates them."""
    filters = _read_filters(end, _COUNTED)
    return sum(action["stats"]["packets"] for shown in filters for action in shown.get("options", {}).get("actions", []))


def _read_filters(end: End, prio: int) -> list[dict[str, Any]]:
    where = ["-n", end.namespace] if end.namespace else []
    shown = json.loads(run(["tc", *where, "-s", "-j", "filter", "show", "dev", end.interface, "egress"]))
    return [found for found in shown if found["pref"] == prio]
