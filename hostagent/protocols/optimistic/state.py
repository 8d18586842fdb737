"""What the token carries: the names of the messages that are not committed, who has acknowledged what, and how a new list begins.

Every message has a number in the one order of all messages. The token names those after `base`, in order; all up to `base` are committed.
Of these names the first `valid` ones are in force. Those after them were rolled back, and come into force again, in their order, when they
are broadcast again. So no rollback changes the order, and only a new list drops names.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from hostagent.contract.messages import SequenceNumber
from hostagent.parts.tokens.places import HIGHEST, MOST_HOSTS, Hosts, Number, Place, Version, following, set_of_places

MOST_NAMES: Final = MOST_HOSTS * MOST_HOSTS
"""Names in a token: a message of each host for every hop of a round. With so many, the token fills 21 datagrams."""
Stamp = tuple[int, int]
"""A generation and the number of rollbacks in it."""
Key = tuple[int, int]
"""The place of the origin of a message, and its sequence number."""


class Name(msgspec.Struct, frozen=True, array_like=True):
    """A message in the token."""

    origin: Place
    sequence: SequenceNumber
    speaker: Place
    """Who broadcasts it again after a rollback: its origin or, if that is not in the list, a host that has the message."""

    @property
    def key(self) -> Key:
        """Origin and sequence."""
        return self.origin, self.sequence


class TokenState(msgspec.Struct, frozen=True, array_like=True):
    """The contents of the token."""

    generation: Number
    hop: Number
    next: Place
    members: Hosts
    view: Number
    """The generation in which the members last changed."""
    since: Number
    """The hop with which the generation began."""
    parent: Number
    """The generation from which this one was made, and `settled`, the number up to which it took over the order of that one."""
    settled: Number
    rollbacks: Number
    """How often the ring has rolled back in this generation."""
    base: Number
    """All messages up to this number are committed."""
    valid: Annotated[int, msgspec.Meta(ge=0, le=MOST_NAMES)]
    window: Annotated[int, msgspec.Meta(ge=1, le=MOST_NAMES)]
    """Only messages whose names are among so many first ones are broadcast: half as many after a rollback, twice as many after a commit."""
    acks: Annotated[tuple[Number, ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """The batch acknowledgements: up to which number each host has everything, as it said when it last owned the token."""
    done: Annotated[tuple[Number, ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """Up to which number each host knows that everything is committed."""
    lasts: Annotated[tuple[SequenceNumber, ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """For each host, the sequence number of its last message up to `base`."""
    still: Number
    """The number of hops since anything has changed."""
    lacking: Hosts
    """The hosts that asked for the last rollback: they come at the end of each broadcast (`speaking`)."""
    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_NAMES)]

    @property
    def version(self) -> Version:
        """Generation and hop."""
        return self.generation, self.hop

    @property
    def stamp(self) -> Stamp:
        """Generation and rollbacks."""
        return self.generation, self.rollbacks

    @property
    def top(self) -> int:
        """The number of the last name in force."""
        return self.base + self.valid

    @property
    def acknowledged(self) -> int:
        """The number up to which all members have everything."""
        return min(ack for place, ack in enumerate(self.acks) if self.members >> place & 1)

    @property
    def stalls(self) -> int:
        """For how many rounds nothing has changed."""
        return self.still // max(self.members.bit_count(), 1)

    @property
    def is_idle(self) -> bool:
        """Whether all is committed, and all members know it."""
        members = (done for place, done in enumerate(self.done) if self.members >> place & 1)
        return not self.names and self.stalls > 0 and all(done >= self.base for done in members)

    @property
    def may_name(self) -> bool:
        """Whether names come into force: not before every member has seen the list, and has taken back what is not in it."""
        return self.hop - self.since >= self.members.bit_count() - 1

    def named(self) -> list[int]:
        """For each host, the sequence number of its last message that has a name."""
        lasts = list(self.lasts)
        for name in self.names:
            lasts[name.origin] = max(lasts[name.origin], name.sequence)
        return lasts

    def acknowledging(self, owner: int, ack: int, done: int) -> "TokenState":
        """The token with the acknowledgement of its owner, without the names that are committed by it."""
        acked = msgspec.structs.replace(
            self, acks=_with(self.acks, owner, max(ack, self.acks[owner])), done=_with(self.done, owner, done)
        )
        base = min(max(self.base, acked.acknowledged), self.top)
        gone, names = self.names[: base - self.base], self.names[base - self.base :]
        window = min(2 * self.window, MOST_NAMES) if gone else self.window
        lasts = _after(self.lasts, gone)
        return msgspec.structs.replace(acked, base=base, valid=self.top - base, window=window, lasts=lasts, names=names)

    def naming(self, stamps: Mapping[Key, Stamp]) -> "TokenState":
        """The token with all names in force that its owner has heard since the last rollback, in order, and new ones behind them."""
        if not self.may_name:
            return self
        valid = self.valid
        while valid < len(self.names) and stamps.get(self.names[valid].key) == self.stamp:
            valid += 1
        names = list(self.names)
        if valid == len(names):
            lasts = self.named()
            for place in (place for place in range(len(lasts)) if self.members >> place & 1):
                while stamps.get((place, lasts[place] + 1)) == self.stamp and len(names) < MOST_NAMES:
                    lasts[place] += 1
                    names.append(Name(place, lasts[place], place))
            valid = len(names)
        return msgspec.structs.replace(self, valid=valid, names=tuple(names))

    def rolled_back(self, lacking: int) -> "TokenState":
        """The token after a rollback to the committed state: no name is in force, and nobody has acknowledged one."""
        acks, window = tuple(min(ack, self.base) for ack in self.acks), max(min(self.window, len(self.names)) // 2, 1)
        return msgspec.structs.replace(self, rollbacks=self.rollbacks + 1, valid=0, window=window, acks=acks, lacking=lacking)

    def passed_on(self, owner: int, *, changed: bool) -> "TokenState":
        """The token for the next owner."""
        after = following(self.members, owner, len(self.acks))
        return msgspec.structs.replace(self, hop=self.hop + 1, next=after, still=0 if changed else self.still + 1)

    def is_sound(self, hosts: int) -> bool:
        """Whether a host of this run can have made it."""
        numbers = (self.generation, self.hop, self.rollbacks, self.base, *self.acks, *self.done)
        return (
            len(self.acks) == len(self.done) == len(self.lasts) == hosts
            and self.members < 1 << hosts
            and self.members >> self.next & 1 == 1
            and 2 * self.members.bit_count() > hosts
            and max(numbers) < HIGHEST
            and self.valid <= len(self.names)
            and all(max(name.origin, name.speaker) < hosts for name in self.names)
        )


class Ballot(msgspec.Struct, frozen=True, array_like=True):
    """What a host says when it votes for a new generation."""

    generation: Number
    """That of the list in which it delivered what it has."""
    top: Number
    """Up to which number it has delivered everything, in this list."""
    done: Number
    tail: Annotated[tuple[tuple[Place, SequenceNumber], ...], msgspec.Meta(max_length=MOST_NAMES)]
    """The messages with the numbers after `done`, up to `top`: it may have forgotten the token that named them."""
    has: Annotated[tuple[tuple[Place, SequenceNumber, SequenceNumber], ...], msgspec.Meta(max_length=4000)]
    """The messages that it has, as origins with ranges of sequence numbers."""

    def is_sound(self, hosts: int) -> bool:
        """Whether a host of this run can have made it."""
        places = (*(place for place, _ in self.tail), *(place for place, _, _ in self.has))
        return max(self.top, self.done) < HIGHEST and all(place < hosts for place in places)

    def holds(self, key: Key) -> bool:
        """Whether the voter has a message."""
        origin, sequence = key
        return any(place == origin and first <= sequence <= last for place, first, last in self.has)

    def keeps(self, generation: int, settled: int) -> int:
        """Up to which number the voter does not roll back when a list that was made from a generation begins."""
        return min(self.top, settled) if self.generation == generation else self.done


encode: Any = msgspec.msgpack.Encoder().encode
decode_token = msgspec.msgpack.Decoder(TokenState).decode
decode_ballot = msgspec.msgpack.Decoder(Ballot).decode


def first_token(hosts: int) -> TokenState:
    """The token with which a run begins."""
    none = (0,) * hosts
    # Nobody has delivered anything, so the first names need not wait for a round.
    return TokenState(0, hosts, 0, (1 << hosts) - 1, 0, 0, 0, 0, 0, 0, 0, MOST_NAMES, none, none, none, hosts, 0, ())


def reformed(state: TokenState, generation: int, owner: int, votes: Mapping[int, Ballot]) -> TokenState:
    """The first token of a new generation, made from the newest token that any of the voters knows, and from what they have.

    Whatever any host has committed, every voter of the old list has acknowledged. So what all of those have is settled, and everybody rolls
    back to it. Of the names after it, those stay that a voter has the message of. If one is dropped, so are all later ones of hosts that
    are not in the list, since one may be a cause of the other; a host that is in the list has the causes of its own messages.
    """
    names = _names(state, votes)
    old = (ballot for place, ballot in votes.items() if state.members >> place & 1)
    has = min((ballot.keeps(state.generation, HIGHEST) for ballot in old), default=0)
    settled = min(max(state.base, has), state.base + len(names))
    gone, rest = names[: settled - state.base], names[settled - state.base :]
    members = set_of_places(votes)
    acks = (votes[place].keeps(state.generation, settled) if place in votes else 0 for place in range(len(state.acks)))
    return TokenState(
        generation=generation,
        hop=state.hop + 1,
        next=owner,
        members=members,
        view=state.view if members == state.members else generation,
        since=state.hop + 1,
        parent=state.generation,
        settled=settled,
        rollbacks=0,
        base=settled,
        valid=0,
        window=state.window,
        acks=tuple(acks),
        done=tuple(votes[place].done if place in votes else done for place, done in enumerate(state.done)),
        lasts=_after(state.lasts, gone),
        still=0,
        lacking=0,
        names=tuple(_kept(rest, votes)),
    )


def _names(state: TokenState, votes: Mapping[int, Ballot]) -> list[Name]:
    """The names of the newest token, and those that only hosts know which have delivered the messages."""
    names = list(state.names)
    for ballot in (ballot for ballot in votes.values() if ballot.generation == state.generation):
        unknown = state.base + len(names) - ballot.done
        if 0 <= unknown < len(ballot.tail):
            names += [Name(*key, key[0]) for key in ballot.tail[unknown:]]
    return names[:MOST_NAMES]


def _kept(names: Iterable[Name], votes: Mapping[int, Ballot]) -> Iterable[Name]:
    dropped = False
    for name in names:
        holders = [place for place, ballot in sorted(votes.items()) if ballot.holds(name.key)]
        if not holders or (dropped and name.origin not in votes):
            dropped = True
        else:
            speaker = name.origin if name.origin in holders else holders[0]
            yield msgspec.structs.replace(name, speaker=speaker)


def _with(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place + 1 :])


def _after(lasts: tuple[int, ...], gone: Iterable[Name]) -> tuple[int, ...]:
    found = list(lasts)
    for name in gone:
        found[name.origin] = max(found[name.origin], name.sequence)
    return tuple(found)
