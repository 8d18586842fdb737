"""Where the tables of a run are: in a hidden directory during the analysis, and in `tables/` when the analysis is complete.

So an analysis that fails or is killed leaves the run as it was before, never with half of its tables.
"""

import shutil
from pathlib import Path

TABLES = "tables"


def unfinished_tables(directory: Path) -> Path:
    """Where the analysis writes the tables of a run."""
    return directory / f".{TABLES}"


def discard(directory: Path) -> None:
    """Remove the tables of an analysis that did not finish."""
    shutil.rmtree(unfinished_tables(directory), ignore_errors=True)


def publish(directory: Path) -> None:
    """Replace the tables of an earlier analysis. Meanwhile the run has no summary, so it counts as not analysed."""
    (directory / "summary.json").unlink(missing_ok=True)
    if (directory / TABLES).exists():
        shutil.rmtree(directory / TABLES)
    unfinished_tables(directory).rename(directory / TABLES)
