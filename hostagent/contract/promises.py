"""What a protocol promises, as data: the checkers hold a run to exactly this."""

import enum
from typing import Annotated

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Items = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Guarantee(enum.StrEnum):
    """The properties that a protocol can promise. `analysis/judging/properties/` has one checker for each.

    Those up to `CONVERGENCE` are about what the application sees, the next two about the load of network and hosts, the last two about the
    path of messages and about failure detection.
    """

    NO_CREATION = "no creation"
    NO_DUPLICATION = "no duplication"
    VALIDITY = "validity"
    AGREEMENT = "agreement"
    UNIFORM_AGREEMENT = "uniform agreement"
    SINGLE_SOURCE_ORDER = "single-source order"
    MULTIPLE_SOURCE_ORDER = "multiple-source order"
    MULTIPLE_GROUP_ORDER = "multiple-group order"
    CAUSAL_ORDER = "causal order"
    CONVERGENCE = "convergence"
    QUIESCENCE = "quiescence"
    BOUNDED_MEMORY = "bounded memory"
    CLUSTER_TREE = "cluster tree"
    FAILURE_DETECTION = "failure detection"


class Carrier(enum.StrEnum):
    """Who passes a message on, and so which ways a message can take."""

    ORIGIN = "origin"
    """Only the host that broadcast the message: that host must itself reach a receiver for long enough."""
    ANYONE = "anyone"
    """Every host that has the message: a way may lead over several hosts, one after another."""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What a protocol with given parameters promises among a number of hosts."""

    guarantees: tuple[Guarantee, ...]
    carrier: Carrier = Carrier.ORIGIN
    patience_ms: Amount
    """A way that stays open this long must be used: a message that it could have carried and that is missing is a violation."""
    background_per_second: Amount = 0.0
    """Datagrams that a host sends per second when there is nothing left to do."""
    background_per_source: Amount = 0.0
    """The datagrams to add for each host that has broadcast."""
    retained: Items
    """Items that a host may still keep when there is nothing left to do."""
    retained_per_source: Items = 0
    """The items to add for each host that has broadcast."""

    def packed(self, pack_ms: float | None) -> "Promise":
        """The same promise with packing: both a message and the answer to it may wait `pack_ms` to share a datagram."""
        return msgspec.structs.replace(self, patience_ms=self.patience_ms + 2 * (pack_ms or 0.0))
