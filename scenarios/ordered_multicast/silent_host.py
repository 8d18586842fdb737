#!./castbed run
"""One host has nothing to say: who waits for it? Each ordered protocol with all hosts busy, and with one of them silent (third paper, 2.2).

All hosts, or all but the last, send messages to everybody, one after another. Where a message must wait for the next message of every
host, as with time stamps and null messages, the silent host's silence is added to its delay. The figure is the median time until the last
host has delivered a message, with the time L that a packet takes on an expensive link. A row of TABLE is a protocol with its parameters,
and whether it waits for the silent host.

    ./castbed run silent_host --set delay_ms=30
"""

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Variant, Workload
from topologies import clusters


class Row(NamedTuple):
    """A protocol, and what is known of it."""

    protocol: str
    parameters: dict[str, object]
    waits: bool = False
    """Whether it waits for a host that has nothing to say."""


SILENCE_MS = 150.0
GAP_MS = 30.0
"""The time between two messages of a host."""
TABLE = {
    "timestamp-answer": Row("timestamp", {"silent": "answer"}),
    "timestamp-null": Row("timestamp", {"silent": "null", "silence_ms": SILENCE_MS}, waits=True),
    "two-phase": Row("two-phase", {}),
    "propagation-graph": Row("propagation-graph", {}),
    "sequencer": Row("sequencer", {}),
}
BUSY, SILENT = "all-busy", "one-silent"


def scenario(delay_ms: float = 10.0) -> list[Variant]:
    """Each protocol twice; each host that sends at all sends every 30 ms.

    delay_ms: milliseconds that a packet takes over an expensive link
    """
    network = clusters(3, 2, "mesh", delay_ms=delay_ms)
    sources = {BUSY: network.hosts, SILENT: network.hosts[:-1]}
    return [
        Variant(
            f"{name}.{kind}",
            Scenario(
                network=network,
                sources=some,
                workload=Workload(messages=20 * len(some), interval=GAP_MS / len(some), settle=3000.0),
            ),
            row.protocol,
            row.parameters,
        )
        for name, row in TABLE.items()
        for kind, some in sources.items()
    ]


def claims(runs: Runs) -> Iterator[Claim]:
    """How much longer a message takes if one host is silent, against half of the silence after which it would speak."""
    for name, row in TABLE.items():
        busy, silent = runs[f"{name}.{BUSY}"], runs[f"{name}.{SILENT}"]
        latency_ms = max(link.delay_ms for link in silent.network.links)
        busy_ms, silent_ms = _delay_ms(busy), _delay_ms(silent)
        text = f"{name}: {'messages wait for' if row.waits else 'nobody waits for'} a host with nothing to say"
        if busy_ms is None or silent_ms is None:
            yield Claim("2.2", text, holds=False, figure="some messages were not delivered everywhere")
            continue
        figure = f"{busy_ms:.1f} ms if all are busy, {silent_ms:.1f} ms if one is silent"
        if latency_ms:
            figure += f": {busy_ms / latency_ms:.1f} L and {silent_ms / latency_ms:.1f} L"
        yield Claim("2.2", text, (silent_ms - busy_ms > SILENCE_MS / 4) == row.waits, figure)
        if row.waits:
            yield from _all_busy(busy, busy_ms, latency_ms)


def _all_busy(run: MeasuredRun, delay_ms: float, latency_ms: float) -> Iterator[Claim]:
    """Where nobody is silent for long, the messages alone are enough: the cheapest way to one order."""
    until_ns = run.at_ns(run.stream_end_s - SILENCE_MS / 1000)
    messages = frozenset(broadcast.message for broadcast in run.broadcasts if broadcast.at_ns < until_ns)
    sent, n, k = run.data_packets(), len(run.network.hosts), len(run.network.clusters)
    packets = sum(sent[message] for message in messages) / len(messages)
    expensive = run.expensive_packets(messages)["data"] / len(messages)
    text = f"{run.label}: n - 1 packets with each message, n - s of them expensive"
    right = (packets, expensive) == (n - 1, n - n // k)
    yield Claim("2.2", text, right, f"{packets:.2f} a message, {expensive:.2f} of them expensive")
    text = f"{run.label}: a message takes L and the longest silence at most"
    yield Claim("2.2", text, delay_ms <= latency_ms + GAP_MS, f"{delay_ms:.1f} ms; L = {latency_ms:g} ms, silence {GAP_MS:g} ms")


def _delay_ms(run: MeasuredRun) -> float | None:
    """The median time from the broadcast of a message to its last delivery; None if one is missing somewhere."""
    last_ns: dict[tuple[str, int], int] = {}
    for delivery in run.history.deliveries:
        last_ns[delivery.message] = max(delivery.at_ns, last_ns.get(delivery.message, 0))
    due = sum(len(to) for to in run.history.destinations.values())
    if len(run.history.deliveries) < due:
        return None
    return median((last_ns[one.message] - one.at_ns) / 1e6 for one in run.broadcasts)
