"""The books: every datagram sent is accounted for, or the figures of the run cannot be trusted.

    what an agent says it sent   =  what was seen leaving it  +  what the kernel dropped before that  -  what links duplicated
    what was seen going into it  =  what it received  +  refused  +  at most what was lost to a full buffer or to nobody listening
                                    (of an agent that was killed, one datagram more: it may not have been counted yet, in both lines above)
    what was seen leaving        =  what was seen arriving  +  what vanished on the way
    what vanished at a node      =  what was dropped on its way out of that node or into it, or what a fault explains (analysis.excuses)
    what left a switch           <= what reached it  +  what its links duplicated
                                    (of a datagram to a group: on each branch of the group's tree)

Of a datagram to a group, each copy for a member is accounted for: it arrived, or it vanished at a node on its way along the group's tree.
One datagram that is dropped may have been for several members. No copy may be seen on a link that is on the way to no member.

At every destination the cost bit is set exactly if the captures show the packet, or that copy, on an expensive link. All functions here are
pure, and take a few small sums that Spark's workers have computed.

The packets of a guest are foreign: nobody counts them at hosts, and their journeys cannot be followed. Of them only this is checked:

    what left a switch           <= what reached it  +  what its links duplicated
    what reached a switch        <= what left it  +  what was dropped on its way out of it or into it, in a run without faults
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from runfiles.format import CaptureRecord
from runfiles.reading import RunInput

FOREIGN: Final = "foreign"
GUEST: Final = "guest"
GUEST_OUTSIDE: Final = "guest-outside"
"""The purpose of a guest's packets from before the run began, when the guest was starting, or after it ended, when the guest was killed."""
# Faults after which links are shaped again. Packets duplicated just before that are not counted.
_RESHAPING: Final = frozenset({"link-change", "heal", "switch-stop"})
# If a smaller share of packets was checked, balanced books say so little that the reasons for the verdict mention the share.
LEAST_CHECKED: Final = 0.5
# If the switches lose more packets than this because they are slow, the machine and not the network decides what a protocol sees.
MOST_OVERRUN: Final = 0.01


class CaptureReport(msgspec.Struct, frozen=True):
    """What was found in one capture file."""

    file: str
    packets: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()


def merged(reports: Iterable[CaptureReport]) -> list[CaptureReport]:
    """One report for each file, from the reports on parts of files."""
    files: dict[str, CaptureReport] = {}
    for report in reports:
        so_far = files.get(report.file, CaptureReport(report.file))
        packets, skipped = so_far.packets + report.packets, so_far.skipped + report.skipped
        files[report.file] = CaptureReport(report.file, packets, skipped, (*so_far.problems, *report.problems))
    return list(files.values())


class LinkCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one direction of a link carried for one purpose."""

    link: str
    source: str
    target: str
    expensive: bool
    purpose: str
    packets: int
    bytes: int


class Fates(msgspec.Struct, frozen=True, kw_only=True):
    """How many packets had the same fate, which `analysis.tables.journeys` finds, and one of them as an example.

    Of a packet to a group, each copy for a member counts as one of `packets`. `excused`: a fault explains the fate. `checked`: a loss of
    the packet without a cause would have been noticed anywhere on its way. `unpaid`: the packet vanished before the first expensive link
    that it would have had to cross. `stray`: a copy on a link that is on the way to no member. `shared`: the copy vanished in one datagram
    with another one that is counted; `perhaps_shared`: it did so if the switch where it vanished lost the datagram before copying it.
    """

    gap: bool
    repeated: bool
    wrong_bit: bool
    vanished_at: str | None
    excused: bool = False
    checked: bool = True
    unpaid: bool = False
    stray: bool = False
    shared: bool = False
    perhaps_shared: bool = False
    packets: int
    example: str


class Forks(msgspec.Struct, frozen=True, kw_only=True):
    """How many more copies of datagrams to groups a node sent than it got, and how many of these were not one for each branch."""

    node: str
    made: int
    excess: int


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """Whether every packet is accounted for, the differences, and the sums."""

    balanced: bool
    differences: tuple[str, ...]
    sent: int
    seen_leaving: int
    seen_arriving: int
    received: int
    refused: int
    undelivered: int
    vanished: int
    vanished_link_down: int
    dropped_loss: int
    dropped_queue: int
    dropped_overrun: int
    duplicated: int
    wrong_cost_bits: int
    foreign: int
    """Datagrams to the agents' port that do not belong to this run, counted on their way into a host only."""
    packets: int = 0
    """Host-to-host packets of this run that were seen; of a packet to a group, the copies for its members."""
    checked_share: float | None = None
    """The share of these packets whose loss without a cause would have been noticed; a fault would have excused the others."""
    unpaid: int = 0
    """Packets between clusters that vanished before their first expensive link. Their cost is not counted."""
    foreign_expensive: int = 0
    """Datagrams to our port that were not of this run, on expensive links. Their cost is not counted either."""
    guest: bool = False
    """Whether the packets are a guest's, which are accounted for at links only."""


def balance(
    run: RunInput,
    costs: Sequence[LinkCost],
    journeys: Sequence[Fates],
    reports: Sequence[CaptureReport],
    forks: Sequence[Forks] = (),
    wrong_bits: int = 0,
) -> Books:
    """Do the books of one run. `wrong_bits` is for guests: their packets with a cost bit that cannot be right."""
    leaving, arriving = seen_leaving(costs), seen_arriving(costs)
    differences = (
        *run.run.problems,
        *_capture_differences(run.run.captures, reports),
        *_switch_differences(run, costs, forks),
    )
    if run.run.guest:
        differences += tuple(_guest_differences(run, costs, wrong_bits))
    else:
        differences += (
            *_host_differences(run, leaving, arriving),
            *_journey_differences(journeys, duplicates=any(drops.duplicated for drops in run.run.link_drops)),
            *_vanished_differences(run, journeys),
        )
    hosts, counters = run.network.hosts, run.counters.values()
    return Books(
        balanced=not differences,
        differences=differences,
        sent=sum(host.get("sent", 0) for host in counters),
        seen_leaving=sum(leaving[host] for host in hosts),
        seen_arriving=sum(arriving[host] for host in hosts),
        received=sum(host.get("received", 0) for host in counters),
        refused=sum(_refused(host) for host in counters),
        undelivered=sum(_undelivered(host) for host in counters),
        vanished=sum(group.packets for group in journeys if group.vanished_at),
        vanished_link_down=sum(group.packets for group in journeys if group.vanished_at and group.excused),
        dropped_loss=sum(drops.loss for drops in run.run.link_drops),
        dropped_queue=sum(drops.queue for drops in run.run.link_drops),
        dropped_overrun=sum(drops.overrun for drops in run.run.link_drops),
        duplicated=sum(drops.duplicated for drops in run.run.link_drops),
        wrong_cost_bits=sum(group.packets for group in journeys if group.wrong_bit) + wrong_bits,
        foreign=sum(cost.packets for cost in costs if cost.purpose == FOREIGN and cost.target in run.network.numbers),
        packets=sum(group.packets for group in journeys),
        checked_share=_checked_share(journeys),
        unpaid=sum(group.packets for group in journeys if group.unpaid),
        foreign_expensive=sum(cost.packets for cost in costs if cost.purpose == FOREIGN and cost.expensive),
        guest=run.run.guest,
    )


def told_books(books: Books) -> str:
    """The books in half a sentence: whether they balance, and which share of packets was checked."""
    state = "balanced" if books.balanced else f"open in {len(books.differences)} places"
    return f"books {state} at links only, as for any guest" if books.guest else f"books {state}, {_checked(books)} checked"


def counted(number: int, things: str) -> str:
    """A number of things in words: `1 packet`, `2 packets`."""
    return f"{number} {things}{'' if number == 1 else 's'}"


def told_omissions(books: Books) -> str:
    """What the cost of a run leaves out, as far as that was counted; empty if nothing was."""
    whose = "its" if books.unpaid == 1 else "their"
    parts = [
        f"{counted(books.unpaid, 'packet')} lost before {whose} first expensive link" if books.unpaid else "",
        f"{counted(books.foreign_expensive, 'foreign datagram')} on expensive links" if books.foreign_expensive else "",
    ]
    return " and ".join(filter(None, parts))


def _checked_share(journeys: Iterable[Fates]) -> float | None:
    groups = list(journeys)
    packets = sum(group.packets for group in groups)
    return sum(group.packets for group in groups if group.checked) / packets if packets else None


def reservations_about(books: Books) -> tuple[str, ...]:
    """What a reader of the verdict must know of the books although they balance.

    A reservation does not make the verdict unknown. Promises are judged on event logs and costs on the packets that were seen, so no
    broken promise looks kept because a packet vanished unnoticed. Besides, such a packet vanished where a fault lost packets anyway, which
    a protocol has to cope with.
    """
    found = []
    if books.guest:
        found.append(
            "packets of a guest are counted link by link: they are not told apart by message, and their journeys are not followed"
        )
    if books.checked_share is not None and books.checked_share < LEAST_CHECKED:
        found.append(f"only {_checked(books)} were checked: faults would have excused the loss of the others")
    if books.dropped_overrun > MOST_OVERRUN * books.packets:
        # Of a guest's packets, journeys are not followed, so nobody knows how many there are.
        of_all = f" of {books.packets}" if books.packets else ""
        found.append(
            f"{books.dropped_overrun}{of_all} packets were lost because the switches did not take them in time: "
            "the machine was too slow or too busy for this run"
        )
    return tuple(found)


def _checked(books: Books) -> str:
    return "no packets" if books.checked_share is None else f"{100 * books.checked_share:.1f} % of packets"


def seen_leaving(costs: Iterable[LinkCost]) -> Counter[str]:
    """Datagrams of this run seen on their way out of each node."""
    total: Counter[str] = Counter()
    for cost in costs:
        total[cost.source] += cost.packets if cost.purpose != FOREIGN else 0
    return total


def seen_arriving(costs: Iterable[LinkCost]) -> Counter[str]:
    """Datagrams seen on their way into each node, also foreign ones, which the agent there has to refuse."""
    total: Counter[str] = Counter()
    for cost in costs:
        total[cost.target] += cost.packets
    return total


def _capture_differences(captures: Iterable[CaptureRecord], reports: Iterable[CaptureReport]) -> Iterator[str]:
    found = {report.file: report for report in reports}
    for capture in captures:
        report = found.get(capture.file, CaptureReport(capture.file, problems=("was not read",)))
        yield from (f"capture {capture.file} {problem}" for problem in report.problems)
        if capture.dropped:
            yield f"capture {capture.file} misses {capture.dropped} packets that came faster than they could be written"
        if capture.captured is None:
            yield f"capture {capture.file} was cut off: its tcpdump ended without reporting its counts"
        elif not report.problems and report.packets != capture.captured:
            yield f"capture {capture.file} holds {report.packets} packets, but {capture.captured} were captured"


def _host_differences(run: RunInput, leaving: Counter[str], arriving: Counter[str]) -> Iterator[str]:
    """Compare the counters of each host with the captures of its access link."""
    dropped, duplicated = _dropped_out_of(run), _duplicated_out_of(run)
    failed = {fault.target for fault in run.faults if fault.fault in {"link-down", "switch-stop"}}
    # An agent counts a datagram after it has sent or handled it. One that is killed in between leaves one uncounted.
    killed = Counter(fault.target for fault in run.faults if fault.fault == "crash")
    for host in run.network.hosts:
        counters = run.counters.get(host)
        if counters is None:
            yield f"{host} left no counters"
            continue
        sent = counters.get("sent", 0)
        missing = sent + duplicated[host] - leaving[host]
        switch = run.network.access_switch(host)
        excused = not failed.isdisjoint({switch, run.network.link(host, switch).name})
        if missing < -killed[host] or (missing > dropped[host] and not excused):
            yield f"{host} says it sent {sent} datagrams, {leaving[host]} were seen leaving it and {dropped[host]} were dropped before that"
        received, refused, undelivered = counters.get("received", 0), _refused(counters), _undelivered(counters)
        # The kernel counts what it could not deliver for the whole host, so packets of other programs may be among it.
        if not 0 <= arriving[host] - received - refused <= undelivered + killed[host]:
            yield (
                f"{arriving[host]} datagrams were seen on their way into {host}, which says {received} were received, "
                f"{refused} refused and {undelivered} lost to a full buffer or to nobody listening"
            )


def _switch_differences(run: RunInput, costs: Sequence[LinkCost], forks: Iterable[Forks]) -> Iterator[str]:
    """A switch sends only what it received. The kernel must have counted any excess as duplicates, unless its count was cut short."""
    if any(drops.duplicated for drops in run.run.link_drops) and any(fault.fault in _RESHAPING for fault in run.faults):
        return
    ours = [cost for cost in costs if cost.purpose != FOREIGN]
    leaving, arriving, duplicated = seen_leaving(ours), seen_arriving(ours), _duplicated_out_of(run)
    copied = {fork.node: fork for fork in forks}
    for switch in run.network.switches:
        made, excess = (copied[switch].made, copied[switch].excess) if switch in copied else (0, 0)
        if leaving[switch] - made > arriving[switch] + duplicated[switch]:
            yield (
                f"{arriving[switch]} datagrams were seen on their way into {switch} and {leaving[switch]} on their way out"
                f"{f', {made} of them copies for groups' if made > 0 else ''}, and its links duplicated {duplicated[switch]}"
            )
        if excess > duplicated[switch]:
            yield (
                f"{switch} sent {excess} copies of datagrams to groups on branches that already had theirs, "
                f"and its links duplicated {duplicated[switch]}"
            )


def _guest_differences(run: RunInput, costs: Iterable[LinkCost], wrong_bits: int) -> Iterator[str]:
    """What can be wrong with packets that nobody counts at hosts and that cannot be told apart."""
    if wrong_bits:
        yield f"{_count(wrong_bits)} seen with a cost bit that does not match the clusters of sender and receiver"
    if run.faults:
        return
    ours = [cost for cost in costs if cost.purpose != FOREIGN]
    leaving, arriving, dropped = seen_leaving(ours), seen_arriving(ours), _dropped_out_of(run)
    for switch in run.network.switches:
        if arriving[switch] > leaving[switch] + dropped[switch]:
            yield (
                f"{arriving[switch]} packets were seen on their way into {switch}, {leaving[switch]} on their way out, "
                f"and {dropped[switch]} were dropped there"
            )


def _journey_differences(journeys: Iterable[Fates], *, duplicates: bool) -> Iterator[str]:
    for group in journeys:
        count = _count(group.packets)
        if group.gap:
            yield f"{count} seen leaving a node that no capture shows reaching it, {group.example} for one"
        if group.repeated and not group.excused and not duplicates:
            yield f"{count} seen more than once in the same direction of a link, {group.example} for one"
        if group.stray and not group.excused:
            yield f"{count} seen on a link that is on the way to no member of its group, {group.example} for one"
        if group.wrong_bit:
            yield f"{count} seen to arrive with a cost bit that does not match the links crossed, {group.example} for one"


def _vanished_differences(run: RunInput, journeys: Iterable[Fates]) -> Iterator[str]:
    dropped, vanished = _dropped_out_of(run), defaultdict[str, list[Fates]](list)
    for group in journeys:
        if group.vanished_at is not None and not group.excused and not group.shared:
            vanished[group.vanished_at].append(group)
    overrun = Counter[str]()
    for drops in run.run.link_drops:
        overrun[drops.source] += drops.overrun
    for node, groups in sorted(vanished.items()):
        # A switch that did not take a datagram in time made no copy of it for any other branch than the one it is counted for.
        copies = overrun[node] * max(len(run.network.neighbours[node]) - 2, 0)
        perhaps_shared = sum(group.packets for group in groups if group.perhaps_shared)
        count = sum(group.packets for group in groups) - min(perhaps_shared, copies)
        if count > dropped[node]:
            yield f"{_count(count)} last seen at {node}, where {dropped[node]} were dropped, {groups[0].example} for one"


def _dropped_out_of(run: RunInput) -> Counter[str]:
    """The packets dropped at each node, over all its links."""
    total: Counter[str] = Counter()
    for drops in run.run.link_drops:
        total[drops.source] += drops.loss + drops.queue + drops.overrun
    return total


def _duplicated_out_of(run: RunInput) -> Counter[str]:
    """The packets that the links out of each node duplicated."""
    total: Counter[str] = Counter()
    for drops in run.run.link_drops:
        total[drops.source] += drops.duplicated
    return total


def _refused(counters: dict[str, int]) -> int:
    return sum(count for name, count in counters.items() if name.startswith("refused_"))


def _undelivered(counters: dict[str, int]) -> int:
    """Datagrams that reached a host and not its agent: the buffer was full, or the agent was not running."""
    return counters.get("overflowed", 0) + counters.get("unreachable", 0)


def _count(packets: int) -> str:
    return "1 packet was" if packets == 1 else f"{packets} packets were"
