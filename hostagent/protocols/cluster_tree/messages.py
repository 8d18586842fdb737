"""The messages of the cluster tree. `origin` names the tree by its source."""

from hostagent.contract.messages import (
    MOST_RANGES,
    ClockSeconds,
    HostName,
    HostNameOrNone,
    HostSet,
    Message,
    Ranges,
    SequenceNumber,
)
from hostagent.parts.sequences import SequenceSet


class Info(Message, frozen=True):
    """The messages of `origin` that the sender has: all up to `prefix`, and from `first` to `last` for each pair in `beyond`."""

    prefix: SequenceNumber
    beyond: Ranges
    stamp_s: ClockSeconds
    """The sender's clock, if hosts find clusters by transit times; else 0."""

    @property
    def numbers(self) -> SequenceSet:
        """The numbers as a set."""
        return SequenceSet(self.prefix, self.beyond)


class Pointer(Message, frozen=True):
    """The sender's parent in the tree of `origin`; empty if it has none."""

    parent: HostNameOrNone


class Declare(Info, frozen=True):
    """The sender wants to be a child of the receiver, and adds its INFO, so that the parent can fill its gaps."""


class Adopt(Message, frozen=True):
    """The receiver is a child of the sender."""


class Detach(Message, frozen=True):
    """The sender is no child of the receiver, or not any longer."""


class Report(Info, frozen=True):
    """Frugal: INFO and parent pointer in one, and what the sender knows of others.

    Every host in `covered` is below the sender in the tree, or is the sender, and has all messages up to `stable`. Every host of the
    network has all messages up to `everywhere`.
    """

    parent: HostNameOrNone
    covered: HostSet
    stable: SequenceNumber
    everywhere: SequenceNumber


class Hearsay(Info, frozen=True):
    """Frugal: the INFO of `host`, which is ahead, told to the leader of a cluster by a member that happened to hear it."""

    host: HostName


class Hello(Message, frozen=True):
    """Frugal: the members of the sender's cluster as it knows them. `origin` is the sender.

    `mate`: the sender takes the receiver for a member. If the packet crossed an expensive link, that is wrong, and the receiver says so.
    """

    members: HostSet
    mate: bool
    stamp_s: ClockSeconds


def ranges(info: SequenceSet) -> Ranges:
    """The ranges beyond the first gap, as pairs of first and last; only the highest ranges if there are many."""
    return info.beyond[-MOST_RANGES:]
