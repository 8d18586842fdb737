"""Where the tables of a run are: in a hidden directory while the analysis works, in `tables/` when all of the analysis is done.

So a run whose analysis failed or was killed is as it was before, and never one with half of its tables.
"""

import shutil
from pathlib import Path

TABLES = "tables"


def unfinished_tables(directory: Path) -> Path:
    """Where the analysis writes the tables of a run."""
    return directory / f".{TABLES}"


def discard(directory: Path) -> None:
    """Remove the tables of an analysis that did not come to its end."""
    shutil.rmtree(unfinished_tables(directory), ignore_errors=True)


def publish(directory: Path) -> None:
    """Put the new tables in the place of those of an earlier analysis. While that lasts, the run has no summary: it is not analysed."""
    (directory / "summary.json").unlink(missing_ok=True)
    if (directory / TABLES).exists():
        shutil.rmtree(directory / TABLES)
    unfinished_tables(directory).rename(directory / TABLES)
