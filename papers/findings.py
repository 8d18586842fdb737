"""What came of a paper: its statements with their verdicts, worked out from the claims of the runs; no verdict is written by hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from analysis.figures.claims import Claim, ComparedTable, Sweep, status_word
from papers.paper import By, Paper, Statement

Word = Literal["yes", "no", "unknown"]
WORDS: Final[Mapping[Word, str]] = {"yes": "confirmed", "no": "refuted", "unknown": "unknown"}
ENGINES: Final[Mapping[str, str]] = {"simulator": "the simulator", "mininet": "Mininet"}
# The claims of one scenario that are told in full beneath a statement; the page has all of them in its last section.
MOST_TOLD: Final = 3


class Outcome(msgspec.Struct, frozen=True):
    """What the runs of one scenario on one engine, or a study, have shown."""

    source: str
    engine: str
    about: str
    command: str
    """How to make these runs alone."""
    runs: int
    seeds: int
    place: str
    """Where the runs are, relative to the page."""
    claims: list[Claim]
    sweeps: list[Sweep] = []
    tables: list[ComparedTable] = []
    failures: list[str] = []
    """Why runs could not be made."""


class Evidence(msgspec.Struct, frozen=True):
    """What one source shows of a statement: the verdict, of how many claims it is made, and their figures, as far as they are told."""

    source: str
    engine: str
    verdict: Word
    checks: int
    figures: list[str]
    told: str = ""
    """If not all of them are told, how many there are."""


class Finding(msgspec.Struct, frozen=True):
    """A statement of the paper with its verdict."""

    kind: Literal["claim", "table", "graph"]
    name: str
    text: str
    where: str
    verdict: Word
    why: str
    """Why it is refuted; empty unless it is."""
    differs: str
    """What to say if the engines disagree."""
    evidence: list[Evidence]
    engines: dict[str, Word] = {}
    """What each engine alone says."""


class Findings(msgspec.Struct, frozen=True):
    """Everything about a paper that does not need its runs any more: `docs/papers/NAME.json`."""

    paper: str
    title: str
    quick: bool
    command: str
    findings: list[Finding]
    tables: list[ComparedTable]
    sweeps: list[Sweep]

    def count(self) -> dict[Word, int]:
        """How many statements are confirmed, refuted and unknown."""
        return {word: sum(finding.verdict == word for finding in self.findings) for word in WORDS}


def findings_of(paper: Paper, outcomes: Sequence[Outcome], *, quick: bool, command: str) -> Findings:
    """The verdicts on a paper."""
    kinds: list[tuple[Literal["claim", "table", "graph"], Statement]] = [("claim", said) for said in paper.claims]
    kinds += [("table", table.says) for table in paper.tables]
    kinds += [("graph", graph.says) for graph in paper.graphs]
    shown_tables = {table.says.name for table in paper.tables}
    return Findings(
        paper.name,
        paper.title,
        quick,
        command,
        [_finding(kind, said, outcomes) for kind, said in kinds],
        [table for outcome in outcomes for table in outcome.tables if table.name in shown_tables],
        [
            sweep
            for graph in paper.graphs
            for outcome in outcomes
            for sweep in outcome.sweeps
            if outcome.source == graph.source and graph.is_of(sweep)
        ],
    )


def _finding(kind: Literal["claim", "table", "graph"], said: Statement, outcomes: Iterable[Outcome]) -> Finding:
    evidence = [_evidence(by, outcome) for by in said.by for outcome in outcomes if outcome.source == by.source]
    engines, verdict = decided(evidence)
    told = {engine: word for engine, word in engines.items() if word != "unknown"}
    differs = ""
    if len(set(told.values())) > 1:
        differs = (
            "The engines disagree: " + ", ".join(f"{WORDS[word]} on {ENGINES[engine]}" for engine, word in told.items()) + "."
        )
    why = said.why if verdict == "no" else ""
    return Finding(kind, said.name, said.text, said.where, verdict, why, differs, evidence, engines)


def decided(evidence: Sequence[Evidence]) -> tuple[dict[str, Word], Word]:
    """What each engine says, and both together. An engine whose runs cannot tell leaves it to the other one."""
    engines = {e.engine: together(other.verdict for other in evidence if other.engine == e.engine) for e in evidence}
    return engines, together(word for word in engines.values() if word != "unknown")


def _evidence(by: By, outcome: Outcome) -> Evidence:
    chosen = [claim for claim in outcome.claims if by.picks(claim)]
    words = [_seen(claim, by) for claim in chosen]
    verdict = together(words)
    # Where claims disagree, the ones that decide are told.
    deciding = [claim for claim, word in zip(chosen, words, strict=True) if word == verdict]
    told = [f"{claim.text}: {claim.figure}" for claim in _some(deciding)] or outcome.failures[:1] or ["no run has shown it"]
    more = f"{len(deciding)} of {len(chosen)} checks" if len(chosen) > len(told) or len(deciding) < len(chosen) else ""
    return Evidence(by.source, outcome.engine, verdict, len(chosen), told, more)


def _some(claims: Sequence[Claim]) -> list[Claim]:
    """Some of many claims, from the first to the last: those of a scenario are often in the order of a setting."""
    parts = min(MOST_TOLD, len(claims)) - 1
    return [claims[round(part * (len(claims) - 1) / max(1, parts))] for part in range(parts + 1)]


def _seen(claim: Claim, by: By) -> Word:
    """What a claim of ours says of the paper's statement."""
    if by.refutes and claim.holds is not None:
        return "no" if claim.holds else "yes"
    return {"yes": "yes", "no": "no"}.get(status_word(claim), "unknown")  # type: ignore[return-value]


def together(words: Iterable[Word]) -> Word:
    """Refuted if one part is, confirmed if all parts are, else unknown."""
    seen = set(words)
    return "no" if "no" in seen else "yes" if seen == {"yes"} else "unknown"
