"""Captures to Arrow batches: the columns, the selection of packets, and the report of every file."""

import json
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from sparkpcap.captures import Capture, Flags, Packets
from sparkpcap.files import open_source
from sparkpcap.hadoop import Settings
from sparkpcap.layers import Column, decode, fields
from sparkpcap.plan import FilePart

_COLUMNS: Final = {
    "file": pa.string(),
    "link": pa.string(),
    "at_ns": pa.int64(),
    "captured": pa.int32(),
    "original": pa.int64(),
    "vlan": pa.int32(),
    "ip_version": pa.int32(),
    "source": pa.int64(),
    "destination": pa.int64(),
    "source_ipv6": pa.binary(),
    "destination_ipv6": pa.binary(),
    "ip_protocol": pa.int32(),
    "dscp": pa.int32(),
    "ip_length": pa.int32(),
    "source_port": pa.int32(),
    "destination_port": pa.int32(),
    "udp_length": pa.int32(),
}
# Spark has no unsigned numbers: each type maps to one that holds all its values, except u8, whose 64 bits are kept.
_FIELD_TYPES: Final = dict.fromkeys(("u1", "i1", "u2", "i2", "i4"), pa.int32()) | dict.fromkeys(("u4", "u8", "i8"), pa.int64())
# The number of packets in a batch: about 20 MB of arrays.
_BATCH: Final = 100_000


class Report(NamedTuple):
    """The report of a file, or of a part of it.

    `packets` counts all packets, `skipped` those that the query does not select, `cut` those of which the capture kept too few bytes to
    decide. `problems` says what else could not be read. `missed`: the part did not end at its planned end, so a cut was guessed wrongly.
    """

    file: str
    packets: int = 0
    skipped: int = 0
    cut: int = 0
    problems: tuple[str, ...] = ()
    missed: bool = False

    def as_json(self) -> str:
        """The report as JSON, for a column of text."""
        return json.dumps(self._asdict())


@dataclass(frozen=True)
class Query:
    """A query of captures; the README of the package explains the options."""

    udp_port: int | None = None
    fields: tuple[tuple[str, int, str], ...] = ()
    match: Mapping[str, int] = field(default_factory=dict)
    drop_unmatched: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    report: bool = False
    columns: tuple[str, ...] | None = None
    hadoop: Settings = ()

    def __post_init__(self) -> None:
        names = [name for name, _, _ in self.fields]
        for name, offset, kind in self.fields:
            if kind.lstrip("<>=") not in _FIELD_TYPES or offset < 0:
                raise ValueError(
                    f"the field {name!r} at {offset} of type {kind!r} cannot be read: a type is like u1, >u2, <i4 or >u8"
                )
        if twice := [name for name, count in Counter([*names, *_COLUMNS, "report"]).items() if count > 1]:
            raise ValueError(f"there would be two columns {twice[0]!r}: give the field another name")
        if strange := set(self.match) - set(names):
            raise ValueError(f"{min(strange)!r} is to match a value but is not among the fields")
        if strange := set(self.columns or ()) - set(self.every_column().names):
            raise ValueError(f"there is no column {min(strange)!r}: there are {', '.join(self.every_column().names)}")

    def every_column(self) -> pa.Schema:
        """All columns that this query can have."""
        base = [(name, kind) for name, kind in _COLUMNS.items() if name != "link" or self.links]
        extra = [(name, _FIELD_TYPES[kind.lstrip("<>=")]) for name, _, kind in self.fields]
        return pa.schema([*base, *extra, *([("report", pa.string())] if self.report else [])])

    def schema(self) -> pa.Schema:
        """The columns that the query selects."""
        every = self.every_column()
        return every if self.columns is None else pa.schema([every.field(name) for name in self.columns])

    @property
    def layout(self) -> np.dtype[Any] | None:
        """The fields as a record at the start of a payload."""
        if not self.fields:
            return None
        names, offsets, kinds = zip(*self.fields, strict=True)
        return np.dtype({"names": list(names), "offsets": list(offsets), "formats": list(kinds)})


def query_from(options: Mapping[str, str], columns: Sequence[str] | None = None) -> Query:
    """A query from the options of a reader, which are text. Raises `ValueError` with a sentence for a wrong option."""
    known = {"udp_port", "fields", "match", "drop_unmatched", "links", "report", "hadoop"}
    own = {"path", "paths", "partitions"}
    if strange := {name.lower() for name in options} - known - own:
        raise ValueError(f"there is no option {min(strange)!r}: there are {', '.join(sorted(known | own))}")
    found = {name.lower(): value for name, value in options.items()}
    port = found.get("udp_port")
    if port is not None and not (port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"udp_port is {port!r} and must be a port's number")
    return Query(
        udp_port=None if port is None else int(port),
        fields=tuple(_field(each) for each in _json(found, "fields", list)),
        match=_json(found, "match", dict),
        drop_unmatched=_truth(found, "drop_unmatched"),
        links=_json(found, "links", dict),
        report=_truth(found, "report"),
        columns=None if columns is None else tuple(columns),
        hadoop=tuple((name, str(value)) for name, value in _json(found, "hadoop", dict).items()),
    )


def _json(options: Mapping[str, str], name: str, kind: type) -> Any:
    try:
        value = json.loads(options.get(name, "")) if name in options else kind()
    except json.JSONDecodeError as error:
        raise ValueError(f"the option {name} is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise ValueError(f"the option {name} must be a JSON {'list' if kind is list else 'object'}")  # noqa: TRY004 - one error for users
    return value


def _field(value: Any) -> tuple[str, int, str]:
    match value:
        case [str(name), int(offset), str(kind)]:
            return name, offset, kind
    raise ValueError(f'the field {value!r} must be a list of name, offset and type, such as ["sequence", 28, ">u4"]')


def _truth(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise ValueError(f"the option {name} is {text!r} and must be true or false")
    return text == "true"


def read(part: FilePart, query: Query) -> Generator[pa.RecordBatch, None, Report]:
    """The packets of a part of a file in batches; the return value of the generator is the report of the part."""
    try:
        source = open_source(part.path, query.hadoop)
    except OSError as error:
        return Report(part.path, problems=(f"cannot be read ({error.strerror})",))
    try:
        capture = Capture(source, part.start, part.end, part.form)
        tally = _Tally(part.path, query)
        for packets in capture:
            for start in range(0, len(packets.at), _BATCH):
                yield tally.batch(_some(packets, slice(start, start + _BATCH)))
        return tally.report(capture)._replace(missed=part.end is not None and capture.at != part.end)
    finally:
        source.close()


def read_all(parts: Sequence[FilePart], query: Query) -> Iterator[pa.RecordBatch]:
    """The packets of several parts. Each part ends with a row for its report if the query has reports; else problems go to stderr."""
    for part in parts:
        report = yield from read(part, query)
        if query.report:
            yield _filled(query.schema(), 1, {"file": pa.array([part.path]), "report": pa.array([report.as_json()])})
        else:
            for problem in report.problems:
                print(f"sparkpcap: {part.path} {problem}", file=sys.stderr)


def _some(packets: Packets, some: slice) -> Packets:
    """A slice of packets; they share the bytes of all."""
    return packets._replace(**{name: getattr(packets, name)[some] for name in Packets._fields if name != "data"})


class _Tally:
    """Makes batches of packets and counts the packets that are left out."""

    def __init__(self, path: str, query: Query) -> None:
        self._path = path
        self._query = query
        self._schema = query.schema()
        self._skipped = self._cut = 0
        self._unread = Counter[int]()

    def report(self, capture: Capture) -> Report:
        problems = list(capture.problems)
        problems += (f"has {count} packets of link type {kind}, which is not read" for kind, count in self._unread.items())
        return Report(self._path, capture.packets, self._skipped, self._cut, tuple(problems))

    def batch(self, packets: Packets) -> pa.RecordBatch:
        found = decode(packets)
        self._unread.update(found.unread)
        columns, cut, keep = found.columns, found.cut, np.ones(len(packets.at), np.bool_)
        if self._query.udp_port is not None:
            keep = found.is_udp & (columns["destination_port"].values == self._query.udp_port)
        if self._query.layout is not None:
            records, there, too_short = fields(packets, found, self._query.layout)
            cut = cut | (too_short & keep)
            for name, value in self._query.match.items():
                there = there & (records[name] == value)
            columns |= {name: Column(records[name], there) for name, _, _ in self._query.fields}
            keep = keep & (there if self._query.drop_unmatched else True)
        if self._query.udp_port is not None or self._query.drop_unmatched:
            keep = keep & ~cut
        self._cut += int(cut.sum())
        self._skipped += int((~keep & ~cut).sum())
        count = len(packets.at)
        everywhere = np.ones(count, np.bool_)
        columns |= {
            "at_ns": Column(packets.at_ns, packets.timed),
            "captured": Column(packets.captured, everywhere),
            "original": Column(packets.original, everywhere),
        }
        wanted = {name: columns[name] for name in self._schema.names if name in columns}
        arrays = {name: _array(column, keep, self._schema.field(name).type) for name, column in wanted.items()}
        kept = int(keep.sum())
        return _filled(self._schema, kept, arrays | self._names(kept))

    def _names(self, count: int) -> dict[str, pa.Array]:
        found = {"file": pa.repeat(self._path, count)}
        if self._query.links:
            link = self._query.links.get(self._path, self._query.links.get(self._path.rpartition("/")[2]))
            found["link"] = pa.repeat(pa.scalar(link, pa.string()), count)
        return found


def _array(column: Column, keep: Flags, kind: pa.DataType) -> pa.Array:
    values, there = column
    if not keep.all():
        values, there = values[keep], there[keep]
    if pa.types.is_binary(kind):
        fixed = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
        )
        return pa.compute.if_else(pa.array(there), fixed.cast(kind), pa.scalar(None, kind))
    numbers = np.ascontiguousarray(values).astype(kind.to_pandas_dtype())
    return pa.array(numbers, kind) if there.all() else pa.array(numbers, kind, mask=~there)


def _filled(schema: pa.Schema, rows: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    arrays = [columns.get(each.name, None) for each in schema]
    return pa.record_batch(
        [pa.nulls(rows, each.type) if array is None else array for each, array in zip(schema, arrays, strict=True)], schema=schema
    )
