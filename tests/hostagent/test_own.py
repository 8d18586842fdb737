"""A protocol in a file of a user: how it is called, what is refused, and what is said when it raises an exception."""

import pickle

import pytest

from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from hostagent.runtime.failures import CoreFailed, ProtocolError
from tests.hostagent.own_protocol import FLOOD, RAISES, broken
from tests.hostagent.world import World


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """What a test loads is unknown to the next one."""
    monkeypatch.setattr(own, "PROTOCOLS", dict(PROTOCOLS))
    monkeypatch.setattr(own, "LOADED", {})


@pytest.fixture
def load(tmp_path):
    """Write a text into a file and load it as a protocol."""

    def write_and_load(text, name="flood.py"):
        (tmp_path / name).write_text(text)
        return own.PROTOCOLS[own.find(str(tmp_path / name))]

    return write_and_load


def test_a_protocol_is_called_as_its_file_and_has_no_number_of_castbed(load):
    core = load(FLOOD, "my-flood_2.py")
    assert core.name == "my-flood_2"
    assert core.number not in {known.number for known in PROTOCOLS.values()}
    world = World(core, 4)
    world.broadcast("h1")
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [1] * 4


def test_a_name_is_left_as_it_is():
    assert own.find("basic") == "basic"
    assert own.LOADED == {}


def test_a_file_that_has_changed_is_loaded_again(load):
    load(FLOOD)
    assert load(FLOOD.replace("times: int = 1", "times: int = 7")).Parameters().times == 7


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (FLOOD, "basic.py", "Castbed has a protocol basic already, so rename the file"),
        (FLOOD, "my.flood.py", "rename the file, so that its name has only letters, digits, _ and -"),
        ("", "flood.py", "must have exactly one subclass of Core, and has 0: none"),
        (FLOOD + "\nclass Second(Flood): pass\n", "flood.py", "and has 2: Flood, Second"),
        ("x =", "flood.py", r"flood.py cannot be loaded at .*flood.py:1: SyntaxError: invalid syntax"),
        ("def f():\n    1 / 0\n\nf()", "flood.py", r"cannot be loaded at .*flood.py:2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)", "flood.py", r"cannot be loaded at .*flood.py:2: SystemExit: 0"),
        ("import helper_of_mine", "flood.py", "No module named 'helper_of_mine': a protocol is one file"),
        (FLOOD.replace("def promise", "def promises"), "flood.py", "Flood lacks promise"),
        (FLOOD.replace("messages = (Copy,)", "messages = [Copy]"), "flood.py", "Flood must have messages, a tuple"),
        (FLOOD.replace("retained=hosts", "retained=half"), "flood.py", r"promise .* cannot be made at .*flood.py:29: NameError"),
        (FLOOD.replace("return Promise(", "return dict("), "flood.py", "must return a Promise, and returns a dict"),
    ],
)
def test_what_cannot_be_a_protocol_is_refused_in_a_sentence(load, text, name, sentence):
    with pytest.raises(ProtocolError, match=sentence):
        load(text, name)
    assert own.PROTOCOLS == PROTOCOLS


def test_a_file_that_is_not_there_is_refused_in_a_sentence():
    with pytest.raises(ProtocolError, match=r"protocol nowhere/flood.py cannot be read: No such file"):
        own.find("nowhere/flood.py")


def test_an_exception_names_file_line_host_and_event(load):
    world = World(load(RAISES), 3)
    world.broadcast("h1")
    world.settle()
    world.broadcast("h1")
    with pytest.raises(CoreFailed) as caught:
        world.settle()
    failure = caught.value.failure
    assert failure.place.file.endswith("flood.py")
    assert (failure.place.line, failure.place.text) == (36, "self.seen[sender] = 1")
    assert (failure.host, failure.event, failure.is_users) == ("h3", "when Copy h1:2 arrived from h1", True)
    assert "AttributeError: 'Flood' object has no attribute 'seen'" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_line_is_the_users_also_when_castbed_raises(load):
    """Here the codec refuses a message that is too long for a datagram."""
    world = World(load(FLOOD.replace("sequence, payload))", "sequence, payload * 100))")), 3)
    with pytest.raises(CoreFailed) as caught:
        world.broadcast("h1", b"payload of some length")
    assert (caught.value.failure.place.line, caught.value.failure.place.function) == (42, "_pass_on")
    assert "exceeds 1472" in str(caught.value)


def test_a_message_of_no_kind_of_the_protocol_is_told_in_a_sentence(load):
    world = World(load(FLOOD.replace("messages = (Copy,)", "")), 3)
    with pytest.raises(CoreFailed, match="Copy is not one of the messages of the protocol: name it in its core"):
        world.broadcast("h1")


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (FLOOD.replace("self.delivery = ", "self.delivery = nothing or "), "when its first life began"),
        (FLOOD + "    def on_start(self, stored):\n        raise ValueError\n", "when its first life began"),
        (
            FLOOD + "    def on_start(self, stored):\n        self.env.set_timer('tick', 1)\n",
            "when the timer 'tick' of its core expired",
        ),
        (FLOOD.replace("self._pass_on(Copy(", "self.pass_on(Copy("), "when the application broadcast h1:1"),
        (broken("import sys; sys.exit(0)"), "when Copy h1:1 arrived from h1"),
    ],
)
def test_an_exception_is_told_with_what_happened(load, text, event):
    def play():
        world = World(load(text), 2)
        world.broadcast("h1")
        world.settle()
        world.expire()

    with pytest.raises(CoreFailed) as caught:
        play()
    assert caught.value.failure.event == event
