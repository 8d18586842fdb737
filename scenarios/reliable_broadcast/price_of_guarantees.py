#!./castbed run
"""What each guarantee costs: all protocols of the first two papers on the same network, with packets, delays and load side by side.

The numbers of packets with a message are known beforehand, and must be met: n - 1 where the sender alone sends, n (n - 1) where everybody
passes everything on.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Workload
from topologies import clusters
from topologies.properties import Expensive

PROTOCOLS = ("best-effort", "basic", "eager-reliable", "lazy-reliable", "uniform", "cluster-tree")
TO_ALL = frozenset({"eager-reliable", "uniform"})


def scenario(k: int = 4, size: int = 3, shape: str = "ring", **expensive: Unpack[Expensive]) -> Scenario:
    """A calm stream, so that even the dearest has time."""
    stream = Workload(messages=200, interval=100.0, settle=3000.0)
    return Scenario(network=clusters(k, size, shape, **expensive), protocols=PROTOCOLS, workload=stream)


def claims(runs: Runs) -> Iterator[Claim]:
    """The algebra of the second paper, counted on the wire."""
    for run in runs:
        if run.label != "cluster-tree":
            yield _counted(run)


def _counted(run: MeasuredRun) -> Claim:
    """Packets with a message, over all links, without repetitions and acknowledgements."""
    hosts, messages = len(run.network.hosts), run.summary.messages
    formula, each = ("n (n - 1)", hosts * (hosts - 1)) if run.label in TO_ALL else ("n - 1", hosts - 1)
    packets = run.packets_for("data")
    text = f"{run.label}: {formula} = {each} packets with each message"
    return Claim(
        "-", text, packets == each * messages, f"{packets / messages:.2f}, and {run.packets_for('repair')} repetitions in all"
    )
