"""What hosts say to each other in the two-phase protocol, and what they keep of a message."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from hostagent.contract.messages import (
    LISTED,
    Destination,
    HostName,
    HostSetOrNone,
    Message,
    NumberOfEach,
    Payload,
    SequenceNumber,
    host_set,
    hosts_in,
)

Counter = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""The counter of a priority, from 1; 0 for none."""
Priority = tuple[int, str]
"""A counter and the host that proposed it: unique in the system, as no host proposes a counter twice."""
MessageId = tuple[str, int]
Groups = Mapping[int, tuple[str, ...]]
"""The members of each group, by number."""


Ballot = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""0 for the source of a message; others take over with ballots k n + i, of which host i of n has those for k = 1, 2, ..."""
MOST_HOSTS = 200
"""With election, that many numbers fit into a datagram beside everything else."""
Seen = NumberOfEach
"""For each host of the run, the last of its messages that has a priority."""


class First(Message, frozen=True):
    """Phase 1: the message itself."""

    payload: Payload
    after: SequenceNumber = 0
    """The source's last message before this one to the same hosts, if it was not finished then: this one must not overtake it."""
    nth: SequenceNumber = 0
    """As in `Destination`."""
    listed: HostSetOrNone = b""
    """The hosts that the message is for, if it is for no group."""

    @property
    def id(self) -> MessageId:
        """Origin and sequence."""
        return self.origin, self.sequence

    def destination(self, groups: Groups, hosts: tuple[str, ...]) -> Destination:
        """Whom the message is for."""
        return _destination(self, groups, hosts)


class Proposal(Message, frozen=True):
    """The sender's priority for the message has this counter."""

    counter: Counter


class Final(Message, frozen=True):
    """Phase 2: the final priority of a message, the highest that was proposed."""

    counter: Counter
    by: HostName
    nth: SequenceNumber = 0


class Have(Message, frozen=True):
    """The sender has the final priority of the message on stable storage."""


class Vote(Message, frozen=True):
    """Phase 1 with election: the message itself, from whoever wants to finish it with a ballot."""

    payload: Payload
    floor: SequenceNumber
    """Everybody can deliver the origin's messages up to this one."""
    ballot: Ballot = 0
    nth: SequenceNumber = 0
    listed: HostSetOrNone = b""

    @property
    def id(self) -> MessageId:
        """Origin and sequence."""
        return self.origin, self.sequence

    def destination(self, groups: Groups, hosts: tuple[str, ...]) -> Destination:
        """Whom the message is for."""
        return _destination(self, groups, hosts)


class Promised(Message, frozen=True):
    """The sender's priority for the message has this counter, and it takes part in no lower ballot."""

    counter: Counter
    ballot: Ballot = 0
    accepted: Counter = 0
    """The final counter that the sender has accepted, if any, and in which ballot."""
    accepted_in: Ballot = 0


class Accept(Message, frozen=True):
    """Phase 2 with election: this is to be the final counter of the message."""

    counter: Counter
    ballot: Ballot = 0


class Accepted(Message, frozen=True):
    """The sender has accepted, on stable storage, and had given priorities to these messages by then."""

    ballot: Ballot
    seen: Seen


class Refused(Message, frozen=True):
    """The sender takes part in no ballot below this one."""

    ballot: Ballot


class Decided(Message, frozen=True):
    """Phase 3: a majority has accepted the counter. What it had `seen` by then may come before the message, nothing else."""

    counter: Counter
    seen: Seen


class Done(Message, frozen=True):
    """Everybody can deliver the origin's messages up to this one."""


class Look(Message, frozen=True):
    """The sender cannot go on: propose no counter up to this one from now on, and say what you have seen."""

    counter: Counter


class Looked(Message, frozen=True):
    """The answer."""

    counter: Counter
    seen: Seen


def first(to: Destination, message: MessageId, payload: bytes, hosts: tuple[str, ...], after: int = 0) -> First:
    """Phase 1 of a message."""
    listed = host_set(to.hosts, hosts) if to.group == LISTED else b""
    return First(to.group, *message, payload, after, to.nth, listed)


def _destination(message: First | Vote, groups: Groups, hosts: tuple[str, ...]) -> Destination:
    """Whom a message is for. A forged datagram may name a group that does not exist."""
    members = hosts_in(message.listed, hosts) if message.group == LISTED else groups.get(message.group, ())
    return Destination(message.group, members, message.nth)
