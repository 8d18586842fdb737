"""The state of a network that is up, as plain data for `castbed watch`, the views and other terminals."""

import msgspec

from hostagent.contract.messages import Purpose

PURPOSES = tuple(purpose.name.lower() for purpose in Purpose)


class GraphNow(msgspec.Struct, frozen=True):
    """The propagation graph at one host."""

    number: int
    closed: bool
    """Whether the host waits for the next graph and passes no messages on."""
    primary_of: tuple[str, ...]
    """The groups whose messages the host gets from their sources."""
    waits_for: str
    """The nearest host above it that is not up, if messages are missing; else empty."""

    def __str__(self) -> str:
        return f"{self.number}{' closed' if self.closed else ''}"


class HostNow(msgspec.Struct, frozen=True):
    """One host. `missing` counts the messages for the host that it has not delivered yet."""

    host: str
    state: str
    """`up`, `paused`, `crashed` or `departed`."""
    delivered: int
    missing: int
    parents: dict[str, str]
    """The host's parent in the tree of each source that it has a parent for."""
    graph: GraphNow | None = None
    """For protocols with a propagation graph."""
    committed: str = ""
    """For protocols that commit: the last message that the host has marked as committed, such as `h1:5`."""

    @property
    def trouble(self) -> str:
        """The state of a host that is not up, or for whom it waits; else empty."""
        waits_for = self.graph.waits_for if self.graph else ""
        return self.state if self.state != "up" else f"waits for {waits_for}" if waits_for else ""


class LinkNow(msgspec.Struct, frozen=True):
    """One link between switches. `changes` says how the link differs from how it was built; `packets` is for expensive links."""

    link: str
    a: str
    b: str
    expensive: bool
    up: bool
    changes: str
    packets: dict[str, dict[str, int]]
    """For each direction, `a->b` and `b->a`, the packets by purpose."""


class Happening(msgspec.Struct, frozen=True):
    """Something that happened: a fault, or what one host or several did."""

    number: int
    """Later ones have higher numbers; a happening that goes on gets a new one."""
    at_s: float
    kind: str
    """`fault`, or the name of an event in the logs of hosts."""
    who: str
    """`fault`, or hosts."""
    what: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a network at an instant."""

    name: str
    network: str
    protocol: str
    results: str
    at_s: float
    """Seconds since the network was ready."""
    interval_ms: float
    """Milliseconds between two messages of the stream; zero if there is no stream."""
    broadcasts: dict[str, int]
    """Messages so far, by source."""
    expensive_packets: dict[str, int]
    """Host-to-host packets that crossed at least one expensive link, by purpose."""
    lower_bound: int
    """The least expensive packets per message: one for each cluster except the source's."""
    hosts: tuple[HostNow, ...]
    links: tuple[LinkNow, ...]
    clusters: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
    groups: dict[str, tuple[str, ...]] = {}
    """The members of each group by the name of the group, in the latest view that a host has installed."""
    token: str = ""
    """For protocols with a token: who has it, and its generation."""
    happenings: tuple[Happening, ...] = ()
    """What happened last, the oldest first."""
