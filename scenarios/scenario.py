"""What an experiment is: a network, a stream of broadcasts, faults at given times, and a while to settle."""

from dataclasses import dataclass
from typing import Annotated

from topologies import Network, NetworkError, units

Time = Annotated[float, units.time_ms]
"""The type of a value that users write as `50ms`; inside it is a number of milliseconds."""

# A datagram carries 1,436 bytes besides its header; the rest is left to the fields of protocols.
LARGEST_MESSAGE = 1200


class ScenarioError(ValueError):
    """The scenario asked for makes no sense; the message says why and what to change."""


@dataclass(frozen=True)
class LinkFault:
    """A link goes down or comes up at a time after the first broadcast."""

    at_ms: float
    a: str
    b: str
    up: bool

    @property
    def name(self) -> str:
        """How faults.jsonl names this fault."""
        return "link_up" if self.up else "link_down"


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
    protocols: tuple[str, ...] = ("best-effort", "basic")
    sources: tuple[str, ...] = ()
    faults: tuple[LinkFault, ...] = ()
    workload: Workload = Workload()

    def __post_init__(self) -> None:
        if not self.sources:
            object.__setattr__(self, "sources", self.network.hosts[:1])
        for source in self.sources:
            if not self.network.is_host(source):
                raise ScenarioError(f"source {source!r} is not a host of network {self.network.name!r}")
        for fault in self.faults:
            self._check(fault)

    def _check(self, fault: LinkFault) -> None:
        try:
            link = self.network.link(fault.a, fault.b)
        except NetworkError as error:
            raise ScenarioError(f"a fault is on a link that is not there: {error}") from None
        if self.network.is_host(link.a) or self.network.is_host(link.b):
            raise ScenarioError(f"a fault is on {link.name}, the access link of a host; only links between switches can fail")


def pulled(link: str, at_ms: float = 0.0, back_ms: float | None = None) -> tuple[LinkFault, ...]:
    """A link between switches, written `s1-s2`, that is pulled and perhaps plugged in again; no faults if `link` is empty."""
    if not link:
        return ()
    a, separator, b = link.partition("-")
    if not separator:
        raise ScenarioError(f"{link!r} does not name a link: write the switches at its ends, such as s1-s2")
    down = LinkFault(at_ms, a, b, up=False)
    return (down,) if back_ms is None else (down, LinkFault(back_ms, a, b, up=True))
