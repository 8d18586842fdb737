"""What the last search found: for each mutant the schedule that caught it, in a file beside this one, and the same as a page."""

from pathlib import Path

import msgspec

from tests.mutants.every import MUTANTS
from tests.mutants.mutant import MOST_SCHEDULES, Mutant

FILE = Path(__file__).with_name("recorded.json")
PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"
_OPENING = f"""# Mutants

Protocols with one thing broken, and the first schedule of a campaign (`simulator/swarm.py`, from seed 1 on) that catches each: the seed is
also the number of schedules that it takes, of {MOST_SCHEDULES} at the most. The unbroken protocol holds there. Those that break no promise
have the reason. `python -m tests.mutants` searches anew and writes this page; `tests/mutants/test_mutants.py` holds each mutant to its row.
"""


class Caught(msgspec.Struct, frozen=True):
    """The schedule that caught a mutant, and the promises that it broke there."""

    seed: int
    broken: tuple[str, ...]


def key(mutant: Mutant) -> str:
    """What names a mutant among all."""
    return f"{mutant.protocol}: {mutant.name}"


def load() -> dict[str, Caught]:
    """What the last search found."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Caught])


def save(found: dict[str, Caught]) -> None:
    """Write both files."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    PAGE.write_text(page(found))


def page(found: dict[str, Caught]) -> str:
    """The page of mutants."""
    lines = [_OPENING, "| protocol | mutant | what is wrong | promise broken | seed |", "|---|---|---|---|---|"]
    for mutant in MUTANTS:
        caught = found.get(key(mutant))
        told = (", ".join(caught.broken), str(caught.seed)) if caught else (f"none: {mutant.harmless}", "-")
        lines.append(f"| {' | '.join((f'`{mutant.protocol}`', mutant.name, mutant.wrong, *told))} |")
    return "\n".join([*lines, ""])
