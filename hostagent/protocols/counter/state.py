"""What the token carries: the system state, and the rules that are pure functions of it.

Hosts are named by their place among all hosts of the run, and sets of hosts are numbers (`hostagent.parts.tokens.places`).

A position is a number that every entry has in the one order of all entries: `cycle * hosts + rank`. The rank of a host in a cycle is its
place (`order=list`), or its place counted from another host in each cycle (`order=rotating`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec

from hostagent.contract.messages import GroupNumber, SequenceNumber
from hostagent.parts.tokens.places import HIGHEST, MOST_HOSTS, Hosts, Number, Place, Version, following, set_of_places

MOST_RUNS: Final = 256
ENTRY_BYTES: Final = 30
"""What an entry takes in a token at most, beside its runs."""
RUN_BYTES: Final = 13
MOST_ENTRIES_BYTES: Final = 30_000
"""All entries of a token. With them a token is 22 datagrams. A ballot also has the entries that are committed here and not everywhere.
They are often about as many, but nothing limits them, and nobody can read a ballot of more than `MOST_PIECES` datagrams."""
Position = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
MOST_MESSAGES: Final = 20_000
"""Messages in an entry. A host that has sent more since its last turn adds the others in its next one."""
CERTAIN: Final = 1 << MOST_HOSTS
"""In the counter field: all who need the messages have counted themselves in, and whoever knows that now does so once more."""
Run = tuple[Annotated[int, msgspec.Meta(ge=1, le=MOST_MESSAGES)], Hosts]
"""So many messages in a row, and their destinations."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An element of the system state: consecutive messages of one host that belong to one cycle, and who has them."""

    position: Position
    origin: Place
    first: SequenceNumber
    runs: Annotated[tuple[Run, ...], msgspec.Meta(min_length=1, max_length=MOST_RUNS)]
    """The IDs field: the destinations of all these messages in turn."""
    have: Annotated[int, msgspec.Meta(ge=0, lt=2 * CERTAIN)]
    """The counter field: the hosts that have counted themselves in, and `CERTAIN`."""

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.first + sum(count for count, _ in self.runs) - 1

    @property
    def to_any(self) -> int:
        """The hosts that at least one of the messages is for."""
        hosts = 0
        for _, ids in self.runs:
            hosts |= ids
        return hosts

    @property
    def interested(self) -> int:
        """The hosts that must learn what became of the entry: all destinations, and the origin."""
        return self.to_any | 1 << self.origin

    @property
    def most_bytes(self) -> int:
        """What the entry takes in a token at most."""
        return ENTRY_BYTES + RUN_BYTES * len(self.runs)

    @property
    def names(self) -> tuple[int, int, tuple[Run, ...]]:
        """What the entry is about: after a reformation another entry may have the position of one that was left out."""
        return self.origin, self.first, self.runs

    def messages(self, host: int) -> Iterable[int]:
        """The numbers of the messages for a host; of all messages for host -1."""
        number = self.first
        for count, ids in self.runs:
            if host < 0 or ids >> host & 1:
                yield from range(number, number + count)
            number += count

    def is_sound(self, hosts: int) -> bool:
        """Whether a host of this run can have made it."""
        is_known = self.origin < hosts and max(self.to_any, self.have & ~CERTAIN) < 1 << hosts and self.position < HIGHEST
        return is_known and 0 < self.first <= self.last < min(self.first + MOST_MESSAGES, 1 << 32)

    def is_complete(self, members: int) -> bool:
        """Whether every member that must have the messages has them: its destinations.

        If a destination is not in the list and may come back, every member must have all messages.
        """
        needed = members if self.to_any & ~members else self.to_any
        return not needed & ~self.have


class TokenState(msgspec.Struct, frozen=True, array_like=True):
    """The contents of the token."""

    generation: Number
    hop: Number
    """How often the token was passed on, in all generations."""
    cycle: Number
    """The cycle in which the next owner adds an entry."""
    next: Place
    """The next owner."""
    members: Hosts
    """The token-passing list, in the static order of hosts."""
    top: Position
    """The highest position of any entry so far."""
    done: Annotated[tuple[Position, ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """Up to which position each host has committed everything."""
    groups: Annotated[tuple[tuple[GroupNumber, Hosts, Number], ...], msgspec.Meta(max_length=1000)]
    """The members of each group, also those that are not in the list, and the generation in which its view last changed."""
    local: Annotated[tuple[tuple[Place, Number], ...], msgspec.Meta(max_length=MOST_HOSTS)]
    """The local and localC fields: the hosts whose buffers are nearly full, each with the cycle in which it said so."""
    overload: Number
    """The global and globalC fields: the cycle in which the network was found overloaded; 0 if it is not."""
    still: Number
    """The number of hops since anything has changed."""
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=2000)]
    """The system state, in the order of positions."""

    @property
    def version(self) -> Version:
        """Generation and hop."""
        return self.generation, self.hop

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to count, to commit or to forget any more."""
        members = (done for place, done in enumerate(self.done) if self.members >> place & 1)
        return not self.entries and self.stalls > 0 and all(done >= self.top for done in members)

    @property
    def stalls(self) -> int:
        """For how many cycles nothing has changed."""
        return self.still // max(self.members.bit_count(), 1)

    def passed_on(
        self,
        owner: int,
        done: int,
        entries: Sequence[Entry],
        *,
        local: tuple[tuple[int, int], ...],
        overload: int,
        changed: bool,
    ) -> "TokenState":
        """The token as its owner passes it on: with these entries and fields, and what the owner has committed."""
        next_owner = following(self.members, owner, len(self.done))
        changed = changed or tuple(entries) != self.entries or self.done[owner] < min(done, self.top)
        return msgspec.structs.replace(
            self,
            hop=self.hop + 1,
            cycle=self.cycle + (next_owner <= owner),
            next=next_owner,
            top=max(self.top, *(entry.position for entry in entries), 0),
            done=tuple(done if place == owner else before for place, before in enumerate(self.done)),
            local=local,
            overload=overload,
            still=0 if changed else self.still + 1,
            entries=tuple(sorted(entries, key=lambda entry: entry.position)),
        )

    def is_sound(self, hosts: int) -> bool:
        """Whether a host of this run can have made it."""
        sets = [self.members, *(mask for _, mask, _ in self.groups)]
        return (
            len(self.done) == hosts
            and max(self.next, *(place for place, _ in self.local), 0) < hosts
            and all(mask < 1 << hosts for mask in sets)
            and all(entry.is_sound(hosts) for entry in self.entries)
            and max(self.generation, self.hop, self.cycle, self.top) < HIGHEST
            and self.members >> self.next & 1 == 1
            and 2 * self.members.bit_count() > hosts
        )


class Ballot(msgspec.Struct, frozen=True, array_like=True):
    """What a host says when it votes for a new generation."""

    generation: Number
    """That of the newest token that it knows."""
    done: Position
    groups: Annotated[tuple[GroupNumber, ...], msgspec.Meta(max_length=1000)]
    """The groups that it wants to be in."""
    rides: bool
    """Whether it wants to be in the token-passing list."""
    committed: Annotated[tuple[tuple[Entry, bool], ...], msgspec.Meta(max_length=2000)]
    """Entries that some host may still have to commit, and whether the voter has all of their messages."""
    open: Annotated[tuple[tuple[Entry, bool], ...], msgspec.Meta(max_length=2000)]
    """The same for entries of the newest token that it knows."""

    def is_sound(self, hosts: int) -> bool:
        """Whether a host of this run can have made it."""
        return self.done < HIGHEST and all(entry.is_sound(hosts) for entry, _ in (*self.committed, *self.open))


encode_state = msgspec.msgpack.Encoder().encode
decode_token = msgspec.msgpack.Decoder(TokenState).decode
decode_ballot = msgspec.msgpack.Decoder(Ballot).decode


class Rules(msgspec.Struct, frozen=True):
    """How entries are ordered, and when they are committed."""

    hosts: int
    order: Literal["list", "rotating"]
    commit: Literal["cycle", "entry"]

    @property
    def majority(self) -> int:
        """More than half of all hosts."""
        return self.hosts // 2 + 1

    def position(self, cycle: int, place: int) -> int:
        """The position of the entry of a host in a cycle."""
        return cycle * self.hosts + (place if self.order == "list" else (place - cycle) % self.hosts)

    def counted_again(self, entry: Entry, members: int, owner: int) -> Entry:
        """The entry as an owner leaves it that has counted itself in: if all have done so and it may get lost, all count once more."""
        if not entry.is_complete(members) or self._survives(entry, members):
            return entry
        return msgspec.structs.replace(entry, have=CERTAIN | entry.have & 1 << owner)

    def frontier(self, state: TokenState) -> int:
        """The position up to which everything is committed: seen in the token, or by its absence there."""
        is_open = (entry.position for entry in state.entries if not self._is_committed(entry, state.members))
        first = next(iter(is_open), None)
        if self.commit == "entry":
            return state.top if first is None else first - 1
        cycle = state.cycle if first is None else min(state.cycle, first // self.hosts)
        return max(cycle * self.hosts - 1, 0)

    def _is_committed(self, entry: Entry, members: int) -> bool:
        has_majority = (entry.have & members).bit_count() >= self.majority
        return has_majority and entry.is_complete(members) and self._survives(entry, members)

    def _survives(self, entry: Entry, members: int) -> bool:
        """Whether every later list has a host that has the messages, or one that knows that the entry was complete.

        All members have the messages of an entry with a destination that is not in the list. Else only the destinations have them: if those
        are no majority, it may be that none of them is in the next list.
        """
        if entry.have & CERTAIN or entry.to_any & ~members:
            return True
        return all(ids.bit_count() >= self.majority for _, ids in entry.runs)


def reformed(state: TokenState, generation: int, owner: int, votes: Mapping[int, Ballot]) -> TokenState:
    """The first token of a new generation, made from the newest token that any of the voters knows, and from what they have.

    The list are the voters. What any of the hosts may still have to commit is in the token again, and every member must count itself in
    again, also where it has committed the entry before: what a member has counts when it has seen where in the order that is.

    An entry stays if one of the voters has committed it, or has seen that all who needed its messages had them (`CERTAIN`): then they are
    with all their destinations, or with a majority, and members need no more than their own. Any other entry is left out if a needed
    message is with none of the voters: it cannot have been committed anywhere (`Rules`). With it go all later ones of its origin, which
    are committed after it.
    """
    members = _members(votes, len(state.done))
    done = tuple(votes[place].done if place in votes else before for place, before in enumerate(state.done))
    entries, full = _merged(state, votes)
    kept: list[Entry] = []
    lost: set[int] = set()
    for entry in sorted(entries.values(), key=lambda one: one.position):
        behind = set_of_places(place for place, position in enumerate(done) if position < entry.position)
        if not entry.interested & behind:
            continue
        have = entry.have | ~behind & (1 << len(done)) - 1
        certain = entry.have & CERTAIN
        if entry.origin in lost or not (certain or _can_be_had(entry, have, full.get(entry.position, 0), members)):
            lost.add(entry.origin)
            continue
        kept.append(msgspec.structs.replace(entry, have=certain))
    return TokenState(
        generation,
        state.hop + 1,
        state.cycle + 1,
        owner,
        members,
        state.top,
        done,
        tuple(_group(one, votes, state.members, members, generation) for one in state.groups),
        (),
        0,
        0,
        tuple(kept),
    )


def _members(votes: Mapping[int, Ballot], hosts: int) -> int:
    """Those who voted and want to be in the list; also some of the others, if there were no majority without them."""
    ready = sorted(votes, key=lambda place: (not votes[place].rides, place))
    return set_of_places(place for number, place in enumerate(ready) if votes[place].rides or number <= hosts // 2)


def _merged(state: TokenState, votes: Mapping[int, Ballot]) -> tuple[dict[int, Entry], dict[int, int]]:
    """All entries that matter, by position, with the hosts that have their own messages, and for each the voters that have all of them.

    Entries of an older generation that were not committed there may have been left out since, so they tell only who has their messages.
    """
    entries = {entry.position: entry for entry in state.entries}
    full: dict[int, int] = {}
    for ballot in votes.values():
        current = ballot.open if ballot.generation == state.generation else ()
        for entry, _ in (*ballot.committed, *current):
            entries.setdefault(entry.position, entry)
    for place, ballot in votes.items():
        listed = (*((CERTAIN, *one) for one in ballot.committed), *((0, *one) for one in ballot.open))
        for certain, entry, has_all in listed:
            same = entries.get(entry.position)
            if same is not None and same.names == entry.names:
                entries[entry.position] = msgspec.structs.replace(same, have=same.have | entry.have | certain)
                full[entry.position] = full.get(entry.position, 0) | has_all << place
    return entries, full


def _can_be_had(entry: Entry, have: int, full: int, members: int) -> bool:
    """Whether the members that need messages of an entry can get them from others."""
    for _, ids in entry.runs:
        needed = members if entry.to_any & ~members else ids & members
        has = have & ids | full | 1 << entry.origin
        if needed & ~has and not has & members:
            return False
    return True


def _group(
    group: tuple[int, int, int], votes: Mapping[int, Ballot], before: int, members: int, generation: int
) -> tuple[int, int, int]:
    number, mask, version = group
    wants = mask & ~set_of_places(votes) | set_of_places(place for place, ballot in votes.items() if number in ballot.groups)
    return number, wants, version if wants & members == mask & before else generation
