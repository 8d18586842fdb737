"""Claims of a scenario about its runs, each with the figure that shows whether it holds; and sweeps, which are drawn."""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from analysis.figures.lower_bounds import lower_bounds
from analysis.figures.measured import MeasuredRun, MissingRun, Runs
from analysis.figures.stated import ComparedTable, Entry, Table, compare_tables
from analysis.figures.statistics import estimate
from analysis.figures.trees.forest import HopTimes, Way, hop_times, way_of, ways
from analysis.judging.findings import Verdict
from analysis.judging.judge import Promised
from runfiles.decoding import decode
from runfiles.errors import ResultsError
from runfiles.format import write
from runfiles.versions import decode_file, format_of

__all__ = [
    "Claim",
    "Claims",
    "ComparedTable",
    "Entry",
    "Gain",
    "HopTimes",
    "MeasuredRun",
    "MissingRun",
    "Runs",
    "Sweep",
    "Table",
    "Verdict",
    "Way",
    "compare_tables",
    "evaluate",
    "hop_times",
    "kept",
    "least_cost",
    "over_repeats",
    "status_word",
    "way_of",
    "ways",
    "write_claims",
]


class Claim(msgspec.Struct, frozen=True):
    """A claim: its number in the paper, its sentence, whether the runs confirm it (None if they cannot tell), and the figure."""

    number: str
    text: str
    holds: bool | None
    figure: str


class Gain(Claim, frozen=True):
    """A claim that a number is above zero. With repeats it is about all of them: the 95 % interval of the number must be above zero."""

    value: float
    unit: str

    @classmethod
    def of(cls, number: str, text: str, value: float, unit: str, figure: str) -> "Gain":
        """The claim for one seed."""
        return cls(number, text, value > 0, figure, value, unit)


class Sweep(msgspec.Struct, frozen=True):
    """A plot of runs that differ in size or in a setting: lines by name, each a list of points (x, y, label)."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float, str]]]
    intervals: dict[str, list[tuple[float, float]]] = {}
    """By line, of each point the 95 % confidence interval over repeats; empty without repeats."""
    ticks: tuple[str, ...] = ()
    """The names of x = 0, 1, ... if they stand for things that are no numbers."""
    name: str = ""
    """As the paper calls the figure, such as `Figure 3`; needed where a scenario draws several."""
    linear: bool = False
    """Whether the axes are linear, as in the paper, however far the values are apart."""


def over_repeats(sweeps: Sequence[Sweep]) -> Sweep:
    """One sweep of several that differ in the seed: the median of each point, with its interval. Points that not all have are left out."""
    if len(sweeps) == 1:
        return sweeps[0]
    lines: dict[str, list[tuple[float, float, str]]] = {}
    intervals: dict[str, list[tuple[float, float]]] = {}
    for name, points in sweeps[0].lines.items():
        for x, _, word in points:
            values = [y for sweep in sweeps for its_x, y, _ in sweep.lines.get(name, ()) if its_x == x]
            found = estimate(values)
            if len(values) == len(sweeps) and found.low is not None and found.high is not None:
                lines.setdefault(name, []).append((x, found.median, word))
                intervals.setdefault(name, []).append((found.low, found.high))
    return msgspec.structs.replace(sweeps[0], lines=lines, intervals=intervals)


Claims = Callable[[Runs], Iterable[Claim]]
MOST_SEEDS = 3
"""The seeds whose figures a claim tells; further seeds are counted only."""
_WORDS = {True: "yes", False: "no", None: "unknown"}


def status_word(claim: Claim) -> str:
    """Yes, no or unknown."""
    return _WORDS[claim.holds]


def evaluate(claims: Claims, runs: Sequence[MeasuredRun]) -> list[Claim]:
    """The claims about these runs. If runs were repeated with several seeds, a claim holds if it holds with every seed."""
    seeds = list(dict.fromkeys(run.summary.seed for run in runs))
    by_seed = {seed: _of_one_seed(claims, Runs([run for run in runs if run.summary.seed == seed])) for seed in seeds}
    together: dict[tuple[str, str], list[tuple[int, Claim]]] = {}
    for seed, found in by_seed.items():
        for claim in found:
            together.setdefault((claim.number, claim.text), []).append((seed, claim))
    found = by_seed[seeds[0]] if len(seeds) == 1 else [_over_seeds(same) for same in together.values()]
    return [Claim(claim.number, claim.text, claim.holds, claim.figure) for claim in found]


def _of_one_seed(claims: Claims, runs: Runs) -> list[Claim]:
    found = []
    try:
        for claim in claims(runs):
            if not isinstance(claim, Claim) or claim.holds not in _WORDS:
                raise TypeError(
                    f"claims() must give Claim(number, text, holds, figure) with holds True, False or None, not {claim!r}"
                )
            found.append(_believed(claim, runs))
    except MissingRun as missing:
        found.append(Claim("-", "the remaining claims", None, str(missing)))
    return found


def _believed(claim: Claim, runs: Runs) -> Claim:
    """The claim, or an unknown one if the books of a run it uses do not balance or a log of that run is damaged."""
    doubts = [f"the books of {label} do not balance" for label, run in runs.used.items() if not run.summary.balanced]
    doubts += [f"{label}: {run.damage[0]}" for label, run in runs.used.items() if run.damage]
    return msgspec.structs.replace(claim, holds=None, figure=f"{claim.figure} ({'; '.join(doubts)})") if doubts else claim


def _over_seeds(same: Sequence[tuple[int, Claim]]) -> Claim:
    answers = {claim.holds for _, claim in same}
    holds = False if False in answers else None if None in answers else True
    figure = _told_seeds(same, holds)
    gains = [claim for _, claim in same if isinstance(claim, Gain)]
    if len(gains) == len(same) > 1 and None not in answers:
        found = estimate([gain.value for gain in gains], least=-math.inf)
        assert found.low is not None, "two repeats and more have an interval"
        assert found.high is not None, "two repeats and more have an interval"
        holds = True if found.low > 0 else False if found.high <= 0 else None
        told = f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}] {gains[0].unit} over {len(gains)} repeats"
        figure = f"{told}; {figure}"
    return msgspec.structs.replace(same[0][1], holds=holds, figure=figure)


def _told_seeds(same: Sequence[tuple[int, Claim]], holds: bool | None) -> str:
    """The figures of the seeds, or of a few of them, those that decide first; once, if all are the same."""
    if len(same) > 1 and len({(claim.holds, claim.figure) for _, claim in same}) == 1:
        return f"{same[0][1].figure}, with each of {len(same)} seeds"
    chosen = same if len(same) <= MOST_SEEDS else sorted(same, key=lambda item: item[1].holds is not holds)[:MOST_SEEDS]
    more = len(same) - len(chosen)
    told = "; ".join(f"seed {seed}: {claim.figure}" for seed, claim in chosen)
    return f"{told}; and {more} more seeds" if more else told


def least_cost(run: MeasuredRun, since_s: float) -> Claim:
    """The first claim of the first paper: one expensive data packet to each other cluster, once the tree stands.

    Fewer packets can reach every cluster only if messages share datagrams. Repairs are counted apart: a host whose INFO message was slow is
    sent messages that it already has.
    """
    messages = run.sent_since(since_s)
    text = f"{run.label}: k - 1 expensive data packets per message once the tree stands"
    if not messages:
        return Claim("1", text, None, f"the stream ended before the tree had {since_s:g} s to form")
    packets, delivered, destinations = run.expensive_packets(messages), run.delivered(), run.history.destinations
    least = lower_bounds(run.network, run.history, multicasts=run.input.run.medium == "multicast", messages=messages).packets
    figure = f"{packets['data'] / len(messages):.2f} data packets per message, k - 1 = {least:g}; {packets['repair']} repairs"
    if any(message not in delivered[host] for message in messages for host in destinations[message]):
        return Claim("1", text, holds=False, figure=f"{figure}; not everybody delivered them all")
    if packets["data"] < least * len(messages):
        figure += "; some shared a packet"
    return Claim("1", text, packets["data"] <= least * len(messages), figure)


def kept(number: str, run: MeasuredRun, promised: Promised, *, expected: bool) -> Claim:
    """The claim that a run keeps a promise or, if not `expected`, violates it; the figure is then the counterexample."""
    finding = run.finding(promised)
    text = f"{run.label}: {promised} {'holds' if expected else 'is violated'}"
    if finding.verdict is Verdict.NOT_TESTED:
        return Claim(number, text, None, f"not tested: {finding.reason}")
    if finding.verdict is Verdict.UNKNOWN:
        return Claim(number, text, None, finding.reason)
    return Claim(
        number,
        text,
        (finding.verdict is Verdict.HOLDS) == expected,
        finding.reason or f"no counterexample in {finding.cases} cases",
    )


def write_claims(claims: Sequence[Claim], directory: Path) -> None:
    """Write `claims.json`."""
    write(directory / "claims.json", _ClaimsFile(list(claims)))


class _ClaimsFile(msgspec.Struct, frozen=True):
    """What is in `claims.json`."""

    claims: list[Claim]


def _read_claims(path: Path) -> list[Claim]:
    """The claims of a file, which were the whole file in format 1."""
    data = path.read_bytes()
    return decode_file(data, _ClaimsFile, path).claims if format_of(data) > 1 else decode(data, list[Claim])


def read_claims(directories: Iterable[Path]) -> list[Claim]:
    """The claims about runs, read from the directories of the runs and the two above each."""
    found: dict[Path, None] = {}
    for directory in directories:
        found |= dict.fromkeys(place / "claims.json" for place in (directory.resolve(), *list(directory.resolve().parents)[:2]))
    try:
        return [claim for path in found if path.exists() for claim in _read_claims(path)]
    except msgspec.MsgspecError as error:
        raise ResultsError(
            f"a claims.json beside the runs is damaged ({error}): remove it, or make it anew with ./castbed run"
        ) from None
