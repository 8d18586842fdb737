"""The state of a network that is up, as plain data for `castbed watch`, the views and other terminals."""

import msgspec

from hostagent.contract.messages import Purpose

PURPOSES = tuple(purpose.name.lower() for purpose in Purpose)


class HostNow(msgspec.Struct, frozen=True):
    """One host. `missing` counts the messages for the host that it has not delivered yet."""

    host: str
    state: str
    """`up`, `paused`, `crashed` or `departed`."""
    delivered: int
    missing: int
    parents: dict[str, str]
    """The host's parent in the tree of each source that it has a parent for."""


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
