#!./castbed run
"""A replica commits, answers its client and dies: with reliable broadcast no other host may know of it, with uniform all do (second paper).

Every message is a transaction, and delivering it means committing it. The host that broadcasts is killed at the moment when it has
delivered its fifth message, before it sends another datagram. It does not come back.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Crash, Trigger
from scenarios.reliable_broadcast import family
from topologies import clusters

FIFTH = ("h1", 5)


def scenario(k: int = 2, size: int = 3) -> list[Variant]:
    """A few transactions, of which the fifth is the replica's last.

    k: clusters, in a line
    size: hosts of each cluster
    """
    origin, sequence = FIFTH
    scenario = Scenario(
        network=clusters(k, size, "line"),
        faults=(Crash(host=origin, when=Trigger("deliver", host=origin, origin=origin, sequence=sequence)),),
        workload=Workload(messages=sequence, interval=100.0, settle=12_000.0),
    )
    return family(scenario)


def claims(runs: Runs) -> Iterator[Claim]:
    """Whether other hosts know the committed transaction (uniform agreement), and whether the hosts that live agree."""
    for run in runs:
        delivered = run.delivered()
        knows = [host for host in run.network.hosts if FIFTH in delivered[host]]
        survives = run.label == "uniform"
        text = f"{run.label}: the transaction is known to {'everybody' if survives else 'nobody else'}"
        yield Claim("-", text, len(knows) == (len(delivered) if survives else 1), f"committed at {', '.join(knows)}")
        yield kept("uniform", run, Guarantee.UNIFORM_AGREEMENT, expected=survives)
        yield kept("agreement", run, Guarantee.AGREEMENT, expected=True)
