"""Three clusters in a ring, and a link that is pulled while messages are sent: say here what the scenario shows.

./castbed run gossip.py --on simulator
sudo ./castbed run gossip.py --set size=3 --set loss=5% --protocol basic
"""

from typing import Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs
from scenarios import Scenario, Time, Workload, pulled
from topologies import clusters
from topologies.properties import Expensive


def scenario(size: int = 2, pull_at: Time = 1000.0, **expensive: Unpack[Expensive]) -> Scenario:
    """What is run. The arguments are keys of --set, with their defaults; ./castbed show gossip.py tells what they mean.

    size: hosts of each cluster
    pull_at: when the link is pulled
    """
    return Scenario(
        # Or find("office.json"), grid(3, 3), lan(5): see topologies/builders.py. `expensive` has bandwidth, loss and so on.
        network=clusters(3, size, "ring", **expensive),
        # Each of them makes a run; the file of your own protocol will do as well.
        protocols=("basic", "cluster-tree"),
        # Times are in milliseconds: a message every 50 ms, and then time for what is under way.
        workload=Workload(messages=60, interval=50.0, payload=256, settle=30_000.0),
        # Faults, at their times: see docs/faults.md for all of them.
        faults=pulled("s1-s2", at_ms=pull_at),
    )


def claims(runs: Runs) -> list[Claim]:
    """What is to come of it: each claim is yes, no or None for unknown, with a figure. Leave the function out if there is none."""
    return [Claim(run.label, "everybody gets everything", run.summary.delivered_share == 1.0, share(run)) for run in runs]


def share(run: MeasuredRun) -> str:
    """How much was delivered, if anything was broadcast. A run has more figures in `run.summary`, and tables: see docs/tables.md."""
    return f"{run.summary.delivered_share or 0:.1%} of all deliveries"
