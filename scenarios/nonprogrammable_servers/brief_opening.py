#!./castbed run
"""A partition opens once, briefly: the share of missed messages that get through, with cluster-tree and with basic (claim 9).

Three clusters in a line. The last cluster is cut off while messages are sent. Long after the stream has ended, its link works for one, two
or four seconds, and then never again.
"""

from collections.abc import Iterator

from analysis.figures.claims import Claim, MeasuredRun, Runs, Sweep
from scenarios import Scenario, Variant, Workload
from scenarios.faults import LinkDown, LinkUp
from topologies import clusters

CUT_MS, OPEN_MS = 3000.0, 12_000.0
OPENINGS_S = (1, 2, 4)
ENOUGH_S = 4
"""Four periods of INFO between clusters: hosts hear of each other, attach, and have time to fill the gaps twice."""
NAMES = {"tree": "cluster-tree", "basic": "basic"}


def scenario(size: int = 2, mode: str = "frugal") -> list[Variant]:
    """A stream whose second half does not reach the last cluster.

    size: hosts of each cluster
    mode: who is told what between clusters: frugal, or literal as in the paper
    """
    runs = []
    for seconds in OPENINGS_S:
        scenario = Scenario(
            network=clusters(3, size, "line"),
            faults=(
                LinkDown(at_ms=CUT_MS, link="s2-s3"),
                LinkUp(at_ms=OPEN_MS, link="s2-s3"),
                LinkDown(at_ms=OPEN_MS + 1000 * seconds, link="s2-s3"),
            ),
            workload=Workload(messages=300, interval=20.0, settle=1000.0),
        )
        runs += [
            Variant(f"tree-{seconds}s", scenario, "cluster-tree", {"mode": mode}),
            Variant(f"basic-{seconds}s", scenario, "basic"),
        ]
    return runs


def claims(runs: Runs) -> Iterator[Claim]:
    """A long enough opening lets everything through, and no opening lets less through than with basic."""
    if not all(_missed(run) for run in runs):
        yield Claim("9", "a brief opening is used", None, "no message was missing when the partition opened: set more messages")
        return
    shares = {name: [_share(runs[f"{name}-{seconds}s"]) for seconds in OPENINGS_S] for name in NAMES}
    share = shares["tree"][OPENINGS_S.index(ENOUGH_S)]
    text = f"cluster-tree: an opening of {ENOUGH_S} s lets everything through that was missing"
    yield Claim("9", text, share == 1, f"{100 * share:.1f} % of it")
    told = "; ".join(
        f"{seconds} s: {100 * tree:.0f} % against {100 * basic:.0f} %"
        for seconds, tree, basic in zip(OPENINGS_S, shares["tree"], shares["basic"], strict=True)
    )
    no_less = all(tree >= basic for tree, basic in zip(shares["tree"], shares["basic"], strict=True))
    yield Claim("9", "cluster-tree lets no less through an opening than basic", no_less, told)


def sweep(runs: Runs) -> Sweep:
    """The share that gets through against the length of the opening."""
    return Sweep(
        title="Messages that get through while a partition is open",
        x="length of the opening, s",
        y="delivered, % of what was missing",
        lines={
            protocol: [(float(seconds), 100 * _share(runs[f"{name}-{seconds}s"]), "") for seconds in OPENINGS_S]
            for name, protocol in NAMES.items()
        },
    )


def _missed(run: MeasuredRun) -> int:
    """The deliveries that the last cluster lacked when the partition opened: messages times hosts."""
    sent, before = run.sent_since(0), run.delivered(_open_s(run))
    return sum(len(sent - before[host]) for host in run.network.clusters[-1])


def _share(run: MeasuredRun) -> float:
    """The share of the missing deliveries that the last cluster had at the end."""
    before, after = run.delivered(_open_s(run)), run.delivered()
    return sum(len(after[host] - before[host]) for host in run.network.clusters[-1]) / max(_missed(run), 1)


def _open_s(run: MeasuredRun) -> float:
    return run.faults("link-up")[0][0]
