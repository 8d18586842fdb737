"""Effects are data, encoded when they are asked for, and parts of a protocol do not meet."""

import pytest

from hostagent.contract.core import Core
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.links import Letter, LinkParameters, Links
from tests.hostagent.recording import Unpromising
from tests.hostagent.world import World


class Twice(Unpromising):
    """Two sets of links side by side, one for broadcasts of odd and one for those of even numbers."""

    name = "twice"
    number = 220
    messages = Links.messages
    Parameters = LinkParameters

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.odd = self.add("odd", lambda own: Links(own, parameters, self.on_letter))
        self.even = self.add("even", lambda own: Links(own, parameters, self.on_letter))

    def on_multicast(self, to, sequence, payload):
        (self.odd if sequence % 2 else self.even).send(self.env.host, sequence, payload, to=to)
        # Keys of the core's own, with the names that its parts use.
        self.env.store("sent", "mine")
        self.env.store("odd/sent", "mine")
        self.env.set_timer("h2", 60)

    def on_message(self, sender, message, expensive):
        (self.odd if message.sequence % 2 else self.even).on_message(sender, message, expensive)

    def on_letter(self, sender, letter):
        self.env.deliver(sender, letter.sequence, letter.payload)


TO_BOTH = (EVERYBODY, b"\3", 0)


def test_two_parts_of_one_kind_have_keys_and_timers_of_their_own():
    world = World(Twice, 2)
    for payload in (b"1", b"2", b"3"):
        world.broadcast("h1", payload)
    assert world["h1"].kept("core.odd") == {
        "sent": 2,
        "letter/1": ["h1", 1, b"1", *TO_BOTH],
        "letter/2": ["h1", 3, b"3", *TO_BOTH],
    }
    assert world["h1"].kept("core.even") == {"sent": 1, "letter/1": ["h1", 2, b"2", *TO_BOTH]}
    assert world["h1"].stored == {"sent": "mine", "odd/sent": "mine"}
    assert sorted(world["h1"].timers) == ["core.even/h2", "core.odd/h2", "core/h2"]
    world.lose()
    world.restart("h1")
    world.settle()
    assert sorted(world.delivered("h2")) == [("h1", 1), ("h1", 2), ("h1", 3)]
    assert world["h2"].kept("core.odd.received") == {"h1": 2}
    assert world["h2"].kept("core.even.received") == {"h1": 1}
    assert not world.timers()


def test_a_part_cannot_have_the_name_of_another():
    core = World(Twice, 2)["h1"].core
    with pytest.raises(ValueError, match=r"there is a part core\.odd already"):
        core.add("odd", lambda own: Links(own, core.parameters, core.on_letter))


def test_a_message_that_two_parts_take_must_be_given_to_one_of_them():
    core = World(Twice, 2)["h1"].core
    with pytest.raises(LookupError, match="2 parts of Twice take a Letter"):
        Core.on_message(core, "h2", Letter(0, "h2", 1, 1, 1, b""), expensive=False)


class Changing(Unpromising):
    """Changes what it has stored, traced and sent."""

    class Listed(Message, frozen=True):
        """A message with a part that can change."""

        numbers: list[int]

    name = "changing"
    number = 221
    messages = (Listed,)

    def on_broadcast(self, sequence, payload):  # noqa: ARG002 - a core has it so
        numbers = [1]
        self.env.store("numbers", numbers)
        self.env.trace("numbers", numbers=numbers)
        self.env.send("h2", self.Listed(0, self.env.host, sequence, numbers), Purpose.DATA)
        numbers.append(2)


def test_what_is_changed_after_it_was_asked_for_is_kept_as_it_was():
    world = World(Changing, 2)
    world.broadcast("h1")
    assert world["h1"].stored == {"numbers": [1]}
    assert world["h1"].traced == [("numbers", {"numbers": [1]})]
    assert [packet.message.numbers for packet in world.in_flight] == [[1]]


def test_broadcasts_are_numbered_on_after_a_restart_and_anew_without_storage():
    world = World(Changing, 2)
    for _ in range(2):
        world.broadcast("h1")
        world.restart("h1")
    world["h1"].storage.clear()
    world.restart("h1")
    world.broadcast("h1")
    assert [packet.message.sequence for packet in world.sent] == [1, 2, 1]
