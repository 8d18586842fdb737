#!./castbed run
"""Ten thousand small messages at full speed on a LAN that loses packets: how long each ordered protocol takes to deliver all of them.

Five hosts send 2,000 messages of 64 bytes each, as fast as they are asked to. Two packets in a hundred are lost on their way between two
hosts. Every protocol must get all messages to all hosts, in order. With --on mininet the hosts share the processors of this machine.
"""

from collections.abc import Iterator
from math import sqrt

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Variant, Workload
from topologies import lan

PROTOCOLS = ("sequencer", "two-phase", "timestamp", "token-site", "trans-total", "totem", "counter", "optimistic")
PARAMETERS = {"optimistic": {"token_owner_ms": 1.0, "late_ms": 5.0}}
"""A host of `optimistic` sends one message in a token period, so the periods are short; on a LAN no message is late for long."""
LOSS = 0.02


def scenario() -> list[Variant]:
    """All hosts send, on multicast."""
    network = lan(5, loss=1 - sqrt(1 - LOSS))
    stream = Workload(messages=10_000, interval=0.2, payload=64, settle=20_000.0)
    asked = Scenario(network=network, sources=network.hosts, workload=stream)
    return [Variant(protocol, asked, protocol, PARAMETERS.get(protocol, {}), medium="multicast") for protocol in PROTOCOLS]


def claims(runs: Runs) -> Iterator[Claim]:
    """That everybody has everything, and how long that took."""
    for run in runs:
        yield _finished(run)
        yield kept("-", run, Guarantee.NO_DUPLICATION, expected=True)


def _finished(run: MeasuredRun) -> Claim:
    expected, deliveries = len(run.broadcasts) * len(run.network.hosts), run.history.deliveries
    standing = len(deliveries) - len(run.history.taken_back)
    last_s = max((run.at_s(delivery.at_ns) for delivery in deliveries), default=0.0)
    rate = len(run.broadcasts) / max(last_s, 1e-9)
    return Claim(
        "-",
        f"{run.label}: all hosts deliver all messages",
        standing == expected,
        f"{standing} of {expected} deliveries, the last after {last_s:.2f} s: {rate:.0f} messages a second",
    )
