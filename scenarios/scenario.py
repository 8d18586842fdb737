"""The types of an experiment: a network, a stream of broadcasts, faults, and time to settle. Reads and writes `scenario.json` of a run."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate, count, cycle, islice, repeat
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from runfiles.format import Medium, write
from runfiles.versions import decode_file
from scenarios.faults import (
    AnyFault,
    Arrive,
    Depart,
    Fault,
    FaultError,
    Join,
    Leave,
    LinkDown,
    LinkUp,
    check,
    described,
    steps,
)
from scenarios.groups import EVERYBODY, Group, GroupError, check_groups, check_members
from scenarios.membership import check_membership
from topologies import Network, units

Time = Annotated[float, units.time_ms]
"""The type of a value that users write as `50ms`; in Python it is a number of milliseconds."""

Bandwidth = Annotated[float, units.bandwidth_mbit]
"""The type of a value that users write as `500kbit`; in Python it is a number of Mbit/s."""
Share = Annotated[float, units.share]
"""The type of a value that users write as `5%`; in Python it is a number from 0 to 1."""

# A datagram has room for 1,436 bytes after its header; the fields of protocols need the rest.
LARGEST_MESSAGE = 1200
# Ten times as many broadcasts a second as any host can make.
SHORTEST_INTERVAL_MS = 0.01
MOST_AT_ONCE = 10_000


Arrivals = Literal["steady", "poisson", "poisson-per-host", "think"]
"""When broadcasts are made.

steady            at equal intervals, the sources in turn
poisson           at random times for the system as a whole: the gaps between two broadcasts are exponential, each from a random source
poisson-per-host  at random times for each source: every source has exponential gaps of its own
think             each source sends its next message an interval (think time) after it delivered its previous one itself
"""
# With think time, how long a source may wait for the delivery of its own message before the run gives up, on average over the run.
LONGEST_DELIVERY_MS = 1000.0
# How long sources that have fallen behind get at least, to broadcast what they were offered.
SHORTEST_CATCHING_UP_MS = 5000.0


class ScenarioError(ValueError):
    """The scenario makes no sense; the message says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The stream of broadcasts. Users may set each of these fields for every scenario."""

    messages: int = 20
    """Broadcasts of all sources together."""
    interval: Time = 50.0
    """Milliseconds between two broadcasts, or their mean; with `poisson-per-host`, between two broadcasts of one source."""
    payload: int = 256
    """Bytes of a message."""
    settle: Time = 2000.0
    """Milliseconds that the run goes on after the last broadcast or fault."""
    warm_up: Time = 0.0
    """Milliseconds before the first broadcast, in which a ring or a tree can form."""
    arrivals: Arrivals = "steady"
    """When broadcasts are made; random times depend on the seed of the run only."""
    at_once: int = 1
    """The number of broadcasts that a source makes at the same moment. The gap after them is that many intervals long."""

    def __post_init__(self) -> None:
        if not 1 <= self.messages <= units.MOST_MESSAGES:
            raise ScenarioError(f"messages={self.messages}: there must be at least one, and at most {units.MOST_MESSAGES:,}")
        if not SHORTEST_INTERVAL_MS <= self.interval <= units.LONGEST_MS:
            bounds = f"{units.format_time(SHORTEST_INTERVAL_MS)} and {units.format_time(units.LONGEST_MS)}"
            raise ScenarioError(f"interval must be above zero: between {bounds}, not {self.interval:g} ms")
        if self.messages * self.interval > units.LONGEST_MS:
            raise ScenarioError(
                f"{self.messages:,} messages every {self.interval:g} ms take longer than {units.LONGEST_MS / 1000:,.0f} s: "
                "ask for fewer, or for a shorter interval"
            )
        for name, time_ms in (("settle", self.settle), ("warm_up", self.warm_up)):
            if not units.is_time(time_ms):
                raise ScenarioError(f"{name} must be zero, or up to {units.format_time(units.LONGEST_MS)}, not {time_ms:g} ms")
        if self.arrivals not in get_args(Arrivals):
            raise ScenarioError(f"arrivals={self.arrivals}: choose from {', '.join(get_args(Arrivals))}")
        if self.arrivals == "think" and self.at_once != 1:
            raise ScenarioError("arrivals=think: a source waits for the delivery of each message, so leave out at_once")
        if not 1 <= self.at_once <= MOST_AT_ONCE:
            raise ScenarioError(
                f"at_once={self.at_once}: there must be at least one broadcast at a time, and at most {MOST_AT_ONCE:,}"
            )
        _check_payload(self.payload)


@dataclass(frozen=True, kw_only=True)
class Broadcast:
    """One broadcast of a script."""

    at_ms: float
    source: str
    payload: int = 256
    """Bytes of the message."""
    to: str | tuple[str, ...] = EVERYBODY
    """The name of a group, or the hosts that this message is for."""

    def __post_init__(self) -> None:
        if not 0 <= self.at_ms <= units.LONGEST_MS:
            raise ScenarioError(
                f"a broadcast of {self.source} at {self.at_ms:g} ms: give the milliseconds since the start, up to {units.LONGEST_MS:,.0f}"
            )
        _check_payload(self.payload)


def catching_up_ms(offered_ms: float) -> float:
    """How long sources that have fallen behind may take to broadcast what they were offered within `offered_ms`; the rest is held back."""
    return max(SHORTEST_CATCHING_UP_MS, offered_ms)


class Sending(NamedTuple):
    """A broadcast to make in a run."""

    at_ms: float
    source: str
    payload: bytes
    to: int | tuple[str, ...]
    """The number of a group, or hosts."""
    follows: int = 0
    """With think time: the sequence number of the message of this source whose delivery there starts the `at_ms`; 0 for none."""


class FollowUps:
    """With think time, the broadcasts that wait for a delivery at their source; without it, none."""

    def __init__(self, sendings: Iterable[Sending]) -> None:
        self._waiting = {(sending.source, sending.follows): sending for sending in sendings if sending.follows}

    def __len__(self) -> int:
        return len(self._waiting)

    def release(self, host: str, event: str, origin: str, sequence: int) -> Sending | None:
        """The broadcast that this event of a host releases, to be made `at_ms` later; None for all other events."""
        return self._waiting.pop((host, sequence), None) if event == "deliver" and origin == host else None

    def problems(self) -> list[str]:
        """A sentence if broadcasts were not made because the deliveries that they wait for did not come in time."""
        if not self._waiting:
            return []
        sources = ", ".join(sorted({source for source, _ in self._waiting}))
        return [f"{len(self._waiting)} broadcasts were not made: {sources} did not deliver its previous message in time"]


def payload_of(number: int, size: int) -> bytes:
    """Payload of the n-th broadcast: its number in text, padded or cut to `size` bytes."""
    return f"message {number} ".encode().ljust(size, b".")[:size]


def _check_payload(size: int) -> None:
    if not 0 <= size <= LARGEST_MESSAGE:
        raise ScenarioError(f"payload={size}: a message has 0 to {LARGEST_MESSAGE} bytes, to fit into one packet")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One experiment, the same for every protocol. By default the first host is the source of all broadcasts.

    With a `script`, exactly the broadcasts in it are made, and of the workload only `settle` counts.
    """

    network: Network
    protocols: tuple[str, ...] = ("best-effort", "cluster-tree")
    sources: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    workload: Workload = Workload()
    script: tuple[Broadcast, ...] | None = None
    groups: tuple[Group, ...] = ()
    """If there are groups, the messages of the workload go to each group in turn, or, at random times, to a random group."""

    def __post_init__(self) -> None:
        scripted = tuple(dict.fromkeys(broadcast.source for broadcast in self.script or ()))
        if not self.sources:
            object.__setattr__(self, "sources", scripted or self.network.hosts[:1])
        for source in (*self.sources, *scripted):
            if not self.network.is_host(source):
                raise ScenarioError(f"source {source!r} is not a host of network {self.network.name!r}")
        try:
            check(self.faults, self.network)
            check_groups(self.groups, self.network.numbers)
            for broadcast in self.script or ():
                self._check_destination(broadcast)
            if any(isinstance(fault, Join | Leave | Arrive | Depart) for fault in self.faults):
                self._check_membership()
        except (FaultError, GroupError) as error:
            raise ScenarioError(str(error)) from None
        if self.script is None and self.workload.arrivals == "think":
            self._check_sources_deliver()

    def _check_membership(self) -> None:
        members = {EVERYBODY: self.network.hosts} | {group.name: group.members for group in self.groups}
        if self.script is None and self.workload.arrivals != "steady":
            for fault in self.faults:
                if isinstance(fault, Arrive | Depart) and fault.target in self.sources:
                    raise FaultError(
                        f"{described(fault)}: {fault.target} broadcasts at random times, which may be while it is not there; "
                        "use arrivals=steady, or another source"
                    )
        stream = self.script if self.script is not None else islice(self._stream(0), self.workload.messages)
        check_membership(self.faults, members, ((broadcast.at_ms, broadcast.source) for broadcast in stream))

    def _check_sources_deliver(self) -> None:
        for group in self.groups:
            for source in self.sources:
                if source not in group.members:
                    raise ScenarioError(
                        f"arrivals=think: {source} is not in group {group.name!r}, so it never delivers what it sends there; "
                        f"choose sources that are in every group"
                    )

    def _check_destination(self, broadcast: Broadcast) -> None:
        if not isinstance(broadcast.to, str):
            check_members(f"a broadcast of {broadcast.source}", broadcast.to, self.network.numbers)
        elif broadcast.to not in (names := [EVERYBODY, *(group.name for group in self.groups)]):
            raise GroupError(f"a broadcast of {broadcast.source} is to group {broadcast.to!r}: choose from {', '.join(names)}")

    @property
    def group_numbers(self) -> dict[str, int]:
        """The number of each group by its name, with that of everybody."""
        return {EVERYBODY: 0} | {group.name: number for number, group in enumerate(self.groups, start=1)}

    @property
    def members(self) -> dict[int, tuple[str, ...]]:
        """The members of each group by its number, in the order of the network's hosts."""
        hosts = self.network.hosts
        return {
            number: tuple(host for host in hosts if host in group.members) for number, group in enumerate(self.groups, start=1)
        }

    @property
    def messages(self) -> int:
        """How many broadcasts there are in a run."""
        return self.workload.messages if self.script is None else len(self.script)

    @property
    def knows_groups(self) -> bool:
        """Whether any message is not for everybody."""
        return bool(self.groups) or any(broadcast.to != EVERYBODY for broadcast in self.script or ())

    @property
    def last_fault_ms(self) -> float:
        """The time of the last step of all faults that have a time."""
        timed = ((fault.at_ms, fault) for fault in self.faults if fault.at_ms is not None)
        return max((at_ms + after_ms for at_ms, fault in timed for after_ms, _ in steps(fault, self.network)), default=0.0)

    def ends_ms(self, seed: int) -> float:
        """When the time to settle after the last broadcast and the last fault ends, in a run with this seed.

        With think time, when that ends at the latest.
        """
        if self.script is None and self.workload.arrivals == "think":
            rounds = -(-self.workload.messages // len(self.sources))
            last_broadcast_ms = self.workload.warm_up + rounds * (self.workload.interval + LONGEST_DELIVERY_MS)
        else:
            last_broadcast_ms = max((sending.at_ms for sending in self.broadcasts(seed)), default=0.0)
        return max(last_broadcast_ms, self.last_fault_ms) + self.workload.settle

    def broadcasts(self, seed: int) -> Iterator[Sending]:
        """Every broadcast of a run with this seed, also those that wait for a delivery."""
        thinks = self.script is None and self.workload.arrivals == "think"
        made: Counter[str] = Counter()
        script = self.script if self.script is not None else islice(self._stream(seed), self.workload.messages)
        numbers = self.group_numbers
        for number, broadcast in enumerate(script, start=1):
            to = broadcast.to if isinstance(broadcast.to, tuple) else numbers[broadcast.to]
            follows = made[broadcast.source] if thinks else 0
            made[broadcast.source] += 1
            yield Sending(broadcast.at_ms, broadcast.source, payload_of(number, broadcast.payload), to, follows)

    def _stream(self, seed: int) -> Iterator[Broadcast]:
        """The broadcasts of the workload in order of time, without end."""
        random = Random(f"{seed}/workload")  # noqa: S311 - an experiment that can be repeated needs no secrets
        workload, groups = self.workload, [group.name for group in self.groups] or [EVERYBODY]
        draw = Random(f"{seed}/destinations")  # noqa: S311 - as above
        chosen = cycle(groups) if workload.arrivals in {"steady", "think"} else (draw.choice(groups) for _ in count())
        arrivals = {
            "steady": self._steady,
            "poisson": self._poisson,
            "poisson-per-host": self._poisson_per_host,
            "think": self._think,
        }
        for at_ms, source in arrivals[workload.arrivals](workload.at_once * workload.interval, random):
            for to in islice(chosen, workload.at_once):
                yield Broadcast(at_ms=at_ms, source=source, payload=workload.payload, to=to)

    def _steady(self, gap_ms: float, _: Random) -> Iterator[tuple[float, str]]:
        start_ms = self.workload.warm_up
        return ((start_ms + number * gap_ms, source) for number, source in enumerate(cycle(self.sources)))

    def _think(self, gap_ms: float, _: Random) -> Iterator[tuple[float, str]]:
        """The first broadcast of each source at the start, and each further one after its own last delivery."""
        start_ms, sources = self.workload.warm_up, enumerate(cycle(self.sources))
        return ((start_ms if number < len(self.sources) else gap_ms, source) for number, source in sources)

    def _poisson(self, gap_ms: float, random: Random) -> Iterator[tuple[float, str]]:
        return ((at_ms, random.choice(self.sources)) for at_ms in self._random_times(gap_ms, random))

    def _poisson_per_host(self, gap_ms: float, random: Random) -> Iterator[tuple[float, str]]:
        draws = {source: Random(f"{random.random()}/{source}") for source in dict.fromkeys(self.sources)}  # noqa: S311 - as above
        return merge(*(zip(self._random_times(gap_ms, draw), repeat(source)) for source, draw in draws.items()))

    def _random_times(self, gap_ms: float, random: Random) -> Iterator[float]:
        """Times with exponential gaps of this mean."""
        times = accumulate(random.expovariate(1 / gap_ms) for _ in count())
        return (self.workload.warm_up + at_ms for at_ms in times)


@dataclass(frozen=True)
class Variant:
    """One of several runs that differ in more than the protocol. The label is the name of its results directory."""

    label: str
    scenario: Scenario
    protocol: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the protocol; the other parameters have the values of the user, or their defaults."""
    medium: Medium | None = None
    """How messages to groups travel, if the runs of the scenario differ in that; otherwise it is the user's choice."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.label) or self.label == "plots":
            raise ScenarioError(
                f"{self.label!r} cannot be the label of a run: it names a directory, in letters, digits, . _ and -"
            )


def pulled(link: str, at_ms: float = 0.0, back_ms: float | None = None) -> tuple[Fault, ...]:
    """The faults of a link between switches, written `s1-s2`, that goes down and perhaps comes up again; none if `link` is empty."""
    if not link:
        return ()
    down = LinkDown(at_ms=at_ms, link=link)
    return (down,) if back_ms is None else (down, LinkUp(at_ms=back_ms, link=link))


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """`scenario.json`: a scenario without its network and its protocols, which are in other files of the run."""

    sources: tuple[str, ...]
    workload: Workload
    faults: tuple[AnyFault, ...]
    script: tuple[Broadcast, ...] | None
    groups: tuple[Group, ...] = ()


def dump(scenario: Scenario, path: Path) -> None:
    """Write the scenario of a run, so that the run can be repeated."""
    asked = {name: getattr(scenario, name) for name in _Document.__struct_fields__}
    write(path, _Document(**asked))


def load(path: Path, network: Network) -> Scenario:
    """Read the scenario of a run on this network."""
    try:
        asked = decode_file(path.read_bytes(), _Document, path)
        return Scenario(network=network, **msgspec.structs.asdict(asked))
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path} is not what a run writes: {error}") from None
