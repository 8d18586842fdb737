"""What there is to see of a network that is up, as plain data: the watch, the views and other terminals live on it."""

import msgspec

from hostagent.contract.messages import Purpose

PURPOSES = tuple(purpose.name.lower() for purpose in Purpose)


class HostNow(msgspec.Struct, frozen=True):
    """One host. `missing` counts the messages of all sources that it has not delivered yet."""

    host: str
    state: str
    """`up`, `paused` or `crashed`."""
    delivered: int
    missing: int
    parents: dict[str, str]
    """Its parent in the tree of each source, where it has one."""


class LinkNow(msgspec.Struct, frozen=True):
    """One link between switches. `changes` says how it differs from what was built; `packets` has both ways of an expensive one."""

    link: str
    a: str
    b: str
    expensive: bool
    up: bool
    changes: str
    packets: dict[str, dict[str, int]]
    """For `a->b` and `b->a`, the packets seen by purpose."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that there is to see of a network at an instant."""

    name: str
    network: str
    protocol: str
    results: str
    at_s: float
    """Since the network was ready."""
    interval_ms: float
    """Between two messages of the stream; zero if there is none."""
    broadcasts: dict[str, int]
    """Messages so far, by source."""
    expensive_packets: dict[str, int]
    """Host-to-host packets that crossed at least one expensive link, by purpose."""
    lower_bound: int
    """Of those with data, per message: one for each cluster but that of the source."""
    hosts: tuple[HostNow, ...]
    links: tuple[LinkNow, ...]
    clusters: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]
