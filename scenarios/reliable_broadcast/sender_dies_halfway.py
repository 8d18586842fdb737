#!./castbed run
"""The sender dies after some hosts have its message: best-effort leaves the others without it, reliable protocols do not (second paper).

The sender's agent is killed right after the third datagram of its fifth message, before the fourth. So exactly three of the other hosts
get the message from the sender, whatever the protocol. The sender does not come back.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Crash, Trigger
from scenarios.reliable_broadcast import family
from topologies import clusters

FIFTH = ("h1", 5)
REACHED = 3


def scenario(k: int = 2, size: int = 3) -> list[Variant]:
    """A few messages, of which the fifth is the sender's last.

    k: clusters, in a line
    size: hosts of each cluster
    """
    origin, sequence = FIFTH
    scenario = Scenario(
        network=clusters(k, size, "line"),
        faults=(Crash(host=origin, when=Trigger("send", host=origin, origin=origin, sequence=sequence, nth=REACHED)),),
        workload=Workload(messages=sequence, interval=100.0, settle=12_000.0),
    )
    return family(scenario)


def claims(runs: Runs) -> Iterator[Claim]:
    """Which hosts the sender reached, and whether the other hosts agree on the message."""
    for run in runs:
        reached = run.reached(FIFTH, FIFTH[0])
        text = f"{run.label}: the sender reached {REACHED} of {len(run.network.hosts) - 1} hosts with its last message"
        yield Claim("-", text, len(reached) == REACHED, ", ".join(reached))
        yield kept("agreement", run, Guarantee.AGREEMENT, expected=run.label != "best-effort")
