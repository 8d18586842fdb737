"""The small tables of a run, made without Spark from data that the driver has anyway. docs/tables.md describes every table."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from analysis.figures.statistics import quantiles
from analysis.figures.summary import Summary
from analysis.judging.healing import Healing, healings
from analysis.judging.history import History
from runfiles.reading import RunInput

_TEXT, _NUMBER, _MS = pa.string(), pa.int64(), pa.float64()
PARENTS: Final = pa.schema({"at_ns": _NUMBER, "host": _TEXT, "source": _TEXT, "parent": _TEXT, "position": _NUMBER})
DELAYS: Final = pa.schema({"origin": _TEXT, "sequence": _NUMBER, "hosts": _NUMBER, "p50_ms": _MS, "last_ms": _MS})
LOADS: Final = pa.schema({"host": _TEXT, "sent": _NUMBER, "received": _NUMBER, "messages": _NUMBER, "delivered": _NUMBER})
FAULTS: Final = pa.schema(
    {"fault": _TEXT, "target": _TEXT, "asked_ns": _NUMBER, "applied_ns": _NUMBER, "details": _TEXT, "observed": _TEXT}
)
HEALING: Final = pa.schema({"at_ns": _NUMBER, "fault": _TEXT, "caught_up_ms": _MS, "what": _TEXT, "stands_ms": _MS})
VERDICTS: Final = pa.schema({"guarantee": _TEXT, "verdict": _TEXT, "cases": _NUMBER, "reason": _TEXT})


def small_tables(run: RunInput, history: History, deliveries: pa.Table, summary: Summary) -> Iterator[tuple[str, pa.Table]]:
    """Every small table by name."""
    yield "parents", _table(PARENTS, [change._asdict() for change in history.parents])
    yield "delays", _delays(deliveries)
    loads = [
        {"host": host} | {name: run.counters.get(host, {}).get(name, 0) for name in LOADS.names[1:]} for host in run.network.hosts
    ]
    yield "loads", _table(LOADS, loads)
    faults = [msgspec.structs.asdict(fault) | {"details": msgspec.json.encode(fault.details).decode()} for fault in run.faults]
    yield "faults", _table(FAULTS, faults)
    yield "healing", _table(HEALING, [_healing(found) for found in healings(run, history)])
    verdicts = [
        {"guarantee": str(guarantee), "verdict": str(found.verdict), "cases": found.cases, "reason": found.reason}
        for guarantee, found in summary.checks.items()
    ]
    yield "verdicts", _table(VERDICTS, verdicts)


def _table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def _healing(found: Healing) -> dict[str, Any]:
    caught_up_ms, stands_ms = (None if ns is None else ns / 1e6 for ns in (found.caught_up_ns, found.stands_ns))
    return {"at_ns": found.at_ns, "fault": found.cause, "caught_up_ms": caught_up_ms, "what": found.what, "stands_ms": stands_ms}


def _delays(deliveries: pa.Table) -> pa.Table:
    """For each message the number of other hosts that delivered it, the median delay, and the delay to the last host."""
    by_message = deliveries.group_by(["origin", "sequence"]).aggregate([("delay_ms", "list")])
    rows = [
        {"origin": origin, "sequence": sequence, "hosts": len(ms), "p50_ms": quantiles(ms, [0.5])[0], "last_ms": max(ms)}
        for origin, sequence, ms in zip(
            *(by_message[name].to_pylist() for name in ("origin", "sequence", "delay_ms_list")), strict=True
        )
    ]
    return _table(DELAYS, rows).sort_by([("origin", "ascending"), ("sequence", "ascending")])
