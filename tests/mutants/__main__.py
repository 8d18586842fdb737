"""Search for the schedules that catch the mutants, print the table, and write it down: python -m tests.mutants [protocol ...]."""

import sys
from multiprocessing import Pool

from rich.console import Console
from rich.table import Table

from tests.mutants.every import MUTANTS
from tests.mutants.recorded import Caught, key, load, save


def _search(number: int) -> tuple[int, Caught | None]:
    found = MUTANTS[number].search()
    return number, found and Caught(found[0], tuple(sorted(found[1])))


def main(protocols: list[str]) -> int:
    """Search for these protocols, or for all; fails if a mutant gets away, or one that is said to be harmless is not."""
    chosen = [number for number, mutant in enumerate(MUTANTS) if not protocols or mutant.protocol in protocols]
    found = {name: caught for name, caught in load().items() if name in map(key, MUTANTS)}
    table, wrong = Table("protocol", "mutant", "promise broken", "seed"), 0
    with Pool() as pool:
        for number, caught in pool.imap(_search, chosen):
            mutant = MUTANTS[number]
            wrong += (caught is None) != bool(mutant.harmless)
            told = (", ".join(caught.broken), str(caught.seed)) if caught else (mutant.harmless or "it got away", "-")
            table.add_row(mutant.protocol, mutant.name, *told)
            found.pop(key(mutant), None)
            if caught:
                found[key(mutant)] = caught
    order = list(map(key, MUTANTS))
    save(dict(sorted(found.items(), key=lambda row: order.index(row[0]))))
    Console().print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
