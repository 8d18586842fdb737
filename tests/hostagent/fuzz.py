"""Mutated datagrams through the decoder and the core of every protocol: `python -m tests.hostagent.fuzz --datagrams 10000000`.

A world of five hosts broadcasts, loses, restarts and waits at random. The messages that its hosts send are changed, field by field or byte
by byte, put into datagrams, alone or in packs, and handed to hosts in whatever state they are. Whatever a datagram holds, it is refused
with a reason or taken without an exception; it makes a host send and keep a bounded number of things. A world is made anew after
`PER_WORLD` datagrams, and follows from the variant of the protocol and a seed, which are named when something fails.
"""

import argparse
import math
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.messages import Message
from hostagent.contract.wire import HEADER, LONGEST_DATAGRAM, MAGIC, PACK, VERSION, Codec, Header, Refused
from hostagent.protocols import PROTOCOLS
from hostagent.runtime.memory import retained_items
from tests.hostagent.world import World

HOSTS = 5
RUN = 1
PER_WORLD = 1000
STEPS_BEFORE = 150
MOST_IN_FLIGHT = 60
# A host may answer one datagram with all messages that it keeps, and keeps at most one or two for each datagram and broadcast.
MOST_SENT = 4 * PER_WORLD
# For each of the 25 rows of a table of hosts and sources 80 ranges of two numbers; and some items for each message that was accepted.
MOST_ITEMS = 25 * 160 + 40 * PER_WORLD
MEMORY_BYTES = 2 << 30

encode = msgspec.msgpack.Encoder().encode


class Variant(NamedTuple):
    """A protocol with one of its choices of parameters."""

    core: type[Core]
    parameters: dict[str, object]

    def __str__(self) -> str:
        return " ".join((self.core.name, *(f"{name}={value}" for name, value in self.parameters.items())))


def variants() -> list[Variant]:
    """Every protocol, and it again with each other value of a parameter that is a choice."""
    return [variant for core in PROTOCOLS.values() for variant in _variants(core)]


def _variants(core: type[Core]) -> Iterator[Variant]:
    yield Variant(core, {})
    for field in msgspec.structs.fields(core.Parameters):
        if get_origin(field.type) is Literal:
            for value in get_args(field.type):
                parameters = {field.encode_name: value}
                try:
                    msgspec.convert(parameters, core.Parameters)
                except msgspec.ValidationError:
                    continue
                if value != field.default:
                    yield Variant(core, parameters)


class Mutator:
    """Changes values at random; half of the time to something that the type of a field may well allow."""

    NUMBERS = (0, 1, 2, 3, 5, 80, 255, 2**16 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1, -1, -(2**63))
    TIMES = (0.0, -1.0, 1e-300, 1e12, -1e12, 1e300, math.inf, -math.inf, math.nan)
    NAMES = (*(f"h{number}" for number in range(1, HOSTS + 1)), "", "h0", "h99", "x" * 300, "[/]", "h1/h2")

    def __init__(self, random: Random) -> None:
        self.random = random

    def change(self, value: Any) -> Any:
        """Another value, mostly of the same type."""
        if self.random.random() < 0.03:
            return self.random.choice((None, True, 7, -1, 0.5, "h1", b"\xff", [], [[1, 2**40]], {}, [[[[]]]]))
        match value:
            case int():
                return self.number(value)
            case float():
                return self.random.choice((*self.TIMES, value + self.random.uniform(-10, 10)))
            case str():
                return self.random.choice(self.NAMES)
            case bytes():
                return self._bytes(value)
        return self._list(list(value or ()))

    def number(self, value: int) -> int:
        """A number that is near or far."""
        if self.random.random() < 0.6:
            return min(2**64 - 1, max(0, value + self.random.randint(-3, 30)))
        return self.random.choice(self.NUMBERS)

    def _bytes(self, value: bytes) -> bytes:
        match self.random.randrange(4):
            case 0:
                return bytes(self.random.choice((0, 1, 1200, len(value) + 1)))
            case 1:
                return self.random.randbytes(len(value))
            case 2:
                return bytes([self.random.randrange(1 << HOSTS)])
        return value[:-1]

    def _list(self, value: list[Any]) -> list[Any]:
        match self.random.randrange(5):
            case 0 if value:
                place = self.random.randrange(len(value))
                value[place] = self.change(value[place])
            case 1:
                return []
            case 2:
                low = self.random.choice((1, 2, 50))
                return [[low + 3 * number, low + 3 * number + 1] for number in range(self.random.choice((1, 5, 80, 81)))]
            case 3:
                return [[self.random.choice((0, 2, 9)), self.random.choice((2**32 - 1, 2**60, 2**64 - 1))]]
            case _:
                self.random.shuffle(value)
        return value

    def damage(self, datagram: bytes) -> bytes:
        """Other bytes in place of some, behind the run and the protocol more often than before."""
        damaged = bytearray(datagram)
        for _ in range(self.random.randint(1, 4)):
            start = self.random.randrange(0 if self.random.random() < 0.1 else 10, len(damaged) + 1)
            damaged[start : start + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 3))
        return bytes(damaged[: LONGEST_DATAGRAM + 1])


class Fuzzer:
    """One world, its hosts, and what has been sent in it."""

    def __init__(self, variant: Variant, seed: int) -> None:
        self.variant, self.seed = variant, seed
        self.random = Random(f"{variant}/{seed}")
        self.mutator = Mutator(self.random)
        self.world = World(variant.core, HOSTS, seed, **variant.parameters)
        self.numbers = {host: number for number, host in enumerate(self.world.hosts, start=1)}
        kinds = variant.core.messages
        self.kinds = {kind: number for number, kind in enumerate(kinds)}
        self.codecs = {host: Codec(variant.core.number, kinds, RUN, self.numbers, host) for host in self.numbers}
        self.seen: list[Message] = []
        self.outcomes: Counter[str] = Counter()
        for _ in range(STEPS_BEFORE):
            self._live()

    def run(self, datagrams: int) -> Counter[str]:
        """Hand over so many datagrams; what became of them, with the most that a host sent for one and kept in the end."""
        for _ in range(datagrams):
            if self.random.random() < 0.1:
                self._live()
            self._hand_over(self._datagram(), self.random.choice(self.world.hosts))
        kept = max(retained_items(self.world[host].core) for host in self.world.hosts)
        assert kept <= MOST_ITEMS, f"{self.variant}, seed {self.seed}: a host keeps {kept} items"
        return self.outcomes

    def _live(self) -> None:
        """Let something happen that happens without an enemy, too."""
        world, random = self.world, self.random
        match random.randrange(10):
            case 0 | 1:
                world.broadcast(random.choice(world.hosts))
            case 2 if random.random() < 0.2:
                world.restart(random.choice(world.hosts))
            case 3 | 4 if world.timers():
                world.expire()
            case _ if world.in_flight:
                world.hand_over(random.randrange)
        del world.in_flight[:-MOST_IN_FLIGHT]
        self.seen += (packet.message for packet in world.sent[:50])
        del self.seen[: max(0, len(self.seen) - 300)]
        world.sent.clear()

    def _hand_over(self, datagram: bytes, host: str) -> None:
        try:
            received = self.codecs[host].decode(datagram)
            for message in received.messages:
                self.world[host].core.on_message(received.sender, message, self.random.random() < 0.5)
        except Refused as refusal:
            self.outcomes[refusal.reason] += 1
        except Exception as error:
            error.add_note(f"{self.variant}, seed {self.seed}: {datagram.hex()} to {host}")
            raise
        else:
            self.outcomes["accepted"] += 1
        sent = len(self.world.sent)
        assert sent <= MOST_SENT, f"{self.variant}, seed {self.seed}: {sent} messages sent for {datagram.hex()} to {host}"
        self.world.sent.clear()
        del self.world.in_flight[:-MOST_IN_FLIGHT]

    def _datagram(self) -> bytes:
        if not self.seen:
            return self.random.randbytes(self.random.randrange(HEADER.size + 20))
        several = self.random.randint(2, 4) if self.random.random() < 0.2 else 1
        entries = [self._entry(self.random.choice(self.seen)) for _ in range(several)]
        if self.random.random() < 0.7:
            return self._encoded([self._changed(entry) for entry in entries])
        return self.mutator.damage(self._encoded(entries))

    def _entry(self, message: Message) -> list[Any]:
        """A message as a pack carries it."""
        group, origin, sequence, *fields = msgspec.structs.astuple(message)
        return [self.kinds[type(message)], self.random.randrange(3), group, self.numbers[origin], sequence, list(fields)]

    def _changed(self, entry: list[Any]) -> list[Any]:
        """With one or two of its fields changed, or one of those in the header."""
        kind, purpose, group, origin, sequence, fields = entry
        for _ in range(self.random.randint(1, 2)):
            if fields and self.random.random() < 0.8:
                place = self.random.randrange(len(fields))
                fields[place] = self.mutator.change(fields[place])
            elif self.random.random() < 0.5:
                origin = self.random.randrange(HOSTS + 2)
            else:
                sequence = min(2**32 - 1, max(0, self.mutator.number(sequence)))
        return [kind, purpose, group, origin, sequence, fields]

    def _encoded(self, entries: Sequence[list[Any]]) -> bytes:
        kind, purpose, group, origin, sequence, fields = min(entries, key=lambda entry: entry[1])
        sender, packet = self.random.randint(1, HOSTS), self.random.getrandbits(64)
        several = len(entries) > 1
        header = Header(
            *(MAGIC, VERSION, self.variant.core.number, PACK if several else kind, purpose, RUN, sender, packet),
            *(group, origin, sequence, 0),
        )
        return HEADER.pack(*header) + encode(entries if several else fields)


def campaign(datagrams: int, first_seed: int = 0) -> dict[str, Counter[str]]:
    """So many datagrams in all, shared out among the variants, world by world; what became of them."""
    outcomes: dict[str, Counter[str]] = {str(variant): Counter() for variant in variants()}
    done, seed = 0, first_seed
    while done < datagrams:
        for variant in variants():
            share = min(PER_WORLD, datagrams - done)
            outcomes[str(variant)] += Fuzzer(variant, seed).run(share)
            done += share
        seed += 1
    return outcomes


def main() -> None:
    """Run a campaign and print what became of the datagrams."""
    parser = argparse.ArgumentParser(description="Hand mutated datagrams to every protocol.")
    parser.add_argument("--datagrams", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first world of each variant")
    arguments = parser.parse_args()
    # What takes more memory than that is found as a MemoryError.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    began = time.monotonic()
    outcomes = campaign(arguments.datagrams, arguments.seed)
    took_s = time.monotonic() - began
    print(f"{arguments.datagrams:,} datagrams in {took_s:.0f} s: {arguments.datagrams / took_s:,.0f} a second")
    for variant, found in outcomes.items():
        print(f"  {variant}: " + ", ".join(f"{count:,} {outcome}" for outcome, count in found.most_common()))


if __name__ == "__main__":
    main()
