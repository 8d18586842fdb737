"""No token and no vote makes a protocol with a ring fail, whatever it carries: the fuzzer changes datagrams, not the values in them."""

from random import Random

import msgspec
import pytest

from hostagent.parts.tokens.pieces import LONGEST_CHUNK, Piece
from hostagent.protocols.counter.protocol import Counter
from hostagent.protocols.optimistic.protocol import Optimistic
from tests.hostagent.world import World


def changed(random, value):
    """A value like this one, with a number or a list in it changed."""
    if isinstance(value, list):
        if value and random.random() < 0.9:
            place = random.randrange(len(value))
            return [changed(random, one) if number == place else one for number, one in enumerate(value)]
        return random.choice(([], value * 2, value[1:]))
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return max(random.choice((value + 1, value - 1, value + 7, 0, random.randrange(1 << random.randrange(1, 40)))), 0)


def forged(random, piece):
    """The same piece with something else in it, and perhaps of a later generation or hop."""
    value = msgspec.msgpack.decode(piece.chunk)
    for _ in range(random.randint(1, 3)):
        value = changed(random, value)
    if random.random() < 0.7 and len(value) > 1 and all(isinstance(number, int) for number in value[:2]):
        later = [value[0] + random.choice((0, 0, 3)), value[1] + random.randint(1, 3)]
        value = [*later, *value[2:]]
        piece = msgspec.structs.replace(piece, generation=later[0] if later[0] < 1 << 53 else 0, hop=later[1])
    return msgspec.structs.replace(piece, chunk=msgspec.msgpack.encode(value)[:LONGEST_CHUNK])


@pytest.mark.parametrize("core", [Counter, Optimistic], ids=lambda core: core.name)
@pytest.mark.parametrize("seed", range(16))
def test_no_token_and_no_vote_makes_a_ring_fail(core, seed):
    random = Random(seed)
    world, taken = World(core, 3, seed), 0
    for step in range(900):
        if step % 20 == 0 and len(world.in_flight) < 100:
            world.broadcast(random.choice(world.hosts))
        if step % 300 == 299:
            world.restart(random.choice(world.hosts))
        if world.in_flight and random.random() < 0.7:
            packet = world.in_flight.pop(random.randrange(len(world.in_flight)))
            message = packet.message
            if isinstance(message, Piece) and not message.last and random.random() < 0.3:
                message = forged(random, message)
            before = world[packet.to].core._ring.latest
            world[packet.to].life.receive(packet.sender, [message], expensive=False)
            taken += message is not packet.message and world[packet.to].core._ring.latest is not before
        else:
            world.expire()
    assert taken, "some forged tokens must look like tokens of this run"
