"""What the applications saw, and the load and state of the hosts: the input of every checker.

A history is made from event logs and fault records, wherever they come from: Spark's tables, or a simulation in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

MARKS: Final = ("receive", "deliver", "commit", "take-back")
"""The events that say what became of a message at a host."""
MessageId = tuple[str, int]
"""The origin of a message and its sequence number there."""


class BroadcastEvent(NamedTuple):
    """Host `origin` broadcast its message `sequence` to `group`. `position` is the line of its log.

    `to` are the hosts that the message is for, as the origin logged them; None for all hosts of the run. A group may have no members.
    """

    at_ns: int
    origin: str
    sequence: int
    group: int = 0
    position: int = 0
    to: tuple[str, ...] | None = None
    late_ms: int = 0
    """How much later than the application wanted."""

    def destinations(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """The hosts that the message is for, of all hosts of the run."""
        return hosts if self.to is None else self.to

    @property
    def message(self) -> MessageId:
        """What names a message."""
        return self.origin, self.sequence

    @property
    def place(self) -> tuple[int, int]:
        """What orders the events of one host: the lines of its log, and in a history without lines the times."""
        return self.position, self.at_ns


class Delivery(NamedTuple):
    """Host `host` delivered message `sequence` of `origin`; or it received, committed or took back the message.

    `position` is the line of its log. `ordinal` is the number of the message in the order of its group, 0 without such numbers.
    """

    at_ns: int
    host: str
    origin: str
    sequence: int
    group: int = 0
    position: int = 0
    ordinal: int = 0

    @property
    def message(self) -> MessageId:
        """What names a message."""
        return self.origin, self.sequence

    @property
    def place(self) -> tuple[int, int]:
        """What orders the events of one host: the lines of its log, and in a history without lines the times."""
        return self.position, self.at_ns


class Sample(NamedTuple):
    """What a host reported at an instant: datagrams sent since it started, items that its protocol keeps, and its processor time."""

    at_ns: int
    host: str
    sent: int
    items: int
    processor_ms: int | None = None


class View(NamedTuple):
    """Host `host` installed the members of a group. Hosts that install the same view give it the same number."""

    at_ns: int
    host: str
    group: int
    view: int
    members: tuple[str, ...]
    position: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """What orders the events of one host: the lines of its log, and in a history without lines the times."""
        return self.position, self.at_ns


class MembershipRequest(NamedTuple):
    """Host `host` asked to join a group, or to leave it."""

    at_ns: int
    host: str
    group: int
    joins: bool


class TokenChange(NamedTuple):
    """From `at_ns` on, host `host` holds the token of a generation, or holds it no longer."""

    at_ns: int
    host: str
    generation: int
    held: bool


class Recovery(NamedTuple):
    """Host `host` is back: its agent started at `at_ns`, or, with `complete`, its protocol has finished its recovery."""

    at_ns: int
    host: str
    complete: bool


class Transit(NamedTuple):
    """A datagram between two hosts: when it left the link of its sender and arrived on the link of `to`; None if it never arrived.

    A datagram to a group is one transit for each host that it was for. Of the messages of a pack a capture shows one, which the header
    names; the simulator has one transit for each.
    """

    left_ns: int
    arrived_ns: int | None
    sender: str
    to: str
    origin: str
    sequence: int
    """The message that the datagram is about; 0 for none."""
    kind: int
    carries: bool
    """Whether the message itself is in the datagram: its purpose is data or repair."""
    shared: bool = False
    """Whether the datagram was to a group."""


class ParentChange(NamedTuple):
    """Host `host` has `parent` in the tree of `source` from `at_ns` on; empty for no parent. `position` is the line of its log."""

    at_ns: int
    host: str
    source: str
    parent: str
    position: int = 0
    leads: bool | None = None
    """Whether the host leads its cluster; None in a tree of hosts that knows no clusters."""


class GraphChange(NamedTuple):
    """From `at_ns` on, host `host` is in propagation graph `number`, which lets no messages through there while it is closed."""

    at_ns: int
    host: str
    number: int
    closed: bool
    primary_of: tuple[int, ...]
    """The groups whose messages the host gets from their sources."""


class Suspicion(NamedTuple):
    """From `at_ns` on, host `host` suspects that `suspect` has failed, or trusts it again."""

    at_ns: int
    host: str
    suspect: str
    suspected: bool


class SuspicionSpan(NamedTuple):
    """From when until when a host suspected another."""

    host: str
    suspect: str
    start_ns: int
    end_ns: int


class Exclusion(NamedTuple):
    """From `at_ns` on a majority of all hosts treats a host as failed; the host knows from `known_ns` on.

    That is the end of the run if it never does. Third paper, section 7.3: a logical failure. The host may be dead, slow or cut off.
    """

    at_ns: int
    host: str
    known_ns: int


class History(NamedTuple):
    """Everything that happened. Events of one host come in the order of its log, whatever its clock said; those of several by their times.

    `set_back` names the hosts whose clock was set back during the run: their times cannot be compared with those of other hosts.
    `damage` says what is known to be missing. A checker must not conclude anything from an absence in a damaged history.
    `transits` are the datagrams between hosts, in the order in which they left; None if they were not recorded, as no promise of the run is
    about them (`Promise.needs_transits`).
    """

    hosts: tuple[str, ...]
    broadcasts: tuple[BroadcastEvent, ...]
    deliveries: tuple[Delivery, ...]
    ended_ns: int
    samples: tuple[Sample, ...] = ()
    damage: tuple[str, ...] = ()
    parents: tuple[ParentChange, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    set_back: frozenset[str] = frozenset()
    receipts: tuple[Delivery, ...] = ()
    commits: tuple[Delivery, ...] = ()
    taken_back: tuple[Delivery, ...] = ()
    views: tuple[View, ...] = ()
    requests: tuple[MembershipRequest, ...] = ()
    tokens: tuple[TokenChange, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    transits: tuple[Transit, ...] | None = None
    graphs: tuple[GraphChange, ...] = ()
    held_back: int = 0
    """Messages that the application wanted to broadcast, and could not before the run ended."""

    @property
    def messages(self) -> int:
        """How many messages were broadcast."""
        return len({broadcast.message for broadcast in self.broadcasts})

    @property
    def sources(self) -> frozenset[str]:
        """The hosts that broadcast."""
        return frozenset(broadcast.origin for broadcast in self.broadcasts)

    @property
    def destinations(self) -> dict[MessageId, tuple[str, ...]]:
        """The hosts that each message is for, as its origin logged them at its first broadcast."""
        return {broadcast.message: broadcast.destinations(self.hosts) for broadcast in reversed(self.broadcasts)}

    @property
    def limited(self) -> dict[MessageId, frozenset[str]]:
        """The destinations of the messages that are not for all hosts; of a number that was used twice, those of both messages."""
        found: dict[MessageId, frozenset[str]] = {}
        for broadcast in self.broadcasts:
            found[broadcast.message] = found.get(broadcast.message, frozenset()).union(broadcast.destinations(self.hosts))
        return {message: to for message, to in found.items() if len(to) < len(self.hosts)}

    @property
    def broadcast_at(self) -> dict[MessageId, int]:
        """When each message was first broadcast."""
        return {broadcast.message: broadcast.at_ns for broadcast in reversed(self.broadcasts)}


def suspicion_spans(history: History) -> Iterator[SuspicionSpan]:
    """Every suspicion with its end: when it was taken back, or when the run ended."""
    since: dict[tuple[str, str], Suspicion] = {}
    for change in history.suspicions:
        pair = change.host, change.suspect
        if change.suspected:
            since.setdefault(pair, change)
        elif pair in since:
            yield SuspicionSpan(*pair, since.pop(pair).at_ns, change.at_ns)
    for pair, change in since.items():
        yield SuspicionSpan(*pair, change.at_ns, history.ended_ns)


LoggedEvent = tuple[str, int, int, str, str, int, dict[str, Any]]
"""Host, position in its log, time, event, origin, sequence and details."""


def make(
    hosts: tuple[str, ...],
    events: Iterable[LoggedEvent],
    ended_ns: int,
    damage: Iterable[str],
    transits: tuple[Transit, ...] | None = None,
) -> History:
    """A history from events, those of each host in the order of its log."""
    broadcasts, others, held_back = [], _OtherEvents(), 0
    marks: dict[str, list[Delivery]] = {mark: [] for mark in MARKS}
    # A group has the same members many times.
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    ordered, set_back = in_order(events)
    for host, position, at_ns, event, origin, sequence, details in ordered:
        if event == "broadcast":
            to = tuple(details["to"]) if "to" in details else None
            broadcasts.append(
                BroadcastEvent(
                    *(at_ns, origin, sequence, details.get("group", 0), position),
                    *(known.setdefault(to, to) if to is not None else None, details.get("late_ms", 0)),
                )
            )
        elif event == "held-back":
            held_back += details["messages"]
        elif event in marks:
            ordinal = details.get("ordinal", 0)
            marks[event].append(Delivery(at_ns, host, origin, sequence, details.get("group", 0), position, ordinal))
        else:
            others.take(host, position, at_ns, event, details)
    logged = tuple(broadcasts), tuple(marks["deliver"]), ended_ns, tuple(others.samples)
    wrong_times = (
        f"the clock of {host} was set back during the run, so its times cannot be trusted" for host in hosts if host in set_back
    )
    missing = (*damage, *_numbered_twice(broadcasts), *wrong_times)
    return History(
        *(hosts, *logged, missing, tuple(others.parents.changes), tuple(others.suspicions.changes), set_back),
        held_back=held_back,
        receipts=tuple(marks["receive"]),
        commits=tuple(marks["commit"]),
        taken_back=tuple(marks["take-back"]),
        views=tuple(others.views),
        requests=tuple(others.requests),
        tokens=tuple(others.tokens),
        recoveries=tuple(others.recoveries),
        exclusions=others.exclusions(len(hosts), ended_ns),
        transits=transits,
        graphs=tuple(others.graphs),
    )


class _OtherEvents:
    """The events that are about no single message."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.views: list[View] = []
        self.requests: list[MembershipRequest] = []
        self.tokens: list[TokenChange] = []
        self.recoveries: list[Recovery] = []
        self.graphs: list[GraphChange] = []
        self._accepted: dict[int, set[str]] = {}
        self._excluded: list[tuple[int, str, int]] = []
        self._failed: list[tuple[int, str]] = []
        self.parents = _Parents()
        self.suspicions = _Suspicions()
        # Many hosts install the same members.
        self._members: dict[tuple[str, ...], tuple[str, ...]] = {}

    def take(self, host: str, position: int, at_ns: int, event: str, details: dict[str, Any]) -> None:
        """Note an event; one that no history is made of is ignored."""
        match event:
            case "sample":
                self.samples.append(Sample(at_ns, host, details["sent"], details["items"], details.get("processor_ms")))
            case "parent":
                self.parents.change(
                    ParentChange(at_ns, host, details["source"], details["parent"], position, details.get("leader"))
                )
            case "suspect" | "trust":
                self.suspicions.change(at_ns, host, details["host"], suspected=event == "suspect")
            case "view":
                members = tuple(details["members"])
                members = self._members.setdefault(members, members)
                self.views.append(View(at_ns, host, details["group"], details["view"], members, position))
            case "join" | "leave":
                self.requests.append(MembershipRequest(at_ns, host, details["group"], event == "join"))
            case "token" if "generation" in details:
                self.tokens.append(TokenChange(at_ns, host, details["generation"], details.get("held", False)))
            case "graph":
                primary_of = tuple(details["primary_of"])
                self.graphs.append(GraphChange(at_ns, host, details["number"], details["closed"], primary_of))
            case "accepted" | "excluded" | "failed" | "recovered":
                self._fail_or_recover(host, at_ns, event, details)
            case "start":
                self.recoveries.append(Recovery(at_ns, host, complete=False))
                self.parents.forget(at_ns, host, position)
                self.suspicions.forget(at_ns, host)

    def _fail_or_recover(self, host: str, at_ns: int, event: str, details: dict[str, Any]) -> None:
        if event == "recovered":
            self.recoveries.append(Recovery(at_ns, host, complete=True))
        elif event == "failed":
            self._failed.append((at_ns, host))
        elif event == "accepted":
            self._accepted.setdefault(details["graph"], set()).add(host)
        else:
            self._excluded.append((at_ns, details["host"], details["graph"]))

    def exclusions(self, hosts: int, ended_ns: int) -> tuple[Exclusion, ...]:
        """The hosts that a majority of all hosts treated as failed, each until it knew that."""
        found = []
        for at_ns, host, graph in self._excluded:
            if 2 * len(self._accepted.get(graph, ())) > hosts:
                known_ns = min((ns for ns, who in self._failed if who == host and ns >= at_ns), default=ended_ns)
                found.append(Exclusion(at_ns, host, known_ns))
        return tuple(found)


def in_order(events: Iterable[LoggedEvent]) -> tuple[list[LoggedEvent], frozenset[str]]:
    """The events of several logs in one order that keeps the order of each log; and the hosts whose clock was set back.

    Events are sorted by time. A clock that was set back counts as stopped until it has caught up.
    """
    latest_ns: dict[str, int] = {}
    timed, set_back = [], set()
    for event in events:
        host, _, at_ns, *_ = event
        if at_ns < latest_ns.get(host, at_ns):
            set_back.add(host)
        latest_ns[host] = max(at_ns, latest_ns.get(host, at_ns))
        timed.append((latest_ns[host], event))
    timed.sort(key=lambda item: item[0])
    return [event for _, event in timed], frozenset(set_back)


def _numbered_twice(broadcasts: Iterable[BroadcastEvent]) -> Iterator[str]:
    """A source that has lost its storage numbers its messages from 1 again, so deliveries of two messages cannot be told apart."""
    seen: set[MessageId] = set()
    for broadcast in broadcasts:
        if broadcast.message in seen:
            yield f"{broadcast.origin} has broadcast two messages with number {broadcast.sequence}, which cannot be told apart"
            return
        seen.add(broadcast.message)


class _Parents:
    """The parents that hosts report; a host that restarts has none until it reports one."""

    def __init__(self) -> None:
        self.changes: list[ParentChange] = []
        self._now: dict[str, dict[str, str]] = {}

    def change(self, change: ParentChange) -> None:
        """Note a host's new parent."""
        self._now.setdefault(change.host, {})[change.source] = change.parent
        self.changes.append(change)

    def forget(self, at_ns: int, host: str, position: int) -> None:
        """Let a host have no parents."""
        for source, parent in self._now.get(host, {}).items():
            if parent:
                self.change(ParentChange(at_ns, host, source, "", position))


class _Suspicions:
    """Whom hosts report to suspect; a host that restarts trusts everybody."""

    def __init__(self) -> None:
        self.changes: list[Suspicion] = []
        self._now: dict[str, dict[str, None]] = {}

    def change(self, at_ns: int, host: str, suspect: str, *, suspected: bool) -> None:
        """Note whether a host suspects another."""
        if suspected:
            self._now.setdefault(host, {})[suspect] = None
        else:
            self._now.get(host, {}).pop(suspect, None)
        self.changes.append(Suspicion(at_ns, host, suspect, suspected))

    def forget(self, at_ns: int, host: str) -> None:
        """Let a host trust everybody."""
        for suspect in list(self._now.get(host, {})):
            self.change(at_ns, host, suspect, suspected=False)
