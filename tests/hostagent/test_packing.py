"""Messages to the same host share a datagram: which, when, and what comes of it on the wire."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.contract.messages import Purpose
from hostagent.contract.wire import HEADER, LONGEST_BODY, LONGEST_DATAGRAM, PACK, ROOM_IN_PACK, Codec, Header, Refused, leading
from hostagent.parts.delivery import Copy
from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Ack, Basic
from hostagent.runtime.control import AtDoor, CrashWhen, Hush
from hostagent.runtime.packing import NS_PER_MS, Packer
from tests.hostagent.arbitrary import NUMBERS, RUN, messages, unhurried
from tests.hostagent.recording import Recorder

CODEC = Codec(Basic.number, Basic.messages, RUN, NUMBERS)
HOLD_MS = 25.0
HOLD_NS = round(HOLD_MS * NS_PER_MS)
SCRIPTED = (str(Path(__file__).parents[1] / "simulator" / "scripted.py"),)


def copy(sequence: int, payload: bytes = b"", purpose: Purpose = Purpose.DATA):
    return CODEC.part(Copy(0, "h1", sequence, payload), purpose)


def packed_bytes(parts) -> int:
    """What messages take in a pack, in this order."""
    return sum(part.bytes_after(before) for before, part in pairwise((None, *parts)))


def numbers(datagrams) -> list[tuple[str, list[int]]]:
    """To whom which messages leave, by their numbers."""
    return [(to, [part.message.sequence for part in parts]) for to, parts in datagrams]


def filled(packer: Packer, *sent: tuple[str, int]) -> Packer:
    for to, sequence in sent:
        packer.add(to, copy(sequence))
    return packer


# Which messages share a datagram, and when it leaves.


def test_off_every_message_is_a_datagram_of_its_own_in_the_order_of_sending():
    packer = filled(Packer(None), ("h2", 1), ("h900", 2), ("h2", 3))
    assert numbers(packer.take(0)) == [("h2", [1]), ("h900", [2]), ("h2", [3])]
    assert packer.take(0) == []


def test_without_a_wait_all_messages_to_a_host_leave_together_and_the_first_host_first():
    packer = filled(Packer(0.0), ("h2", 1), ("h900", 2), ("h2", 3))
    assert numbers(packer.take(0)) == [("h2", [1, 3]), ("h900", [2])]
    assert packer.due_ns is None
    assert numbers(filled(packer, ("h2", 4)).take(0)) == [("h2", [4])]


def test_what_does_not_fit_into_one_datagram_leaves_in_several():
    packer = Packer(0.0)
    for sequence in range(1, 8):
        packer.add("h2", copy(sequence, bytes(400)))
    packer.add("h900", copy(8))
    assert numbers(packer.take(0)) == [("h2", [1, 2, 3]), ("h2", [4, 5, 6]), ("h2", [7]), ("h900", [8])]


def test_a_pack_may_fill_a_frame_to_the_last_byte():
    packer, first = Packer(0.0), copy(1)
    payload = bytes(ROOM_IN_PACK - packed_bytes([first, copy(2, bytes(300))]) + 300)
    packer.add("h2", copy(1))
    packer.add("h2", copy(2, payload))
    ((_, parts),) = packer.take(0)
    assert len(CODEC.datagram(1, 1, parts, 0)) == LONGEST_DATAGRAM
    packer.add("h2", copy(1))
    packer.add("h2", copy(2, payload + b"."))
    assert len(packer.take(0)) == 2


def test_the_longest_message_leaves_alone():
    packer, longest = Packer(0.0), copy(2, bytes(LONGEST_BODY - 4))
    for part in (copy(1), longest, copy(3)):
        packer.add("h2", part)
    assert numbers(packer.take(0)) == [("h2", [1]), ("h2", [2]), ("h2", [3])]
    assert len(CODEC.datagram(1, 1, [longest], 0)) == LONGEST_DATAGRAM


def test_with_a_wait_the_first_message_leaves_at_once_and_the_next_together():
    packer = Packer(HOLD_MS)
    assert numbers(filled(packer, ("h2", 1)).take(0)) == [("h2", [1])]
    assert filled(packer, ("h2", 2)).take(1) == filled(packer, ("h2", 3)).take(2) == []
    assert packer.due_ns == HOLD_NS
    assert packer.take(HOLD_NS - 1) == []
    assert numbers(packer.take(HOLD_NS)) == [("h2", [2, 3])]
    assert packer.due_ns is None


def test_a_message_to_a_host_that_was_sent_nothing_of_late_does_not_wait():
    packer = Packer(HOLD_MS)
    for number in range(5):
        assert numbers(filled(packer, ("h2", number)).take(number * HOLD_NS)) == [("h2", [number])]
    assert numbers(filled(packer, ("h900", 9)).take(4 * HOLD_NS + 1)) == [("h900", [9])]


def test_a_full_datagram_does_not_wait_and_what_did_not_fit_waits_anew():
    packer = Packer(HOLD_MS)
    filled(packer, ("h2", 1)).take(0)
    for sequence in range(2, 6):
        packer.add("h2", copy(sequence, bytes(400)))
    assert numbers(packer.take(10)) == [("h2", [2, 3, 4])]
    assert packer.due_ns == 10 + HOLD_NS
    assert packer.take(HOLD_NS) == []
    assert numbers(packer.take(10 + HOLD_NS)) == [("h2", [5])]


def test_what_is_held_leaves_in_the_order_in_which_it_is_due():
    packer = Packer(HOLD_MS)
    filled(packer, ("h900", 1)).take(0)
    filled(packer, ("h2", 1)).take(5)
    filled(packer, ("h2", 2), ("h900", 2)).take(6)
    assert (packer.due_ns, numbers(packer.take(HOLD_NS))) == (HOLD_NS, [("h900", [2])])
    assert (packer.due_ns, numbers(packer.take(2 * HOLD_NS))) == (HOLD_NS + 5, [("h2", [2])])


@pytest.mark.parametrize("pack_ms", [None, 0.0, HOLD_MS])
def test_what_is_forgotten_never_leaves(pack_ms):
    packer = Packer(pack_ms)
    filled(packer, ("h2", 1)).take(0)
    filled(packer, ("h2", 2)).take(1)
    filled(packer, ("h2", 3)).clear()
    assert (packer.due_ns, packer.take(HOLD_NS)) == (None, [])
    assert numbers(filled(packer, ("h2", 4)).take(HOLD_NS)) == [("h2", [4])]


SENDING = st.lists(
    st.tuples(
        st.integers(0, 2 * HOLD_NS),
        st.lists(
            st.tuples(st.sampled_from(("h2", "h900")), st.integers(0, LONGEST_BODY - 4), st.sampled_from(Purpose)), max_size=6
        ),
    ),
    max_size=20,
)


class Played:
    """A host that wakes up when it has something to send and when something is due, and what leaves it."""

    def __init__(self, pack_ms):
        self.packer = Packer(pack_ms)
        self.now_ns = 0
        self.added: list[tuple[str, int, int]] = []
        self.left: list[tuple[int, str, list]] = []

    def wake_up(self, at_ns, sending=()):
        self.now_ns = at_ns
        for to, size, purpose in sending:
            self.added.append((to, len(self.added) + 1, at_ns))
            self.packer.add(to, copy(len(self.added), bytes(size), purpose))
        self.left += [(at_ns, to, parts) for to, parts in self.packer.take(at_ns)]

    def until(self, at_ns):
        while (due_ns := self.packer.due_ns) is not None and due_ns <= at_ns:
            assert due_ns > self.now_ns, "a host that has just let leave what is due has nothing due"
            self.wake_up(due_ns)


@pytest.mark.parametrize("pack_ms", [None, 0.0, HOLD_MS])
@unhurried
@given(SENDING)
def test_everything_leaves_once_in_order_in_time_and_never_longer_than_a_frame(pack_ms, sending):
    host, at_ns = Played(pack_ms), 0
    for after_ns, batch in sending:
        at_ns += after_ns
        host.until(at_ns)
        host.wake_up(at_ns, batch)
    host.until(at_ns + HOLD_NS)
    when = {part.message.sequence: left_ns for left_ns, _, parts in host.left for part in parts}
    for to in ("h2", "h900"):
        leaving = [part.message.sequence for _, where, parts in host.left if where == to for part in parts]
        assert leaving == [number for where, number, _ in host.added if where == to]
    hold_ns = round((pack_ms or 0.0) * NS_PER_MS)
    assert all(0 <= when[number] - added_ns <= hold_ns for _, number, added_ns in host.added)
    assert all(len(CODEC.datagram(1, 1, parts, 0)) <= LONGEST_DATAGRAM for _, _, parts in host.left)
    if pack_ms is None:
        assert all(len(parts) == 1 for _, _, parts in host.left)
    else:
        assert_seldom(host.left, hold_ns)


def assert_seldom(left, hold_ns) -> None:
    """Two datagrams to a host are as far apart as the wait, unless what leads the second did not fit into the first any more."""
    for to in ("h2", "h900"):
        mine = [(at_ns, parts) for at_ns, where, parts in left if where == to]
        for (one_ns, one), (two_ns, two) in pairwise(mine):
            full = packed_bytes((*one, two[0])) > ROOM_IN_PACK
            # The second may itself be full, and what did not fit into it follows.
            assert full or two_ns - one_ns >= hold_ns or is_full(two, mine), (one_ns, two_ns)


def is_full(parts, mine) -> bool:
    following = next((later for (_, before), (_, later) in pairwise(mine) if before is parts), None)
    return following is not None and packed_bytes((*parts, following[0])) > ROOM_IN_PACK


# What a pack is on the wire.


@pytest.mark.parametrize("core", PROTOCOLS.values(), ids=PROTOCOLS)
@unhurried
@given(st.data())
def test_a_pack_of_any_messages_comes_back(core, data):
    codec = Codec(core.number, core.messages, RUN, NUMBERS)
    kinds = data.draw(st.lists(st.sampled_from(core.messages), min_size=2, max_size=6))
    parts = [codec.part(data.draw(messages(kind)), data.draw(st.sampled_from(Purpose))) for kind in kinds]
    datagram = codec.datagram(2, 7, parts, 99)
    received = codec.decode(datagram)
    assert (received.sender, received.messages) == ("h2", tuple(part.message for part in parts))
    header, lead = Header.of(datagram), leading(parts)
    assert (header.kind, header.packet, header.sent_ns) == (PACK, 7, 99)
    assert (header.purpose, header.group, header.sequence) == (lead.purpose, lead.message.group, lead.message.sequence)
    assert header.origin == NUMBERS[lead.message.origin]


def test_a_pack_counts_for_the_first_of_its_most_important_messages():
    purposes = (Purpose.CONTROL, Purpose.REPAIR, Purpose.DATA, Purpose.DATA)
    parts = [copy(number, purpose=purpose) for number, purpose in enumerate(purposes, start=1)]
    header = Header.of(CODEC.datagram(1, 1, parts, 0))
    assert (header.purpose, header.sequence) == (Purpose.DATA, 3)


def test_the_body_of_a_pack_is_what_is_documented_and_as_long_as_was_reckoned():
    parts = [copy(6, b"hi"), CODEC.part(Ack(3, "h900", 70_000), Purpose.CONTROL)]
    datagram = CODEC.datagram(1, 1, parts, 0)
    assert msgspec.msgpack.decode(datagram[HEADER.size :]) == [[[b"hi"], 0, 0, 0, 1, 6], [[], 1, 2, 3, 900, 70_000]]
    assert LONGEST_DATAGRAM - len(datagram) == ROOM_IN_PACK - packed_bytes(parts)


def test_a_message_that_follows_the_one_before_it_is_its_fields_alone():
    parts = [
        copy(6, b"six"),
        copy(7, b"seven"),
        copy(9),
        copy(10, purpose=Purpose.REPAIR),
        CODEC.part(Ack(0, "h1", 11), Purpose.REPAIR),
    ]
    datagram = CODEC.datagram(1, 1, parts, 0)
    six, *others = msgspec.msgpack.decode(datagram[HEADER.size :])
    assert (six, [len(entry) for entry in others]) == ([[b"six"], 0, 0, 0, 1, 6], [1, 6, 6, 6])
    assert CODEC.decode(datagram).messages == tuple(part.message for part in parts)
    assert LONGEST_DATAGRAM - len(datagram) == ROOM_IN_PACK - packed_bytes(parts)


def test_a_datagram_holds_a_fifth_more_of_a_stream_of_short_messages():
    packer = Packer(0.0)
    for sequence in range(1, 41):
        packer.add("h2", copy(sequence, bytes(64)))
        packer.add("h900", copy(2 * sequence, bytes(64)))
    held = [(to, len(parts)) for to, parts in packer.take(0)]
    assert held == [("h2", 20), ("h2", 20), ("h900", 17), ("h900", 17), ("h900", 6)]


def test_a_message_alone_is_a_datagram_as_ever():
    part = copy(6, b"hi")
    assert CODEC.datagram(1, 2, [part], 3) == CODEC.encode(1, 2, part.message, Purpose.DATA, 3)
    assert CODEC.datagram(1, 2, [part], 3)[HEADER.size :] == b"\x91\xc4\x02hi"


GOOD = [[b"hi"], 0, 0, 5, 1, 6]
NEXT = [[b"ho"]]


def pack(*entries, header=(Purpose.DATA, 5, 1, 6), body=None) -> bytes:
    purpose, group, origin, sequence = header
    start = HEADER.pack(0xCB17, 1, Basic.number, PACK, purpose, RUN, 2, 1, group, origin, sequence, 0)
    return start + (msgspec.msgpack.encode(entries) if body is None else body)


def changed(place: int, value: object) -> list[object]:
    return [*GOOD[:place], value, *GOOD[place + 1 :]]


def test_numbers_may_be_written_as_short_as_they_are():
    assert [message.payload for message in CODEC.decode(pack(GOOD, GOOD)).messages] == [b"hi", b"hi"]


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        pytest.param(pack(), "malformed", id="nothing in it"),
        pytest.param(pack(GOOD), "malformed", id="one message, which should have travelled alone"),
        pytest.param(pack(GOOD, changed(1, PACK)), "malformed", id="a pack in a pack"),
        pytest.param(pack(GOOD, [[GOOD, GOOD], PACK, 0, 5, 1, 6]), "malformed", id="a whole pack in a pack"),
        pytest.param(pack(GOOD, changed(1, 2)), "unknown_kind", id="a kind that the protocol does not have"),
        pytest.param(pack(GOOD, changed(1, -1)), "malformed", id="a kind below zero"),
        pytest.param(pack(GOOD, changed(1, 256)), "malformed", id="a kind of more than a byte"),
        pytest.param(pack(GOOD, changed(2, 3)), "malformed", id="a purpose that there is not"),
        pytest.param(pack(GOOD, changed(3, 1 << 16)), "malformed", id="a group too large"),
        pytest.param(pack(GOOD, changed(4, 3)), "unknown_host", id="an origin that there is not"),
        pytest.param(pack(GOOD, changed(5, 1 << 32)), "malformed", id="a sequence number too large"),
        pytest.param(pack(GOOD, changed(5, "6")), "malformed", id="text for a number"),
        pytest.param(pack(GOOD, changed(0, [])), "malformed", id="a field missing"),
        pytest.param(pack(GOOD, changed(0, [b"hi", 1, 1])), "malformed", id="a field too many"),
        pytest.param(pack(GOOD, changed(0, b"hi")), "malformed", id="no list of fields"),
        pytest.param(pack(GOOD, []), "malformed", id="no fields"),
        pytest.param(pack(GOOD, GOOD[:5]), "malformed", id="some numbers, and some that follow"),
        pytest.param(pack(NEXT, GOOD), "malformed", id="a first message that follows"),
        pytest.param(
            pack(changed(5, (1 << 32) - 1), NEXT, header=(0, 5, 1, (1 << 32) - 1)), "malformed", id="beyond the last number"
        ),
        pytest.param(pack(GOOD, [[]]), "malformed", id="a message that follows and lacks a field"),
        pytest.param(pack(GOOD, [*GOOD, 1]), "malformed", id="more than there should be"),
        pytest.param(pack(GOOD, GOOD, header=(Purpose.REPAIR, 5, 1, 6)), "malformed", id="a header that lies about the purpose"),
        pytest.param(pack(GOOD, GOOD, header=(Purpose.DATA, 5, 1, 7)), "malformed", id="a header that lies about the message"),
        pytest.param(pack(GOOD, GOOD, header=(Purpose.DATA, 5, 3, 6)), "unknown_host", id="a header with an unknown origin"),
        pytest.param(pack(GOOD, GOOD) + b"\x00", "malformed", id="a byte behind the end"),
        pytest.param(pack(GOOD, GOOD)[:-1], "malformed", id="cut off"),
        pytest.param(pack(body=b"\xdd\xff\xff\xff\xff"), "malformed", id="4 billion messages announced"),
        pytest.param(pack(body=b"\x92" * LONGEST_BODY), "malformed", id="nested as deep as a datagram allows"),
        pytest.param(pack(body=b"\x92\x96" + b"\x91" * 1400), "malformed", id="fields nested deep"),
        pytest.param(pack(*[GOOD] * 300), "oversized", id="too much"),
    ],
)
def test_a_hostile_pack_is_refused_as_a_whole(datagram, reason):
    with pytest.raises(Refused) as refused:
        CODEC.decode(datagram)
    assert refused.value.reason == reason


@unhurried
@given(st.data())
def test_a_damaged_pack_is_decoded_or_refused(data):
    datagram = bytearray(CODEC.datagram(1, 1, [copy(1, b"one"), copy(2, b"two", Purpose.REPAIR)], 0))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(HEADER.size, len(datagram)))
        datagram[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    try:
        received = CODEC.decode(bytes(datagram))
    except Refused:
        return
    assert len(received.messages) >= 2


# What agents do with it.


@pytest.fixture
def scripted(launch):
    def start(pack_ms):
        agents = launch("scripted", SCRIPTED, pack_ms=pack_ms)
        agents.start("h1", "h2")
        return agents

    return start


def received(agents, host):
    return [event.details["sequence"] for event in agents.events(host, "message")]


def at_door(agents, *faults):
    """Let faults wait at the door of h2, and come back when they do."""
    for fault in faults:
        agents.ask("h2", fault)
    agents.broadcast("h2", b"trace waiting")
    agents.until(lambda: agents.events("h2", "waiting"))


def counted(agents, host, *names):
    return tuple(agents.counters(host)[name] for name in names)


def until_counted(agents, host, **counts):
    """Wait for counts: an agent counts a datagram when it has sent it, and the other host may hear of it before."""
    agents.until(lambda: counted(agents, host, *counts) == tuple(counts.values()))


@pytest.mark.root
@pytest.mark.parametrize(("pack_ms", "datagrams"), [(None, 3), (0.0, 1)])
def test_what_an_agent_sends_in_one_wake_up_is_one_datagram_and_so_are_the_answers(scripted, pack_ms, datagrams):
    agents = scripted(pack_ms)
    agents.broadcast("h1", b"send h2 answer\nsend h2 answer\nsend h2 answer")
    agents.until(lambda: len(received(agents, "h1")) == 3)
    # A stalled agent may have taken several datagrams in one wake-up, and answered them together, unless that is off.
    until_counted(agents, "h1", sent=datagrams, sent_data=datagrams, messages=3, received=datagrams)
    until_counted(agents, "h2", received=datagrams, messages=3, sent=datagrams)


@pytest.mark.root
def test_an_agent_holds_what_follows_too_soon_and_a_hushed_one_forgets_it(scripted):
    """With a wait of an hour only what need not wait arrives: the first, and what fills a datagram."""
    agents = scripted(3_600_000.0)
    for number in range(1, 4):
        agents.broadcast("h1", b"send h2")
        # One at a time: requests that come together are taken together.
        agents.until(lambda number=number: len(agents.events("h1", "broadcast")) == number)
    agents.until(lambda: received(agents, "h2") == [1])
    until_counted(agents, "h1", sent=1, messages=1)
    agents.broadcast("h1", b"\n".join([b"send h2 " + b"x" * 200] * 18))
    until_counted(agents, "h1", sent=3)
    agents.until(lambda: len(received(agents, "h2")) == counted(agents, "h1", "messages")[0])
    assert received(agents, "h2")[:3] == [1, 2, 3]
    agents.ask("h1", Hush(held_back=1))
    agents.until(lambda: agents.events("h1", "held-back"))
    assert counted(agents, "h1", "sent") == (3,)


@pytest.mark.root
def test_a_stream_with_a_wait_arrives_whole_and_in_order_in_few_datagrams(launch):
    agents = launch("best-effort", pack_ms=100.0, links="none")
    agents.start("h1", "h2")
    for _ in range(100):
        agents.broadcast("h1")
    agents.until(lambda: len(agents.delivered("h2")) == 100)
    assert agents.delivered("h2") == [("h1", number) for number in range(1, 101)]
    # The copies for h3, where nobody listens, may leave after those for h2.
    until_counted(agents, "h1", messages=200)
    sent, data = counted(agents, "h1", "sent", "sent_data")
    assert data == sent <= 100


@pytest.mark.root
@pytest.mark.parametrize(("copies", "heard"), [(0, [1, 1]), (2, [1, 1, 1, 1])])
def test_a_fault_at_the_door_finds_its_message_in_a_pack_which_is_received_all_the_same(scripted, copies, heard):
    agents = scripted(0.0)
    at_door(agents, AtDoor("Copy", 2, copies))
    agents.broadcast("h1", b"send h2\nsend h2\nsend h2")
    agents.until(lambda: received(agents, "h2") == heard)
    agents.until(lambda: agents.counters("h2") == {"received": 1, "broadcast": 1})


@pytest.mark.root
def test_a_pack_that_faults_leave_empty_is_received_and_a_datagram_without_its_only_message_is_refused(scripted):
    agents = scripted(0.0)
    at_door(agents, *(AtDoor("Copy", nth, 0) for nth in (1, 2, 3)))
    agents.broadcast("h1", b"send h2\nsend h2")
    agents.until(lambda: agents.counters("h2") == {"received": 1, "broadcast": 1})
    agents.broadcast("h1", b"send h2")
    agents.until(lambda: agents.counters("h2") == {"received": 1, "refused_injected": 1, "broadcast": 1})
    assert not received(agents, "h2")


@pytest.mark.root
def test_an_agent_that_dies_at_a_message_dies_after_the_pack_that_carries_it(scripted):
    agents = scripted(0.0)
    agents.kill("h1")
    agents.start("h1", incarnation=2, crashes=(CrashWhen("send", nth=2),))
    agents.broadcast("h1", b"send h2\nsend h2\nsend h2\nsend h3")
    assert agents.report("died", "h1") == "-9"
    assert counted(agents, "h1", "sent", "messages") == (1, 3)
    agents.until(lambda: received(agents, "h2") == [1, 1, 1])


@pytest.mark.root
def test_an_agent_takes_packs_from_strangers_whole_or_not_at_all(launch, stranger):
    agents, sender = launch("recorder", (str(Path(__file__).with_name("recording.py")),)), stranger(Recorder.number)
    agents.start("h1")
    parts = [sender.codec.part(Copy(0, "h3", number, b""), Purpose.DATA) for number in (1, 2, 3)]
    good = sender.codec.datagram(3, 1, parts, 0)
    sender.send("h1", good[:-1])
    sender.send("h1", good)
    agents.until(lambda: received(agents, "h1") == [1, 2, 3])
    agents.until(lambda: agents.counters("h1") == Counter(refused_malformed=1, received=1))
