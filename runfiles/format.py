"""The result directory of a run: what each file is called and what is in it.

Both engines write it through these types and the analysis reads it through them, so there is one description of a run.

    run.json            Run
    scenario.json       what was asked, in the format of scenarios.scenario
    network.json        the network as built, in the format of topologies.files
    faults.jsonl        one Fault a line
    controller.jsonl    the controller's own log
    counters.json       for every host, its counters by name
    events/HOST.jsonl   one Event a line
    captures/*.pcap     named in Run.captures

Every file says which format it is of: JSON by the field `format`, a line of faults.jsonl too, the controller's log by its first line,
Parquet by the schema's metadata, an archive by its comment. What has no place for it, event logs and captures, is covered by run.json.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from hostagent.contract.events import Event, Nanoseconds
from hostagent.contract.promises import Promise

FORMAT = 2
"""The format of the files that are written. Files that say none are of format 1: they are the same, but for `counters.json`, whose hosts
were not in an object of their own, and `claims.json`, which was a list."""
PARQUET_METADATA = {"castbed_format": str(FORMAT)}

CROSSINGS = "crossings.parquet"
"""Where the simulator, which has no captures, puts every packet on every link: the columns of the packets table."""

ANALYSED = frozenset(("tables", "summary.json", "plots", "claims.json", "report.html"))
"""What the analysis makes, and can make again."""
RUN_FILES = frozenset(
    (
        *("run.json", "scenario.json", "network.json", "faults.jsonl", "controller.jsonl", "counters.json"),
        *("events", "captures", CROSSINGS, "tables", "summary.json", "plots", "report.html"),
    )
)
"""Every file and folder of a run."""
BESIDE_RUNS = frozenset(("plots", "claims.json", "report.html"))
"""What lies beside the directories of several runs."""


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""How many there were of something: a number that is exact also as a float."""


class CaptureRecord(msgspec.Struct, frozen=True):
    """One capture file. `source` and `target` are the ends of the link.

    A capture between switches holds the packets that crossed the link from `source` to `target`. A capture of a host's access link
    (`both_ways`) is taken at the switch and holds both directions, told apart by the sender's address; `source` is the host.
    """

    file: str
    source: str
    target: str
    both_ways: bool
    captured: Count | None
    """What tcpdump says it took; nothing if it was killed."""
    dropped: Count


class LinkDrops(msgspec.Struct, frozen=True):
    """Packets that were dropped at the end of a link that is at `source`, by cause; and those that were made there.

    `loss`, `queue` and `duplicated` are for packets to `target`. `overrun` is for packets from there: `source` is a switch that did not
    take them fast enough.
    """

    source: str
    target: str
    loss: Count
    queue: Count
    overrun: Count = 0
    duplicated: Count = 0


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was run and on what."""

    run: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    scenario: str
    label: str = ""
    """What tells this run from the others of its scenario."""
    protocol: str
    engine: str
    seed: int
    settings: dict[str, Any]
    parameters: dict[str, Any]
    promise: Promise
    """What the protocol promises with these parameters among these hosts."""
    pack_ms: float | None = None
    """How messages to the same host shared datagrams, in the words of `hostagent.runtime.packing`; runs before there was packing do not
    say."""
    udp_port: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    started_ns: Nanoseconds
    ended_ns: Nanoseconds
    versions: dict[str, str]
    datapath: str
    shaping: str
    captures: tuple[CaptureRecord, ...]
    link_drops: tuple[LinkDrops, ...]
    problems: tuple[str, ...] = ()
    """What went wrong while running; any problem makes the verdict unknown."""


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One injected fault: when it was asked for, when it was in force, and on what.

    `fault` is a word of the vocabulary in `scenarios.faults`, `target` the link, switch or host; `details` has its other fields.
    `observed` is what the machine showed afterwards, where there is something to see.
    """

    fault: str
    target: str
    asked_ns: Nanoseconds
    applied_ns: Nanoseconds
    details: dict[str, Any] = {}
    observed: str = ""


Counters = dict[str, dict[str, Count]]
"""For every host, its counters of `hostagent.runtime.counters.NAMES`, and beside them what the kernel refused on the agent's behalf:
`overflowed` (the socket's buffer was full) and `unreachable` (nobody listened)."""

__all__ = ["CaptureRecord", "Counters", "Event", "FaultRecord", "LinkDrops", "RunRecord"]


class CountersFile(msgspec.Struct, frozen=True):
    """What is in `counters.json`."""

    hosts: Counters


def encoded(value: object) -> bytes:
    """A JSON object of a run's file, on one line, which says its format first."""
    data = msgspec.json.encode(value)
    assert data.startswith(b"{"), "the format is a field of an object"
    return b'{"format":%d%s' % (FORMAT, data[1:] if data == b"{}" else b"," + data[1:])


def write(path: Path, value: object) -> None:
    """Write a file of a run that is one JSON object."""
    write_whole(path, msgspec.json.format(encoded(value), indent=2) + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that readers see when it is whole, or not at all."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(data)
    unfinished.replace(path)
