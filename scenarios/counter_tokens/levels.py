#!./castbed run
"""Table 4 of the fourth paper: the level of service and the level of reliability of each protocol; a verdict for each cell.

Levels of service, each with those before it: basic (messages arrive), FIFO, causal, agreed (one order), safe (and all members have received
a message when it is final). Levels of reliability: operational (hosts that are up agree), rollback (and hosts that recover take back what
they delivered in the wrong place), strict (nobody ever delivers in the wrong place). The paper calls these R1, R2 and R3; the third paper's
R levels have other numbers (R2, R3 and R1). A message is final when it is committed, for `optimistic`, and when it is delivered, for the
others. A level that the paper does not state is a cell too, and is to be violated in the run.

Five hosts send at random times, so that messages cross. In *loss* one packet in fifty is lost. In *fails* a host is killed when it has
delivered a message, and comes back, and another host misses a message of the first.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from analysis.figures.claims import Claim, Entry, MeasuredRun, Runs, Table, Verdict
from hostagent.contract.promises import Guarantee, Order, Scope, Step, Strength
from scenarios import Scenario, Variant, Workload
from scenarios.faults import Crash, DropMessage, Restart, Trigger
from topologies import lan

FAILS: Final = "h3"
MISSES: Final = "h5"
DOWN_MS: Final = 2000.0
LOSS: Final = 0.02
SERVICE: Final = ("basic", "FIFO", "causal", "agreed", "safe")
RELIABILITY: Final = {"operational": "R1", "rollback": "R2", "strict": "R3"}
STATED: Final = {True: "stated", False: "not stated"}


class Row(NamedTuple):
    """A column of the table, and the protocol that it is about."""

    title: str
    service: str
    """The highest level of service that the paper states."""
    reliability: str
    """The highest level of reliability that it states."""
    data: str
    """The kind of message that brings a message of the application for the first time."""
    parameters: Mapping[str, object] = {}
    when_it_fails: Mapping[str, object] = {}
    """More parameters for the run in which a host fails."""
    final: Step = Step.DELIVERY

    def states(self, level: str) -> bool:
        """Whether the paper states a level."""
        if level in SERVICE:
            return SERVICE.index(level) <= SERVICE.index(self.service)
        return list(RELIABILITY).index(level) <= list(RELIABILITY).index(self.reliability)


TABLE: Final = {
    "token-site": Row("centralized", "agreed", "strict", "Data"),
    "two-phase": Row("two-phase", "agreed", "strict", "First", when_it_fails={"failover": "elect"}),
    "optimistic": Row("optimistic", "safe", "rollback", "Data", final=Step.COMMIT),
    "totem": Row("fast message", "safe", "strict", "Data", {"delivery": "safe"}),
    "counter": Row("counter-based", "safe", "strict", "Msg"),
}
"""The protocols of the table; the centralized one is Chang and Maxemchuk's."""


def scenario(messages: int = 300) -> list[Variant]:
    """The same stream with each protocol and each trouble.

    messages: broadcasts of each run
    """
    found = []
    for protocol, row in TABLE.items():
        stream = Workload(messages=messages, interval=10.0, arrivals="poisson", settle=20_000.0)
        for trouble, network in (("loss", lan(5, loss=LOSS / 2)), ("fails", lan(5))):
            faults = _failures(row) if trouble == "fails" else ()
            parameters = {**row.parameters, **row.when_it_fails} if faults else row.parameters
            asked = Scenario(network=network, sources=network.hosts, faults=faults, workload=stream)
            found.append(Variant(f"{protocol}-{trouble}", asked, protocol, parameters))
    return found


def _failures(row: Row) -> tuple[Crash | Restart | DropMessage, ...]:
    """A host misses a message in the middle of the stream; then another one is killed at a delivery, and comes back."""
    killed = Trigger("deliver", host=FAILS, nth=100)
    back = Trigger("deliver", host=FAILS, nth=100, after_ms=DOWN_MS)
    return (
        DropMessage(at_ms=500.0, host=MISSES, kind=row.data, nth=1),
        Crash(host=FAILS, when=killed),
        Restart(host=FAILS, when=back),
    )


def claims(runs: Runs) -> Iterator[Claim]:
    """Each cell: the levels of service with loss, those of reliability with a host that fails."""
    for run in runs:
        row = TABLE[run.input.run.protocol]
        for level in _levels(run):
            finding, stated = run.finding(_asked(row, level)), row.states(level)
            text = f"{row.title}, {_name(level)}, {STATED[stated]}: {'it holds' if stated else 'it does not hold'}"
            holds = finding.verdict is (Verdict.HOLDS if stated else Verdict.VIOLATED)
            known = finding.verdict in {Verdict.HOLDS, Verdict.VIOLATED}
            yield Claim(
                "Table 4", text, holds if known else None, finding.reason or f"no counterexample in {finding.cases} cases"
            )


def tables(runs: Runs) -> Iterator[Table]:
    """The table: for each protocol the paper's cells, and what the runs show."""
    rows: dict[str, dict[str, Entry]] = {}
    for run in runs:
        row = TABLE[run.input.run.protocol]
        for level in _levels(run):
            verdict, stated = run.finding(_asked(row, level)).verdict, row.states(level)
            rows.setdefault(row.title, {})[_name(level)] = Entry(
                STATED[stated], str(verdict), agrees=(verdict is Verdict.HOLDS) == stated
            )
    yield Table("Table 4", "Levels of service and of reliability", rows)


def _levels(run: MeasuredRun) -> tuple[str, ...]:
    return SERVICE if run.label.endswith("-loss") else tuple(RELIABILITY)


def _name(level: str) -> str:
    return f"{level} ({RELIABILITY[level]})" if level in RELIABILITY else level


def _asked(row: Row, level: str) -> Guarantee | Order:
    """What the checkers are asked about a level."""
    if level in RELIABILITY:
        return Order(Scope.MULTIPLE_SOURCE, Strength(level))
    scopes = {"FIFO": Scope.SINGLE_SOURCE, "causal": Scope.CAUSAL, "agreed": Scope.MULTIPLE_SOURCE}
    if level in scopes:
        return Order(scopes[level], Strength.STRICT, row.final)
    return Guarantee.SAFE if level == "safe" else Guarantee.PROGRESS
