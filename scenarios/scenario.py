"""What an experiment is: a network, a stream of broadcasts, faults at given times, and a while to settle; and how a run keeps it."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from scenarios.faults import AnyFault, Fault, FaultError, LinkDown, LinkUp, check, steps
from topologies import Network, units

Time = Annotated[float, units.time_ms]
"""The type of a value that users write as `50ms`; inside it is a number of milliseconds."""

Bandwidth = Annotated[float, units.bandwidth_mbit]
"""The type of a value that users write as `500kbit`; inside it is a number of Mbit/s."""
Share = Annotated[float, units.share]
"""The type of a value that users write as `5%`; inside it is a number from 0 to 1."""

# A datagram carries 1,436 bytes besides its header; the rest is left to the fields of protocols.
LARGEST_MESSAGE = 1200


class ScenarioError(ValueError):
    """The scenario asked for makes no sense; the message says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The stream of broadcasts. Every scenario has one, and users may set each of these whatever the scenario."""

    messages: int = 20
    interval: Time = 50.0
    """Milliseconds between two broadcasts."""
    payload: int = 256
    """Bytes of a message."""
    settle: Time = 2000.0
    """Milliseconds that the run goes on after the last broadcast or fault."""

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise ScenarioError(f"messages={self.messages}: there must be at least one")
        if self.interval <= 0:
            raise ScenarioError("interval must be above zero")
        _check_payload(self.payload)


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """One broadcast of a script."""

    at_ms: float
    source: str
    payload: int = 256
    """Bytes of the message."""

    def __post_init__(self) -> None:
        if not 0 <= self.at_ms < math.inf:
            raise ScenarioError(f"a broadcast of {self.source} at {self.at_ms:g} ms: give the milliseconds since the start")
        _check_payload(self.payload)


def payload_of(number: int, size: int) -> bytes:
    """The message of this number, so long."""
    return f"message {number} ".encode().ljust(size, b".")[:size]


def _check_payload(size: int) -> None:
    if not 0 <= size <= LARGEST_MESSAGE:
        raise ScenarioError(f"payload={size}: a message has 0 to {LARGEST_MESSAGE} bytes, to fit into one packet")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One experiment, the same for every protocol. The sources broadcast in turn; by default the first host is the source.

    With a `script`, exactly the broadcasts in it are made, and of the workload only `settle` counts.
    """

    network: Network
    protocols: tuple[str, ...] = ("best-effort", "cluster-tree")
    sources: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    workload: Workload = Workload()
    script: tuple[Broadcast, ...] | None = None

    def __post_init__(self) -> None:
        scripted = tuple(dict.fromkeys(broadcast.source for broadcast in self.script or ()))
        if not self.sources:
            object.__setattr__(self, "sources", scripted or self.network.hosts[:1])
        for source in (*self.sources, *scripted):
            if not self.network.is_host(source):
                raise ScenarioError(f"source {source!r} is not a host of network {self.network.name!r}")
        try:
            check(self.faults, self.network)
        except FaultError as error:
            raise ScenarioError(str(error)) from None

    @property
    def last_fault_ms(self) -> float:
        """When the last step of the last fault that has a time is due."""
        timed = ((fault.at_ms, fault) for fault in self.faults if fault.at_ms is not None)
        return max((at_ms + after_ms for at_ms, fault in timed for after_ms, _ in steps(fault, self.network)), default=0.0)

    @property
    def ends_ms(self) -> float:
        """When the settling time after the last broadcast and the last fault is over."""
        last_broadcast_ms = max((at_ms for at_ms, _, _ in self.broadcasts()), default=0.0)
        return max(last_broadcast_ms, self.last_fault_ms) + self.workload.settle

    def broadcasts(self) -> Iterator[tuple[float, str, bytes]]:
        """Every broadcast: its time in milliseconds, its source and its payload."""
        for number, broadcast in enumerate(self._stream() if self.script is None else self.script, start=1):
            yield broadcast.at_ms, broadcast.source, payload_of(number, broadcast.payload)

    def _stream(self) -> Iterator[Broadcast]:
        stream = self.workload
        for number in range(stream.messages):
            source = self.sources[number % len(self.sources)]
            yield Broadcast(at_ms=number * stream.interval, source=source, payload=stream.payload)


@dataclass(frozen=True)
class Variant:
    """One run of several that differ in more than the protocol; its results go to a directory of this label."""

    label: str
    scenario: Scenario
    protocol: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the protocol; the others are as the protocol or the user has them."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.label) or self.label == "plots":
            raise ScenarioError(
                f"{self.label!r} cannot be the label of a run: it names a directory, in letters, digits, . _ and -"
            )


def pulled(link: str, at_ms: float = 0.0, back_ms: float | None = None) -> tuple[Fault, ...]:
    """A link between switches, written `s1-s2`, that is pulled and perhaps plugged in again; no faults if `link` is empty."""
    if not link:
        return ()
    down = LinkDown(at_ms=at_ms, link=link)
    return (down,) if back_ms is None else (down, LinkUp(at_ms=back_ms, link=link))


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scenario.json`: everything of a scenario that is neither the network nor a protocol, which have files of their own."""

    sources: tuple[str, ...]
    workload: Workload
    faults: tuple[AnyFault, ...]
    script: tuple[Broadcast, ...] | None


def dump(scenario: Scenario, path: Path) -> None:
    """Write down what is asked of a run, so that it can be run again."""
    asked = {name: getattr(scenario, name) for name in _Document.__struct_fields__}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_Document(**asked))))


def load(path: Path, network: Network) -> Scenario:
    """What was asked of a run on this network."""
    try:
        asked = msgspec.json.decode(path.read_bytes(), type=_Document)
        return Scenario(network=network, **msgspec.structs.asdict(asked))
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ScenarioError(f"{path} is not what a run writes: {error}") from None
