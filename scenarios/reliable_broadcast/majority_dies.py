#!./castbed run
"""A majority delivers a message and dies: a protocol that waits for a majority loses the message, uniform does not (second paper).

The last two of six hosts are cut off while the fifth message is broadcast, too briefly to be suspected. Each of the other four is killed
soon after it has delivered that message. `majority` delivers when more than half of the hosts have a message: so the four deliver it and
die, and no host that lives has it. `uniform` waits for the last two, as no host suspects them.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, Runs, kept
from hostagent.contract.promises import Guarantee
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Crash, Trigger
from scenarios.reliable_broadcast import LINKS
from scenarios.scenario import pulled
from topologies import clusters

FIFTH = ("h1", 5)
DYING = ("h1", "h2", "h3", "h4")
# The last two hosts are cut off before the fifth message is broadcast at 400 ms, and connected again before any host suspects them.
CUT_MS, BACK_MS = 350.0, 1500.0
# The time from delivery to death, in which a host sends all that it passes on.
DIES_AFTER_MS = 150.0
DETECTOR = {"period_ms": 500.0, "timeout_ms": 2500.0, "longest_timeout_ms": 3000.0}


def scenario() -> list[Variant]:
    """Three clusters of two hosts in a line, once with each rule for delivery."""
    origin, sequence = FIFTH
    deaths = (
        Crash(host=host, when=Trigger("deliver", host=host, origin=origin, sequence=sequence, after_ms=DIES_AFTER_MS))
        for host in DYING
    )
    scenario = Scenario(
        network=clusters(3, 2, "line"),
        faults=(*pulled("s2-s3", CUT_MS, BACK_MS), *deaths),
        workload=Workload(messages=sequence, interval=100.0, settle=15_000.0),
    )
    rules = {"uniform": "all", "majority": "majority"}
    return [Variant(label, scenario, "uniform", {**LINKS, **DETECTOR, "waits_for": rule}) for label, rule in rules.items()]


def claims(runs: Runs) -> Iterator[Claim]:
    """The four hosts delivered the message and died; and whether the two that live have it."""
    for run in runs:
        delivered, survives = run.delivered(), run.label == "uniform"
        dead = [fault.target for _, fault in run.faults("crash")]
        died = [host for host in DYING if FIFTH in delivered[host] and host in dead]
        text = f"{run.label}: {len(DYING)} of {len(delivered)} hosts delivered the message and died"
        yield Claim("-", text, died == list(DYING), ", ".join(died))
        alive = [host for host in run.network.hosts if host not in dead]
        knows = [host for host in alive if FIFTH in delivered[host]]
        text = f"{run.label}: {'every' if survives else 'no'} host that lives has the message"
        yield Claim("-", text, knows == (alive if survives else []), ", ".join(knows) or "none")
        yield kept("uniform", run, Guarantee.UNIFORM_AGREEMENT, expected=survives)
