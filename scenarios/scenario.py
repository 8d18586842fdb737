"""What an experiment is: a network, a stream of broadcasts, faults at given times, and a while to settle."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from scenarios.faults import Fault, FaultError, LinkDown, LinkUp, check, steps
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
        if not 0 <= self.payload <= LARGEST_MESSAGE:
            raise ScenarioError(f"payload={self.payload}: a message has 0 to {LARGEST_MESSAGE} bytes, to fit into one packet")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One experiment, the same for every protocol. The sources broadcast in turn; by default the first host is the source."""

    network: Network
    protocols: tuple[str, ...] = ("best-effort", "cluster-tree")
    sources: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    workload: Workload = Workload()

    def __post_init__(self) -> None:
        if not self.sources:
            object.__setattr__(self, "sources", self.network.hosts[:1])
        for source in self.sources:
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

    def broadcasts(self) -> Iterator[tuple[int, str, bytes]]:
        """Every broadcast: its number from 0, its source and its payload."""
        for number in range(self.workload.messages):
            text = f"message {number + 1} ".encode()
            yield (
                number,
                self.sources[number % len(self.sources)],
                text.ljust(self.workload.payload, b".")[: self.workload.payload],
            )


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
