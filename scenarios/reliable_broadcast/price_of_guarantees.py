#!./castbed run
"""The cost of each guarantee: all protocols of the first two papers on the same network, with packets, delays and load side by side.

The number of packets that carry a message must be as theory says: n - 1 if the sender alone sends, n (n - 1) if every host passes every
message on.
"""

from collections.abc import Iterator
from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Workload
from topologies import clusters
from topologies.properties import Expensive

PROTOCOLS = ("best-effort", "basic", "eager-reliable", "lazy-reliable", "uniform", "cluster-tree")
TO_ALL = frozenset({"eager-reliable", "uniform"})


def scenario(k: int = 4, size: int = 3, shape: str = "ring", **expensive: Unpack[Expensive]) -> Scenario:
    """A slow stream, so that even the most expensive protocol keeps up.

    k: clusters
    size: hosts of each cluster
    shape: how clusters are joined: line, ring, star, tree, mesh or grid
    """
    stream = Workload(messages=200, interval=100.0, settle=3000.0)
    return Scenario(network=clusters(k, size, shape, **expensive), protocols=PROTOCOLS, workload=stream)


def claims(runs: Runs) -> Iterator[Claim]:
    """The packet counts of the second paper, compared with the captures, and what each of its protocols promises."""
    for run in (run for run in runs if run.label in PROTOCOLS):
        if run.label != "cluster-tree":
            yield _counted(run)
        for promised in (Guarantee.VALIDITY, Guarantee.NO_DUPLICATION, Guarantee.NO_CREATION):
            yield kept("properties", run, promised, expected=True)


def _counted(run: MeasuredRun) -> Claim:
    """Packets that carry a message, over all links, without repetitions and acknowledgements."""
    hosts, messages = len(run.network.hosts), run.summary.messages
    formula, each = ("n (n - 1)", hosts * (hosts - 1)) if run.label in TO_ALL else ("n - 1", hosts - 1)
    packets = run.packets_for("data")
    text = f"{run.label}: {formula} = {each} packets with each message"
    figure = f"{packets / messages:.2f}, and {run.packets_for('repair')} repetitions in all"
    if packets < each * messages and run.input.run.pack_ms is not None:
        # On a machine that is too slow for the stream, a host sends several messages in one wake-up, and they share packets.
        return Claim("packets", text, None, f"{figure}; messages shared packets, so run it with --pack off")
    return Claim("packets", text, packets == each * messages, figure)
