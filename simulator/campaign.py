"""Campaigns: thousands of random cases in virtual time, each with a verdict; failures are shrunk and kept as files."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostagent.runtime.failures import CoreFailed
from runfiles.format import Medium
from simulator.cases import Case, run
from simulator.shrink import broken, shrink
from simulator.swarm import draw_case


class Line(msgspec.Struct, frozen=True):
    """The outcome of one case, as a worker reports it."""

    seed: int
    kinds: tuple[str, ...]
    beyond: bool
    verdict: str
    tested: dict[str, bool]
    """For each promise, whether the run tested it, that is, found it to hold or to be violated."""
    broken: tuple[str, ...]
    reason: str
    trace: str
    events: int
    happened: tuple[str, ...] = ()
    """The events that only some runs have."""
    longest_ms: dict[str, float] = {}
    """For each promise of a time bound that was tested, the longest time seen; for *one token*, how long a second one lived, if one did."""


@dataclass
class Tally:
    """The sums of a campaign so far."""

    cases: int = 0
    events: int = 0
    within: Counter[str] = field(default_factory=Counter)
    """Verdicts of cases within the protocol's assumptions."""
    beyond: Counter[str] = field(default_factory=Counter)
    """Verdicts of cases beyond the protocol's assumptions."""
    pairs: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of kinds of trouble that were on in the same case."""
    tested: Counter[str] = field(default_factory=Counter)
    """How many of the cases within the assumptions tested each promise; zero if none did."""
    failures: list[Line] = field(default_factory=list)
    """Violations within the assumptions."""
    lost_beyond: Counter[str] = field(default_factory=Counter)
    """The promises broken beyond the assumptions."""
    longest_ms: dict[str, float] = field(default_factory=dict)
    """For each time bound, and for second tokens, the longest time seen in cases within the assumptions."""
    timed: Counter[str] = field(default_factory=Counter)
    """How many of these cases had such a time."""
    happened: Counter[str] = field(default_factory=Counter)
    """In how many of all cases each event happened that only some runs have."""

    def add(self, line: Line) -> None:
        """Count a case."""
        self.cases += 1
        self.events += line.events
        self.happened.update(line.happened)
        self.pairs |= set(itertools.combinations(sorted(line.kinds), 2))
        (self.beyond if line.beyond else self.within)[line.verdict] += 1
        if line.beyond:
            self.lost_beyond.update(line.broken)
            return
        self.tested.update({promise: int(tested) for promise, tested in line.tested.items()})
        self.timed.update(line.longest_ms.keys())
        for promise, longest_ms in line.longest_ms.items():
            self.longest_ms[promise] = max(longest_ms, self.longest_ms.get(promise, 0.0))
        if line.verdict == "violated":
            self.failures.append(line)


def run_seed(protocol: str, seed: int, parameters: dict[str, Any], medium: Medium = "unicast", *, brief: bool = False) -> Line:
    """Draw the case of a seed, simulate and judge it. An exception in the protocol names the seed."""
    case, kinds = draw_case(protocol, seed, parameters, medium, brief=brief)
    try:
        result = run(case)
    except CoreFailed as failed:
        raise CoreFailed(msgspec.structs.replace(failed.failure, seed=seed)) from failed
    judgement = result.judgement
    return Line(
        seed=seed,
        kinds=tuple(sorted(kinds)),
        beyond=case.beyond,
        verdict=str(judgement.verdict),
        tested={str(promise): found.verdict in {"holds", "violated"} for promise, found in judgement.findings.items()},
        broken=tuple(sorted(broken(judgement))),
        reason=judgement.reasons[0] if judgement.reasons else "",
        trace=result.trace,
        events=result.events,
        happened=result.happened,
        longest_ms={
            str(promise): found.longest_ms for promise, found in judgement.findings.items() if found.longest_ms is not None
        },
    )


def keep(case: Case, out: Path) -> Path:
    """Shrink a failing case, write it to a file in `out`, and return the file's path."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{case.protocol}-{case.seed}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(shrink(case))) + b"\n")
    return path
