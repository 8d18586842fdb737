#!./castbed run
"""A token is lost: it is dropped on its way, its holder dies, or its holder is cut off; how long nobody delivers anything.

Five hosts, of which all but the victim send in turn. *dropped*: what brings the token to the victim is dropped when it arrives. *dies*: the
victim is killed at the very moment when it has taken the token, and stays dead. *cut-off*: at that moment all its links fail, for two
seconds; the others go on without it, and then it is one of them again. Production systems stall for half a second to three seconds
with each lost token (Spread, Corosync). That there are never two tokens of one generation is part of the verdict on each run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Final, Unpack

from analysis.figures.claims import Claim, MeasuredRun, Runs, kept
from hostagent.contract.promises import Guarantee, Order, Scope, Step, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import AnyFault, Crash, CutOff, DropMessage, Heal, Trigger
from topologies import clusters
from topologies.properties import Expensive

VICTIM: Final = "h3"
HOSTS: Final = 5
INTERVAL_MS: Final = 10.0
LOST_AT_MS: Final = 500.0
TURNS: Final = 40
"""The victim is hit when it has the token for this time, after half a second of the stream or more: hosts are slow when they start, and
believe for the first messages that all round trips are long."""
AWAY_MS: Final = 2000.0
PRODUCTION_MS: Final = 500.0
"""The least that token systems in production stall."""


@dataclass(frozen=True)
class Row:
    """A protocol with a token."""

    token: str
    """The kind of message that hands the token on."""
    to_all: bool
    """Whether everybody gets that message, so that only one in n of them brings the token to the victim."""
    within_ms: float = PRODUCTION_MS
    """How soon the others must go on."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    promised: tuple[Guarantee | Order, ...] = (
        *(Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.NO_GAPS),
        Order(Scope.MULTIPLE_SOURCE, Strength.STRICT),
    )


ROWS: Final = {
    "token-site": Row(token="Ack", to_all=True),  # noqa: S106 - a kind of message, no secret
    "optimistic": Row(
        token="Token",  # noqa: S106 - as above
        to_all=True,
        promised=(
            *(Guarantee.CONVERGENCE, Guarantee.PROGRESS, Guarantee.SAFE, Guarantee.ROLLBACK_DISCIPLINE),
            *(Order(Scope.MULTIPLE_SOURCE, Strength.ROLLBACK), Order(Scope.MULTIPLE_SOURCE, Strength.STRICT, Step.COMMIT)),
        ),
    ),
    "counter": Row(token="Token", to_all=True),  # noqa: S106 - as above
    "totem": Row(
        token="Token",  # noqa: S106 - as above
        to_all=False,
        promised=(Guarantee.VIEW_PROGRESS, Order(Scope.MULTIPLE_SOURCE, Strength.STRICT)),
    ),
}
"""The protocols. A further one needs its row here, and nothing else."""


def scenario(**expensive: Unpack[Expensive]) -> list[Variant]:
    """A star of five hosts, with each trouble once for each protocol."""
    network = clusters(HOSTS, 1, "star", **expensive)
    stream = Workload(messages=500, interval=INTERVAL_MS, payload=64, settle=3000.0)
    sources = tuple(host for host in network.hosts if host != VICTIM)
    return [
        Variant(
            f"{name}-{trouble}",
            Scenario(network=network, sources=sources, faults=faults, workload=stream),
            name,
            row.parameters,
        )
        for name, row in ROWS.items()
        for trouble, faults in _troubles(row).items()
    ]


def _troubles(row: Row) -> dict[str, tuple[AnyFault, ...]]:
    """The ways to lose a token."""
    taken = Trigger("token", host=VICTIM, nth=TURNS, details={"held": True})
    back = Trigger("token", host=VICTIM, nth=TURNS, details={"held": True}, after_ms=AWAY_MS)
    arrivals = range(1, HOSTS + 1 if row.to_all else 2)
    return {
        "dropped": tuple(DropMessage(at_ms=LOST_AT_MS, host=VICTIM, kind=row.token, nth=nth) for nth in arrivals),
        "dies": (Crash(host=VICTIM, when=taken),),
        "cut-off": (CutOff(host=VICTIM, when=taken), Heal(when=back)),
    }


def claims(runs: Runs) -> Iterator[Claim]:
    """How long each loss stopped the others, and that all is well in the end."""
    for run in runs:
        yield _stall(run)
        for promised in ROWS[run.summary.protocol].promised:
            yield kept("-", run, promised, expected=True)


def _stall(run: MeasuredRun) -> Claim:
    """The longest time without a delivery at one of the other hosts, from the loss on."""
    lost_s = run.faults("drop-message", "crash", "link-down")[0][0]
    gaps_ms = [1000 * gap for host in run.network.hosts if host != VICTIM for gap in _gaps_s(run, host, lost_s)]
    within_ms = ROWS[run.summary.protocol].within_ms
    text = f"{run.label}: the others go on within {within_ms:g} ms"
    if not gaps_ms:
        return Claim("-", text, holds=False, figure="nothing was delivered after the loss")
    before = {broadcast.message for broadcast in run.broadcasts if run.at_s(broadcast.at_ns) < lost_s - 0.1}
    usual_ms = median(took for message, took in run.last_ms().items() if message in before)
    figure = f"{max(gaps_ms):.0f} ms without a delivery; there is a message every {INTERVAL_MS:g} ms, which usually takes {usual_ms:.2f} ms"
    return Claim("-", text, max(gaps_ms) < within_ms, figure)


def _gaps_s(run: MeasuredRun, host: str, since_s: float) -> list[float]:
    """The times between two deliveries of a host in a row, from a moment on to the end of the stream."""
    times_s = sorted(run.at_s(delivery.at_ns) for delivery in run.history.deliveries if delivery.host == host)
    return [after_s - before_s for before_s, after_s in pairwise(times_s) if after_s > since_s]
