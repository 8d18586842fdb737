"""What sites say to each other, and the parameters.

`version` is the number of a token list. Messages of the application have two names: origin and sequence, which their source gives, and a
number in the order of all messages, which the token site gives.
"""

from typing import Annotated, Final

import msgspec

from hostagent.contract.core import Milliseconds, Parameters
from hostagent.contract.messages import HostName, HostSet, Message, Payload, Ranges, SequenceNumber

MOST_RUNS: Final = 64
"""Runs in one acknowledgement: they fit into a datagram beside everything else."""
MOST_IN_RUN: Final = 4096
Run = tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)], SequenceNumber, Annotated[int, msgspec.Meta(ge=1, le=MOST_IN_RUN)]]
"""Messages of one source in a row: the place of the source among all hosts, the sequence of the first one, and how many there are."""


class TokenSiteParameters(Parameters, frozen=True, kw_only=True):
    """How many failures a delivered message survives, what waits where, and how long things may take."""

    resilience: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] | None = None
    """L: a message is delivered when the token was passed so often since it was numbered. By default the largest minority of all hosts:
    more failures stop the protocol anyway, as a new list needs a majority; and with a smaller L, fewer failures stop it."""
    history: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1024
    """Messages that are numbered, and that a site of the list may still lack. When there are so many, no more are numbered."""
    window: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 64
    """Messages of one source that are sent and not numbered yet; further ones wait at their source."""
    linger_ms: Milliseconds = 100.0
    """How long the token site keeps the token if everything is delivered and only not known to be everywhere: streams of more than ten
    messages a second pay nothing for the passes that tell."""
    longest_ms: Milliseconds = 1000.0
    """Nothing is awaited for longer than this before it is tried again."""
    first_ms: Milliseconds = 200.0
    """How long to wait for a host that has never answered."""

    def resilience_among(self, hosts: int) -> int:
        """L among this number of hosts."""
        return (hosts - 1) // 2 if self.resilience is None else self.resilience


class Data(Message, frozen=True):
    """A message from its source to everybody."""

    payload: Payload


class Ack(Message, frozen=True):
    """The token site numbers messages, none or more, and passes the token on. Origin and sequence are those of the first one.

    It is also how a site says that it has taken the token, so it has all messages with lower numbers, on stable storage.
    """

    version: SequenceNumber
    hop: SequenceNumber
    """How often the token of this list was passed on before."""
    first: SequenceNumber
    """The number of the first message, or the next one to be given if there is none."""
    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=MOST_RUNS)]
    """The messages in the order of their numbers."""
    news: SequenceNumber
    """The last hop that numbered a message."""
    committed: SequenceNumber
    """Messages up to this number may be delivered."""
    stable: SequenceNumber
    """All sites of the list have the messages up to this number."""

    @property
    def last(self) -> int:
        """The highest number that was given so far."""
        return self.first - 1 + sum(count for _, _, count in self.runs)


class Taken(Message, frozen=True):
    """The token of this hop was taken by the sender, which has nothing to say with it yet."""

    version: SequenceNumber
    hop: SequenceNumber


class Request(Message, frozen=True):
    """The sender lacks the messages with these numbers."""

    version: SequenceNumber
    missing: Ranges


class Supply(Message, frozen=True):
    """A numbered message, for a host that asked for it."""

    version: SequenceNumber
    number: SequenceNumber
    payload: Payload


class Query(Message, frozen=True):
    """The sender waits for the token to do something, and this is what it knows."""

    version: SequenceNumber
    hop: SequenceNumber
    committed: SequenceNumber
    stable: SequenceNumber


class Status(Message, frozen=True):
    """What the sender knows."""

    version: SequenceNumber
    promised: SequenceNumber
    """The highest version that the sender has joined: above `version` during a reformation."""
    in_force: bool
    """Whether there was a token of that list."""
    hop: SequenceNumber
    last: SequenceNumber
    """The highest number up to which the sender has everything."""
    committed: SequenceNumber
    base: SequenceNumber
    """Every host of the run, in the list or not, has the messages up to this number, and they are forgotten."""
    stable: SequenceNumber
    active: bool
    """Whether the sender holds the token, or has passed it on and waits for the next site to take it."""


class Invite(Message, frozen=True):
    """Reformation, phase 1: the sender invites to a new list with this version."""

    version: SequenceNumber
    listed: SequenceNumber
    """The version of the sender's last list."""
    last: SequenceNumber


class Join(Message, frozen=True):
    """The sender joins the new list, and will have no part in any with a lower version."""

    version: SequenceNumber
    listed: SequenceNumber
    last: SequenceNumber
    base: SequenceNumber
    members: HostSet
    """The sites of the sender's last list."""


class NewList(Message, frozen=True):
    """Phase 2: the new list. The first token site has all messages that any of its sites has, up to the number `last`."""

    version: SequenceNumber
    members: HostSet
    first: HostName
    listed: SequenceNumber
    """The version of the first token site's last list."""
    last: SequenceNumber
    base: SequenceNumber


class Agree(Message, frozen=True):
    """The sender has everything that the first token site of the new list has."""

    version: SequenceNumber


class Commit(Message, frozen=True):
    """Phase 3: all sites of the new list have agreed, so its first token site makes a token."""

    version: SequenceNumber
