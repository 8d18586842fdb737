"""The result directory of a run: the name and the contents of each file.

Both engines write the files through these types and the analysis reads them through the same types, so there is one description of a run.

    run.json            Run
    scenario.json       what was to be run, in the format of scenarios.scenario
    network.json        the network as built, in the format of topologies.files
    faults.jsonl        one Fault a line
    controller.jsonl    the controller's own log
    counters.json       for every host, its counters by name
    events/HOST.jsonl   one Event a line
    captures/*.pcap     named in Run.captures
    protocol/NAME.py    the protocol, if it is a file of a user; or the program

Every file states the version of its format: a JSON file and each line of faults.jsonl in the field `format`, the controller's log in its
first line, Parquet in the metadata of the schema, an archive in its comment. For event logs and captures, the version in run.json counts.
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from hostagent.contract.events import Event, Nanoseconds
from hostagent.contract.promises import Promise

FORMAT = 2
"""The format version of the files that are written. A file without a version is of format 1, which differs in two files: `counters.json`
had the hosts at the top level, and `claims.json` was a list."""
PARQUET_METADATA = {"castbed_format": str(FORMAT)}

CROSSINGS = "crossings.parquet"
"""The simulator's file in place of captures: every packet on every link, with the columns of the packets table."""

OWN_PROTOCOL = "protocol"
"""The folder with the file of a user's protocol."""

ANALYSED = frozenset(("tables", "summary.json", "plots", "claims.json", "report.html"))
"""The files that the analysis writes, and can write again."""
RUN_FILES = frozenset(
    (
        *("run.json", "scenario.json", "network.json", "faults.jsonl", "controller.jsonl", "counters.json"),
        *("events", "captures", OWN_PROTOCOL, CROSSINGS, "tables", "summary.json", "plots", "report.html"),
    )
)
"""Every file and folder of a run."""
BESIDE_RUNS = frozenset(("plots", "claims.json", "report.html"))
"""The files beside the directories of several runs."""


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A count; it is small enough to be exact as a float."""
Medium = Literal["unicast", "multicast"]
"""How a message to a group travels: as one datagram to each member, or as one that the switches copy."""


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
    """The packets that tcpdump reports as captured; None if it was killed."""
    dropped: Count


class LinkDrops(msgspec.Struct, frozen=True):
    """Counts of packets that were dropped at the `source` end of a link, by cause, and of duplicates that were made there.

    `loss`, `queue` and `duplicated` count packets to `target`. `overrun` counts packets from `target`, which the switch `source` did not
    read fast enough.
    """

    source: str
    target: str
    loss: Count
    queue: Count
    overrun: Count = 0
    duplicated: Count = 0


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was run, on which engine, and how."""

    run: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    scenario: str
    label: str = ""
    """The name of this run among the runs of its scenario."""
    protocol: str
    engine: str
    seed: int
    settings: dict[str, Any]
    parameters: dict[str, Any]
    promise: Promise
    """What the protocol promises with these parameters among these hosts."""
    medium: Medium = "unicast"
    """Whether a message to several hosts is one datagram to each, or one datagram that the switches copy."""
    pack_ms: float | None = None
    """How messages to the same host shared datagrams, as a value of `hostagent.runtime.packing`; absent in runs from before packing."""
    program: tuple[str, ...] | None = None
    """If the protocol is a program of a user, its arguments."""
    kinds: tuple[str, ...] = ()
    """The names of the protocol's kinds of messages, in the order of their numbers; absent in runs from before they were recorded."""
    guest: bool = False
    """Whether the protocol is a guest: its packets have no header of ours, so captures have all IPv4 packets, and links are all that is
    accounted for."""
    udp_port: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    started_ns: Nanoseconds
    ended_ns: Nanoseconds
    versions: dict[str, str]
    datapath: str
    shaping: str
    captures: tuple[CaptureRecord, ...]
    link_drops: tuple[LinkDrops, ...]
    problems: tuple[str, ...] = ()
    """What went wrong during the run, in sentences; any problem makes the verdict unknown."""


LATE: Final = "late"
"""The `fault` of a record that a host is not there at the start; an `arrive` follows when it comes."""


TREE: Final = "tree"
"""The `fault` of a record that the tree of a group, the target, leads to other `members` since a host has joined or left the `group`."""


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One injected fault: its target, when it was requested, and when it was in force.

    `fault` is a name of a fault in `scenarios.faults`, `LATE` or `TREE`, `target` the link, switch or host; `details` has the other fields
    of the fault. `observed` is what the machine showed afterwards, for faults that can be observed.
    """

    fault: str
    target: str
    asked_ns: Nanoseconds
    applied_ns: Nanoseconds
    details: dict[str, Any] = {}
    observed: str = ""


class GroupRecord(msgspec.Struct, frozen=True):
    """One group of hosts in `scenario.json`. Groups are numbered from 1 in their order there."""

    name: str
    members: tuple[str, ...]


class GroupsFile(msgspec.Struct, frozen=True):
    """What readers other than `scenarios` use of `scenario.json`."""

    groups: tuple[GroupRecord, ...] = ()


Counters = dict[str, dict[str, Count]]
"""For every host, the counters of `hostagent.runtime.counters.NAMES` and two that the kernel keeps: `overflowed` (datagrams that found the
agent's socket buffer full) and `unreachable` (datagrams to a port or a group without a listener)."""

__all__ = ["CaptureRecord", "Counters", "Event", "FaultRecord", "LinkDrops", "RunRecord"]


class CountersFile(msgspec.Struct, frozen=True):
    """The contents of `counters.json`."""

    hosts: Counters


def encoded(value: object) -> bytes:
    """A value as a JSON object on one line, with its format version as the first field."""
    data = msgspec.json.encode(value)
    assert data.startswith(b"{"), "the format is a field of an object"
    return b'{"format":%d%s' % (FORMAT, data[1:] if data == b"{}" else b"," + data[1:])


def write(path: Path, value: object) -> None:
    """Write a file of a run as one JSON object."""
    write_whole(path, msgspec.json.format(encoded(value), indent=2) + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none of it."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(data)
    unfinished.replace(path)
