"""The page of checkers: python -m tests.analysis.checkers writes docs/checkers.md.

Rows come from the casts of mutants, `tests.analysis.cast` and `tests.analysis.test_time_bounds`: a checker with mutants there has a row.
"""

import sys
from pathlib import Path

from analysis.judging.judge import Promised
from benchmarks.checkers import BOUNDS, large, rate
from hostagent.contract.promises import TimeBound
from tests.analysis import cast, test_time_bounds

PAGE = Path(__file__).parents[2] / "docs" / "checkers.md"
_OPENING = """# Checkers

Each checker is held to protocols that are broken on purpose: it must catch them with the counterexample that `tests/analysis/cast.py` and
`tests/analysis/test_time_bounds.py` have, and find nothing in the protocol that is not broken. Times in counterexamples are seconds since
the first broadcast. The last column is how many cases a checker judges in a second of processor time, in a run of 120,000 deliveries
(`benchmarks/checkers.py`); it is empty where that run has no case for it. `python -m tests.analysis.checkers` writes this page.
"""
BROKEN = (*cast.BROKEN, *test_time_bounds.BROKEN)


def checked(row: tuple) -> str:
    """The promise of a row of a cast; time bounds by the name of the property."""
    return str(row[0].timing) if isinstance(row[0], TimeBound) else str(row[0])


def rows() -> list[tuple[str, str, str]]:
    """For each checker its promise, the mutants that it catches and the shortest of their counterexamples."""
    found = []
    for promise in dict.fromkeys([*map(str, cast.CHECKED), *map(checked, BROKEN)]):
        caught = [row for row in BROKEN if checked(row) == promise]
        mutants = ", ".join(dict.fromkeys(f"`{row[1].__name__}`" for row in caught))
        found.append((promise, mutants, min((row[3] for row in caught), key=len)))
    return found


def page(speeds: dict[str, str]) -> str:
    """The page, with what each checker judges in a second."""
    lines = [_OPENING, "| promise | mutants that are caught | shortest counterexample | cases a second |", "|---|---|---|---:|"]
    lines += [f"| {' | '.join((*row, speeds.get(row[0], '')))} |" for row in rows()]
    return "\n".join([*lines, ""])


def _speed(promised: Promised, run: tuple) -> str:
    finding, took_s = rate(promised, *run)
    return f"{round(finding.cases / max(took_s, 1e-9), -3):,.0f}" if finding.cases else ""


def main() -> int:
    """Measure, and write the page."""
    run = large(200)
    speeds = {str(promised): _speed(promised, run) for promised in cast.CHECKED}
    PAGE.write_text(page(speeds | {str(bound.timing): _speed(bound, run) for bound in BOUNDS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
