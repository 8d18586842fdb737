"""What a protocol promises, as data: the checkers hold a run to exactly this."""

import enum
from typing import Annotated

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Items = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Guarantee(enum.StrEnum):
    """The properties that a protocol can promise, beside orders and time bounds. `analysis/judging/properties/` has one checker for each.

    Those up to `ROLLBACK_DISCIPLINE` are about what the application sees, the next two about the load of network and hosts, the next two
    about the path of messages and about failure detection, then four about the views of groups. `SAFE` is about what all members of a
    group have received, `GENUINE` and `ONE_TOKEN` are about the datagrams between hosts.
    """

    NO_CREATION = "no creation"
    NO_DUPLICATION = "no duplication"
    VALIDITY = "validity"
    AGREEMENT = "agreement"
    UNIFORM_AGREEMENT = "uniform agreement"
    CONVERGENCE = "convergence"
    PROGRESS = "progress"
    ACYCLIC_ORDER = "one global order"
    NO_GAPS = "no gaps"
    SAME_POSITION = "same position"
    ROLLBACK_DISCIPLINE = "rollback discipline"
    QUIESCENCE = "quiescence"
    BOUNDED_MEMORY = "bounded memory"
    CLUSTER_TREE = "cluster tree"
    FAILURE_DETECTION = "failure detection"
    SENDING_VIEW = "sending view"
    VIEW_AGREEMENT = "view agreement"
    VIEW_CONVERGENCE = "view convergence"
    VIEW_PROGRESS = "progress in the last view"
    SAFE = "safe"
    GENUINE = "genuine"
    ONE_TOKEN = "one token"  # noqa: S105 - the token of a protocol, no secret


class Scope(enum.StrEnum):
    """Which messages an order is about, the weakest first."""

    SINGLE_SOURCE = "single-source"
    """Messages of one host to one group."""
    CAUSAL = "causal"
    """A message and all that may have caused it, across groups."""
    MULTIPLE_SOURCE = "multiple-source"
    """All messages to one group."""
    MULTIPLE_GROUP = "multiple-group"
    """All messages to all groups."""


class Strength(enum.StrEnum):
    """At which hosts an order holds. The third and the fourth paper number the strengths differently, so they have names here."""

    OPERATIONAL = "operational"
    """At hosts that are up: what a host delivered before it failed may differ."""
    ROLLBACK = "rollback"
    """At hosts that are up, and a host that recovers takes back what it delivered in the wrong place, and delivers it again."""
    STRICT = "strict"
    """At all hosts, also those that fail; nothing is delivered twice."""


class Step(enum.StrEnum):
    """Which mark of a message at a host an order is about; the values are events of the log."""

    DELIVERY = "deliver"
    COMMIT = "commit"


class Order(msgspec.Struct, frozen=True):
    """A promise that hosts deliver or commit messages in one order."""

    scope: Scope
    strength: Strength
    of: Step = Step.DELIVERY

    def __str__(self) -> str:
        """The name of the promise, such as `multiple-group order (strict, of commit)`."""
        return f"{self.scope} order ({self.strength}{', of commit' if self.of is Step.COMMIT else ''})"


class Timing(enum.StrEnum):
    """The time-bounded properties of the third paper, section 6.2; `analysis/judging/properties/` says what each one is."""

    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"
    Q1 = "Q1"
    Q2 = "Q2"
    Q3 = "Q3"


class TimeBound(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that messages are delivered in time, on a network and with hosts that are as fast as the protocol assumes."""

    timing: Timing
    bound_ms: Amount
    """Delta for P1 to P4, rho for Q1 to Q3."""
    process_ms: Amount
    """phi_P: the longest time that a host takes to handle an event."""
    network_ms: Amount
    """phi_N: the longest time that a datagram is under way between two hosts that can reach each other."""
    silence_ms: Amount = 0.0
    """delta: the longest time between two messages, null messages included, where the bound includes it."""
    others: Items = 0
    """For P3: how many other members must be up and reachable."""

    def packed(self, wait_ms: float) -> "TimeBound":
        """The same bound if every datagram waits up to `wait_ms` before it leaves. How many there are in a row, the bound itself says."""
        datagrams = round((self.bound_ms - self.silence_ms) / (self.process_ms + self.network_ms))
        longer_ms = self.bound_ms + max(datagrams, 0) * wait_ms
        return msgspec.structs.replace(self, bound_ms=longer_ms, network_ms=self.network_ms + wait_ms)

    def __str__(self) -> str:
        """The name of the promise."""
        return f"{self.timing} within {self.bound_ms:g} ms"


class Carrier(enum.StrEnum):
    """Who passes a message on, and so which ways a message can take."""

    ORIGIN = "origin"
    """Only the host that broadcast the message: that host must itself reach a receiver for long enough."""
    ANYONE = "anyone"
    """Every host that has the message: a way may lead over several hosts, one after another."""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What a protocol with given parameters promises among a number of hosts."""

    guarantees: tuple[Guarantee, ...]
    orders: tuple[Order, ...] = ()
    time_bounds: tuple[TimeBound, ...] = ()
    safe_at: Step = Step.DELIVERY
    """For `SAFE`: the mark before which all members must have received a message."""
    token_kind: Annotated[int, msgspec.Meta(ge=0, lt=255)] | None = None
    """For `ONE_TOKEN`: the number of the message kind that hands the token on, its place in `Core.messages`."""
    carrier: Carrier = Carrier.ORIGIN
    patience_ms: Amount
    """A way that stays open this long must be used: a message that it could have carried and that is missing is a violation."""
    quorum: Items = 0
    """For `CONVERGENCE`, `PROGRESS` and `VIEW_PROGRESS`: a part of the network with fewer hosts than this owes nothing: a majority, say."""
    starts_over: bool = False
    """For `CONVERGENCE` and `PROGRESS`: a host that traces `recovered` starts over there. What was broadcast before is not due to it, and
    what it delivered before need not be delivered elsewhere."""
    background_per_second: Amount = 0.0
    """Datagrams that a host sends per second when there is nothing left to do."""
    background_per_source: Amount = 0.0
    """The datagrams to add for each host that has broadcast."""
    retained: Items
    """Items that a host may still keep when there is nothing left to do."""
    retained_per_source: Items = 0
    """The items to add for each host that has broadcast."""
    retained_per_group: Items = 0
    """The items to add for each group, other than everybody, that a host has broadcast to, and for each message to listed hosts."""

    @property
    def needs_transits(self) -> bool:
        """Whether judging this promise takes the datagrams between hosts, beside what hosts log."""
        return bool(self.time_bounds) or not {Guarantee.GENUINE, Guarantee.ONE_TOKEN}.isdisjoint(self.guarantees)

    def packed(self, pack_ms: float | None) -> "Promise":
        """The same promise with packing: both a message and the answer to it may wait `pack_ms` to share a datagram."""
        wait_ms = pack_ms or 0.0
        time_bounds = tuple(bound.packed(wait_ms) for bound in self.time_bounds)
        return msgspec.structs.replace(self, patience_ms=self.patience_ms + 2 * wait_ms, time_bounds=time_bounds)
