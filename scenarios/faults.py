"""The faults that both engines can inject, and the changes of membership, in scenarios and in schedule files.

A fault happens at a time after the first broadcast (`at_ms`), or after an event (`when`). As JSON, in a schedule file:

    [{"fault": "link-down", "at_ms": 400, "link": "s1-s2"},
     {"fault": "crash", "when": {"event": "deliver", "host": "h4", "sequence": 3}, "host": "h4"},
     {"fault": "join", "at_ms": 500, "host": "h3", "group": "alpha"},
     {"fault": "arrive", "at_ms": 600, "host": "h5"}]

A fault whose `host` is empty happens to the host at which its trigger fires. "Crash the token holder when it commits message 5" and "cut
off the primary destination of group 1", for protocols that trace `token` and `primary`:

    Crash(host="", when=Trigger("commit", sequence=5, last="token"))
    CutOff(host="", when=Trigger("primary", details={"group": 1}))

Joins, leaves, arrivals and departures are not faults of the network, but they are items of the same timetable: they are checked
(`scenarios.membership`), injected, recorded and replayed in the same way.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from topologies import Link, Network, NetworkError, units

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=units.LONGEST_MS)]
Nth = Annotated[int, msgspec.Meta(ge=1, le=units.MOST_MESSAGES)]


class FaultError(ValueError):
    """A fault that makes no sense on this network; the message says why and what to change."""


class Trigger(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The moment `after_ms` after the `nth` event that fits. A field that is left empty fits every event.

    `event` is an event of the event logs: `broadcast`, a mark (`receive`, `deliver`, `commit`, `take-back`), `view`, or an event that the
    protocol traces, such as `leader`. The event `send` is the moment after a host has sent a datagram about a message, before it sends the
    next datagram.
    """

    event: str
    host: str = ""
    origin: str = ""
    sequence: int = 0
    nth: Nth = 1
    after_ms: Milliseconds = 0.0
    details: dict[str, str | int | float | bool] = {}
    """Values that the event's details must have."""
    last: str = ""
    """The name of another event: only events at the host that was the last one to log it fit."""

    def fits(
        self, host: str, event: str, origin: str, sequence: int, details: Mapping[str, Any] = MappingProxyType({}), last: str = ""
    ) -> bool:
        """Whether the trigger counts an event. `last` is the host that was the last one to log the event `self.last`."""
        return (
            event == self.event
            and self.host in {"", host}
            and self.origin in {"", origin}
            and self.sequence in {0, sequence}
            and all(details.get(name) == value for name, value in self.details.items())
            and (not self.last or last == host)
        )


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="fault"):
    """Something that goes wrong, or that is repaired."""

    at_ms: Milliseconds | None = None
    when: Trigger | None = None

    @property
    def target(self) -> str:
        """The name of the link, switch or host that the fault happens to; empty if it has none."""
        values = (str(getattr(self, name)) for name in ("link", "switch", "host") if hasattr(self, name))
        return next(values, "")

    @property
    def details(self) -> dict[str, Any]:
        """The fields of the fault other than its target and its time."""
        told = {"at_ms", "when", "link", "switch", "host"}
        return {name: value for name in self.__struct_fields__ if name not in told and (value := getattr(self, name)) is not None}


class LinkDown(Fault, frozen=True, kw_only=True, tag="link-down"):
    """A link between switches goes down; packets on it are lost."""

    link: str


class LinkUp(Fault, frozen=True, kw_only=True, tag="link-up"):
    """A link comes up again."""

    link: str


class LinkChange(Fault, frozen=True, kw_only=True, tag="link-change"):
    """Properties of a link change, in both directions or only `towards` a node; properties that are not given stay as they are."""

    link: str
    towards: str = ""
    bandwidth_mbit: Annotated[float, msgspec.Meta(ge=units.SLOWEST_MBIT, le=units.FASTEST_MBIT)] | None = None
    delay_ms: Milliseconds | None = None
    jitter_ms: Milliseconds | None = None
    loss: Share | None = None
    burst: Annotated[float, msgspec.Meta(ge=1, le=units.LONGEST_BURST)] | None = None
    duplicate: Share | None = None
    reorder: Share | None = None

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that change, by their names in `Link`."""
        return {name: value for name in LINK_PROPERTIES if (value := getattr(self, name)) is not None}


LINK_PROPERTIES = ("bandwidth_mbit", "delay_ms", "jitter_ms", "loss", "burst", "duplicate", "reorder")


class Flap(Fault, frozen=True, kw_only=True, tag="flap"):
    """A link goes down and comes up again, several times."""

    link: str
    times: Annotated[int, msgspec.Meta(ge=1, le=units.MOST_TIMES)] = 3
    down_ms: Milliseconds = 200.0
    up_ms: Milliseconds = 200.0


class Partition(Fault, frozen=True, kw_only=True, tag="partition"):
    """Every link between switches of different sides goes down. Switches that no side names form one more side."""

    sides: tuple[tuple[str, ...], ...]


class Heal(Fault, frozen=True, kw_only=True, tag="heal"):
    """A link, or every link if none is named, comes up and has the properties that it was built with."""

    link: str = ""


class CutOff(Fault, frozen=True, kw_only=True, tag="cut-off"):
    """Every link between the switch of a host and other switches goes down."""

    host: str


class SwitchStop(Fault, frozen=True, kw_only=True, tag="switch-stop"):
    """The bridge of a switch is removed, so nothing passes the switch."""

    switch: str


class SwitchStart(Fault, frozen=True, kw_only=True, tag="switch-start"):
    """A stopped switch starts again, and gets its flows from the controller."""

    switch: str


class ControllerStop(Fault, frozen=True, kw_only=True, tag="controller-stop"):
    """The controller dies; switches keep their flows, and routes no longer change."""


class ControllerStart(Fault, frozen=True, kw_only=True, tag="controller-start"):
    """A new controller starts and learns the state of all ports."""


class Crash(Fault, frozen=True, kw_only=True, tag="crash"):
    """The agent of a host is killed at once."""

    host: str


class Restart(Fault, frozen=True, kw_only=True, tag="restart"):
    """The agent of a host that crashed starts again, with its storage or without."""

    host: str
    storage: Literal["kept", "lost"] = "kept"


class Pause(Fault, frozen=True, kw_only=True, tag="pause"):
    """The agent of a host is stopped; datagrams that arrive wait in its socket."""

    host: str


class Resume(Fault, frozen=True, kw_only=True, tag="resume"):
    """A paused agent continues."""

    host: str


class Clock(Fault, frozen=True, kw_only=True, tag="clock"):
    """From now on the clock of a host is ahead by `offset_ms` and runs fast by `drift_ppm`."""

    host: str
    offset_ms: Annotated[float, msgspec.Meta(ge=-units.LONGEST_MS, le=units.LONGEST_MS)] = 0.0
    drift_ppm: Annotated[float, msgspec.Meta(gt=-500_000, lt=1_000_000)] = 0.0


class DropMessage(Fault, frozen=True, kw_only=True, tag="drop-message"):
    """The `nth` message of a kind that reaches a host from now on is dropped before the protocol receives it."""

    host: str
    kind: str
    nth: Nth = 1


class DuplicateMessage(Fault, frozen=True, kw_only=True, tag="duplicate-message"):
    """The `nth` message of a kind that reaches a host from now on is received twice."""

    host: str
    kind: str
    nth: Nth = 1


class Join(Fault, frozen=True, kw_only=True, tag="join"):
    """The application of a host asks to be in a group."""

    host: str
    group: str


class Leave(Fault, frozen=True, kw_only=True, tag="leave"):
    """The application of a host asks to leave a group."""

    host: str
    group: str


class Arrive(Fault, frozen=True, kw_only=True, tag="arrive"):
    """A host comes late: its agent is not started before this."""

    host: str


class Depart(Fault, frozen=True, kw_only=True, tag="depart"):
    """A host leaves for good: its agent stops cleanly, and is never started again."""

    host: str


AnyFault = (
    LinkDown
    | LinkUp
    | LinkChange
    | Flap
    | Partition
    | CutOff
    | Heal
    | SwitchStop
    | SwitchStart
    | ControllerStop
    | ControllerStart
    | Crash
    | Restart
    | Pause
    | Resume
    | Clock
    | DropMessage
    | DuplicateMessage
    | Join
    | Leave
    | Arrive
    | Depart
)
FAULTS: dict[str, type[Fault]] = {str(kind.__struct_config__.tag): kind for kind in AnyFault.__args__}


def name_of(fault: Fault) -> str:
    """The name of the fault in files."""
    return str(fault.__struct_config__.tag)


def late_hosts(faults: Iterable[Fault]) -> frozenset[str]:
    """The hosts whose agents are not started at the start of a run."""
    return frozenset(fault.host for fault in faults if isinstance(fault, Arrive))


def is_own_crash(fault: Fault) -> bool:
    """Whether a host can do it to itself, at the very moment of its event, with what it knows itself."""
    when = fault.when
    return isinstance(fault, Crash) and when is not None and when.host == fault.host != "" and not (when.after_ms or when.last)


class Waiting:
    """A fault that waits for its trigger. It is told every event of the run, in order."""

    def __init__(self, fault: Fault, trigger: Trigger) -> None:
        self.fault = fault
        self.trigger = trigger
        self._left = trigger.nth
        self._last = ""

    def fires_at(self, host: str, event: str, origin: str, sequence: int, details: Mapping[str, Any]) -> bool:
        """Count an event if it fits, and say whether it is the n-th. A fault without a host then has that of the event."""
        fits = self.trigger.fits(host, event, origin, sequence, details, self._last)
        if event == self.trigger.last:
            self._last = host
        self._left -= fits
        fires = fits and self._left == 0
        if fires and getattr(self.fault, "host", host) == "":
            self.fault = msgspec.structs.replace(self.fault, host=host)
        return fires


def steps(fault: Fault, network: Network) -> Iterator[tuple[float, Fault]]:
    """Split a flap, a partition or a cut-off into single links that go down or come up, each with its milliseconds after the first."""
    match fault:
        case Flap(link=link, times=times, down_ms=down_ms, up_ms=up_ms):
            for number in range(times):
                yield number * (down_ms + up_ms), LinkDown(link=link)
                yield number * (down_ms + up_ms) + down_ms, LinkUp(link=link)
        case Partition(sides=sides):
            side_of = {switch: number for number, side in enumerate(sides) for switch in side}
            for trunk in trunks(network):
                if side_of.get(trunk.a) != side_of.get(trunk.b):
                    yield 0.0, LinkDown(link=trunk.name)
        case CutOff(host=host) if host:
            switch = network.access_switch(host)
            for trunk in trunks(network):
                if switch in {trunk.a, trunk.b}:
                    yield 0.0, LinkDown(link=trunk.name)
        case _:
            yield 0.0, fault


def trunks(network: Network) -> list[Link]:
    """The links between switches."""
    return [link for link in network.links if not network.is_host(link.a) and not network.is_host(link.b)]


def healed(fault: Heal, network: Network) -> list[Link]:
    """The links that a fault repairs, with the properties that they were built with."""
    return [link_named(network, fault.link)] if fault.link else trunks(network)


def link_named(network: Network, name: str) -> Link:
    """The link between switches that is written `s1-s2`; either end may come first."""
    a, separator, b = name.partition("-")
    if not separator:
        raise FaultError(f"{name!r} does not name a link: write the switches at its ends, such as s1-s2")
    try:
        link = network.link(a, b)
    except NetworkError as error:
        raise FaultError(f"a fault names a link that does not exist: {error}") from None
    if network.is_host(a) or network.is_host(b):
        raise FaultError(f"a fault names {name}, the access link of a host; only links between switches can fail")
    return link


def check(faults: Iterable[Fault], network: Network, *, timed: bool = True) -> None:
    """Refuse faults on links, switches or hosts that do not exist. If `timed`, refuse faults without a time or a trigger too."""
    for fault in faults:
        if timed and (fault.at_ms is None) == (fault.when is None):
            raise FaultError(f"{described(fault)}: give it either a time (at_ms) or a trigger (when)")
        _check_values(fault)
        _check_target(fault, network)


def refuse_unknown(faults: Iterable[Fault], known: Collection[type[Fault]], engine: str) -> None:
    """Refuse faults that an engine cannot inject: it would do nothing and record them as injected."""
    for fault in faults:
        if type(fault) not in known:
            names = ", ".join(name for name, kind in FAULTS.items() if kind in known)
            raise FaultError(f"{described(fault)}: {engine} does not know this fault; choose from {names}")


def check_kinds(faults: Iterable[Fault], protocol: str, kinds: Collection[str]) -> None:
    """Refuse faults on messages of a kind that the protocol does not have: they would wait for ever."""
    for fault in faults:
        if isinstance(fault, DropMessage | DuplicateMessage) and fault.kind not in kinds:
            raise FaultError(
                f"{described(fault)}: {protocol} has no messages of kind {fault.kind!r}; choose from {', '.join(kinds)}"
            )


def described(fault: Fault) -> str:
    """The fault and its target, for the beginning of a sentence."""
    return f"fault {name_of(fault)} {fault.target}".rstrip()


def _check_values(fault: Fault) -> None:
    """Check the values of a fault from a script, as the values in a schedule file are checked."""
    try:
        msgspec.convert(msgspec.to_builtins(fault), type(fault))
    except msgspec.ValidationError as error:
        name, problem = place_and_problem(error)
        raise FaultError(f"{described(fault)}: {f'{name}: ' if name else ''}{problem}") from None
    if isinstance(fault, Flap) and fault.times * (fault.down_ms + fault.up_ms) > units.LONGEST_MS:
        raise FaultError(f"{described(fault)}: it would last more than {units.LONGEST_MS / 1000:,.0f} s")


def place_and_problem(error: msgspec.ValidationError) -> tuple[str, str]:
    """Which value is wrong and why, from a message of msgspec such as "Expected `int` >= 1 - at `$.times`"."""
    problem, _, place = str(error).partition(" - at `$.")
    if expected := _EXPECTED.fullmatch(problem):
        kind, bound, number = expected.groups()
        limit = f" of at {_BOUNDS[bound]} {float(number):,.10g}" if bound else ""
        problem = f"must be {_KINDS[kind]}{limit}"
    return place.rstrip("`"), f"{problem[:1].lower()}{problem[1:]}".replace("`", "")


_EXPECTED = re.compile(r"Expected `(float|int|bool)`(?:, got .*| (>=|<=) (\S+))")
_KINDS = {"float": "a number", "int": "a whole number", "bool": "true or false"}
_BOUNDS = {">=": "least", "<=": "most"}


def _check_target(fault: Fault, network: Network) -> None:
    match fault:
        case LinkDown() | LinkUp() | Flap() | Heal():
            if fault.link or not isinstance(fault, Heal):
                link_named(network, fault.link)
        case LinkChange():
            link = link_named(network, fault.link)
            if fault.towards not in {"", link.a, link.b}:
                raise FaultError(f"fault link-change {fault.link}: {fault.towards!r} is not an end of the link")
        case Partition():
            named = [switch for side in fault.sides for switch in side]
            _must_be(network.switches, named, "switch", network)
            for switch in {switch: None for switch in named if named.count(switch) > 1}:
                raise FaultError(f"fault partition: switch {switch} is named twice; it can be on one side only")
        case SwitchStop() | SwitchStart():
            _must_be(network.switches, [fault.switch], "switch", network)
        case _ if hasattr(fault, "host"):
            _check_host(fault, network)
    if fault.when is not None:
        _must_be(network.hosts, [name for name in (fault.when.host, fault.when.origin) if name], "host", network)


def _check_host(fault: Fault, network: Network) -> None:
    """Refuse a host that does not exist. No host is allowed where the host of the trigger can stand in."""
    if fault.target:
        _must_be(network.hosts, [fault.target], "host", network)
    elif fault.when is None or isinstance(fault, Arrive):
        raise FaultError(f"fault {name_of(fault)}: name its host (host), since no event of a trigger says which one it is")


def _must_be(known: Sequence[str], names: Iterable[str], what: str, network: Network) -> None:
    for name in names:
        if name not in known:
            raise FaultError(f"a fault names {what} {name!r}, which network {network.name!r} does not have")


def load(path: Path) -> tuple[AnyFault, ...]:
    """The faults in a schedule file."""
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise FaultError(f"schedule {path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise FaultError(f"schedule {path}: {error}; the faults are {', '.join(FAULTS)}") from None


decode: Callable[[bytes], tuple[AnyFault, ...]] = msgspec.json.Decoder(tuple[AnyFault, ...]).decode


def encode(faults: Iterable[Fault]) -> bytes:
    """The faults as a schedule file."""
    return msgspec.json.format(msgspec.json.encode(list[Any](faults)))
