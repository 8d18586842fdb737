"""Runs as frames: summaries and tables of many runs in one, with the run, its seed, label and settings as columns."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec
import pyarrow as pa
from matplotlib.figure import Figure

from analysis import job
from analysis.crew import Crew
from analysis.figures.comparison import MEASURES, Comparison, compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import Group, facets, grouped
from analysis.figures.summary import read_summary
from analysis.notebook import figures as drawn
from hostagent.protocols import PROTOCOLS
from runfiles import archives
from runfiles.errors import ResultsError
from runfiles.format import RunRecord
from runfiles.reading import load, runs_in

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["pandas", "arrow", "spark"]
TABLES = ("packets", "link_costs", "message_costs", "deliveries", "delays", "loads", "parents", "faults", "healing", "verdicts")
"""The tables of a run, which docs/tables.md describes."""


def runs(*places: str | Path, analyse: bool = False) -> "Runs":
    """The runs in these places: directories of a run or of several, or archives. With `analyse`, those that are not analysed yet are."""
    opened = [archives.unpack(path, lambda *_: None) if path.is_file() else path for path in map(Path, places or ("results",))]
    directories = runs_in(opened)
    missing = [directory for directory in directories if not (directory / "summary.json").exists()]
    if missing and analyse:
        job.analyse(missing, Crew(), drawing=False)
    elif missing:
        raise ResultsError(
            f"{missing[0]} and {len(missing) - 1} more are not analysed: ./castbed analyse {missing[0]}, or runs(..., analyse=True)"
            if len(missing) > 1
            else f"{missing[0]} is not analysed: ./castbed analyse {missing[0]}, or runs(..., analyse=True)"
        )
    try:
        return Runs([MeasuredRun(load(directory), read_summary(directory)) for directory in directories])
    except msgspec.MsgspecError as error:
        raise ResultsError(f"a summary is not what the analysis writes: {error}; ./castbed analyse makes it again") from error


class Runs(Sequence[MeasuredRun]):
    """Some runs. Each of them has `summary`, `network`, `history`, `table(name)` and more; together they are frames and figures."""

    def __init__(self, found: Iterable[MeasuredRun]) -> None:
        self._runs = list(found)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> MeasuredRun: ...

    @overload
    def __getitem__(self, index: slice) -> "Runs": ...

    def __getitem__(self, index: int | slice) -> "MeasuredRun | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __repr__(self) -> str:
        protocols = dict.fromkeys(run.summary.protocol for run in self)
        return f"<{len(self)} run{'' if len(self) == 1 else 's'} of {', '.join(protocols) or 'nothing'}>"

    def where(self, **asked: Any) -> "Runs":
        """Those with these values: `where(protocol="basic", loss="5%", seed=1)`. Write a parameter as `**{"basic.retry_ms": 90}`."""
        return Runs(run for run in self if all(facets(run).get(key) == str(value) for key, value in asked.items()))

    @overload
    def summaries(self, kind: Literal["pandas"] = "pandas") -> "pd.DataFrame": ...

    @overload
    def summaries(self, kind: Literal["arrow"]) -> pa.Table: ...

    @overload
    def summaries(self, kind: Literal["spark"], spark: "SparkSession | None" = None) -> "DataFrame": ...

    def summaries(self, kind: Kind = "pandas", spark: "SparkSession | None" = None) -> Any:
        """A row for each run: what it is, what was set, its figures by the names that they have in files, and its verdict."""
        rows = [_about(run) | _asked(run) | _figures(run) for run in self]
        columns = dict.fromkeys(key for row in rows for key in row)
        return _as(kind, pa.Table.from_pylist([{key: row.get(key) for key in columns} for row in rows]), spark)

    @overload
    def table(self, name: str, kind: Literal["pandas"] = "pandas") -> "pd.DataFrame": ...

    @overload
    def table(self, name: str, kind: Literal["arrow"]) -> pa.Table: ...

    @overload
    def table(self, name: str, kind: Literal["spark"], spark: "SparkSession | None" = None) -> "DataFrame": ...

    def table(self, name: str, kind: Kind = "pandas", spark: "SparkSession | None" = None) -> Any:
        """A table of all runs, with the columns run, scenario, label, protocol and seed before its own.

        The table of packets has the name of each kind of message as `kind_name`; the number of the protocol is `protocol_number`.
        """
        if name not in TABLES:
            raise ResultsError(f"there is no table {name!r}: choose from {', '.join(TABLES)}")
        made = [_with_run(run, name) for run in self if (run.directory / "tables" / f"{name}.parquet").exists()]
        if not made:
            raise ResultsError(f"no run has a table {name!r}: ./castbed analyse makes it")
        return _as(kind, pa.concat_tables(made, promote_options="default"), spark)

    def groups(self, by: str = "label") -> list[Group]:
        """Groups of repeats, as `castbed compare --by` makes them."""
        return grouped(self, by)

    def compare(self, by: str = "label", against: str = "") -> Comparison:
        """The figures of all groups with intervals, and tested differences, as `castbed compare` tells them."""
        return compared(self.groups(by), by, against)

    def figures(self, by: str = "label") -> dict[str, Callable[[], Figure]]:
        """Every figure by name; call one to make it."""
        return drawn.figures(self, by)

    def figure(self, name: str, by: str = "label") -> Figure:
        """A figure by name, to be restyled and saved: `figure("cost").axes[0].set_title("mine")`."""
        return drawn.figure(self, name, by)


def _about(run: MeasuredRun) -> dict[str, Any]:
    record = run.input.run
    return {
        "run": str(run.directory),
        "scenario": record.scenario,
        "label": run.label,
        "protocol": record.protocol,
        "seed": record.seed,
    }


def _asked(run: MeasuredRun) -> dict[str, Any]:
    """What was set, as text, and where it ran."""
    known = _about(run)
    return {"engine": run.input.run.engine} | {key: value for key, value in facets(run).items() if key not in known}


def _figures(run: MeasuredRun) -> dict[str, Any]:
    summary = run.summary
    return {
        "messages_sent": summary.messages,
        **{name: measure.of(summary) for name, measure in MEASURES.items()},
        "lower_bound": float(summary.cost.lower_bound),
        "messages_per_datagram": summary.messages_per_datagram,
        "verdict": str(summary.verdict),
        "not_tested": ", ".join(map(str, summary.not_tested)),
        "books_balanced": summary.balanced,
    }


def _with_run(run: MeasuredRun, name: str) -> pa.Table:
    table = run.table(name)
    if name == "packets":
        table = _with_kind_names(table.rename_columns({"protocol": "protocol_number"}), run.input.run)
    for place, (column, value) in enumerate(_about(run).items()):
        kind = pa.int64() if isinstance(value, int) else pa.string()
        table = table.add_column(place, column, pa.array([value], kind).take(pa.array([0] * table.num_rows, pa.int64())))
    return table


def _with_kind_names(packets: pa.Table, recorded: RunRecord) -> pa.Table:
    """The table of packets with a column for the names of kinds; empty for runs that do not name them, of protocols not known here."""
    known = PROTOCOLS[recorded.protocol].messages if recorded.protocol in PROTOCOLS else ()
    kinds = recorded.kinds or tuple(kind.__name__ for kind in known)
    names = [kinds[kind] if kind is not None and kind < len(kinds) else None for kind in packets["kind"].to_pylist()]
    place = packets.column_names.index("kind") + 1
    return packets.add_column(place, "kind_name", pa.array(names, pa.string()))


def _as(kind: Kind, table: pa.Table, spark: "SparkSession | None") -> Any:
    match kind:
        case "arrow":
            return table
        case "pandas":
            return table.to_pandas()
        case "spark":
            if spark is None:
                from analysis.spark import start_session  # noqa: PLC0415 - imports Spark

                spark = start_session()
            return spark.createDataFrame(table)
    raise ResultsError(f"there are no frames of kind {kind!r}: choose pandas, arrow or spark")
