#!./castbed run
"""What it saves to send a message only to its destinations: cost and delay against the share of destinations (fifth paper).

Six entities send to groups of one to six of them. With SPO only destinations and senders acknowledge. The other protocols know groups
too, and are there for comparison.
"""

from collections.abc import Iterator
from statistics import median

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep, kept
from hostagent.contract.promises import Guarantee
from scenarios import Group, Scenario, Variant, Workload
from topologies import lan

ENTITIES = 6
SIZES = (1, 2, 3, 4, 6)
PROTOCOLS = ("spo", "basic", "uniform")


def scenario() -> list[Variant]:
    """Every entity sends to a group that begins with itself, of each size, with each protocol, on multicast."""
    network = lan(ENTITIES, bandwidth_mbit=10.0)
    stream = Workload(messages=60, interval=50.0, settle=3000.0)
    return [
        Variant(f"{protocol}-{size}", scenario, protocol, medium="multicast")
        for protocol in PROTOCOLS
        for size in SIZES
        for scenario in (Scenario(network=network, sources=network.hosts, groups=_groups(network.hosts, size), workload=stream),)
    ]


def _groups(hosts: tuple[str, ...], size: int) -> tuple[Group, ...]:
    """For each host a group: the host itself and those that follow it in a circle. The n-th message goes from the n-th host to its own."""
    twice = hosts * 2
    return tuple(Group(f"from-{host}", twice[place : place + size]) for place, host in enumerate(hosts))


def claims(runs: Runs) -> Iterator[Claim]:
    """That cost and delay of SPO fall with the number of destinations, and that only destinations deliver."""
    spo = [runs[f"spo-{size}"] for size in SIZES]
    packets = [_packets(run) for run in spo]
    yield Claim(
        "cost",
        "SPO: the fewer destinations, the fewer packets",
        packets == sorted(packets),
        ", ".join(f"{size} of {ENTITIES}: {cost:.2f}" for size, cost in zip(SIZES, packets, strict=True)),
    )
    delays = [median(run.last_ms().values()) for run in spo]
    yield Claim(
        "cost",
        "SPO: to few destinations the delay is shorter than to all",
        delays[0] < delays[-1],
        ", ".join(f"{size} of {ENTITIES}: {delay:.1f} ms" for size, delay in zip(SIZES, delays, strict=True)),
    )
    for run in runs:
        yield kept("-", run, Guarantee.NO_CREATION, expected=True)


def sweep(runs: Runs) -> Sweep:
    """Packets per message against the share of destinations, a line for each protocol."""
    lines = {
        protocol: [(100 * size / ENTITIES, _packets(runs[f"{protocol}-{size}"]), "") for size in SIZES] for protocol in PROTOCOLS
    }
    return Sweep(
        title="Packets per message on a LAN with multicast", x="destinations, % of hosts", y="packets per message", lines=lines
    )


def _packets(run: MeasuredRun) -> float:
    """All packets per message, on any link."""
    return sum(run.packets_for(purpose) for purpose in ("data", "repair", "control")) / run.summary.messages
