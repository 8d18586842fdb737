"""SPO, procedure by procedure: acceptance, the two kinds of acknowledgement, the transmission condition, both loss conditions."""

from contextlib import nullcontext
from random import Random

import pytest

from hostagent.contract.messages import Purpose, host_set
from hostagent.contract.wire import Codec
from hostagent.protocols.spo.messages import MOST_HOSTS, Pdu, Request, Status
from hostagent.protocols.spo.protocol import Spo, SpoParameters
from scenarios.scenario import LARGEST_MESSAGE
from tests.hostagent.world import World

GROUPS = {1: ("h1", "h2"), 2: ("h2", "h3", "h4")}


def quiet(world, most=200):
    """Hand over everything and let timers expire until none is left."""
    world.settle()
    for _ in range(most):
        if not world.timers():
            return
        world.expire()
        world.settle()
    raise AssertionError("there is no end")


def sent(world, kind=Pdu, purpose=None):
    return [packet for packet in world.sent if isinstance(packet.message, kind) and purpose in {None, packet.purpose}]


def traced(world, host, event):
    return [details for name, details in world[host].traced if name == event]


def receipts(world, host):
    return world[host].core._receipts


@pytest.mark.parametrize(("multicasts", "copies"), [(False, 3), (True, 1)], ids=["unicast", "multicast"])
def test_a_pdu_is_one_datagram_to_every_entity_or_one_to_all_and_its_destinations_deliver_it(multicasts, copies):
    world = World(Spo, 4, multicasts=multicasts)
    world.broadcast("h1")
    quiet(world)
    assert len(sent(world, purpose=Purpose.DATA)) == copies
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)]] * 4
    assert not sent(world, Status) + sent(world, Request)


@pytest.mark.parametrize("to", [("h2",), ("h1", "h3"), ("h2", "h3"), ("h1", "h2", "h3", "h4")])
def test_all_destinations_and_only_they_deliver_at_the_stated_cost(to):
    world = World(Spo, 4, multicasts=True)
    world.broadcast("h1", to=to)
    quiet(world)
    assert {host for host in world.hosts if world.delivered(host)} == {*to}
    assert len(sent(world)) <= 2 * len(to) + (0 if "h1" in to else 2)
    assert {packet.sender for packet in sent(world)} <= {"h1", *to}


def test_a_message_is_accepted_then_pre_acknowledged_then_acknowledged():
    """Section 3: h2 delivers when it knows that all destinations know that all destinations have the message."""
    world = World(Spo, 3, multicasts=True)
    world.broadcast("h1")
    world.settle()
    log = receipts(world, "h2").logs[0]
    assert (len(log.accepted), world.delivered("h2")) == (1, [])
    world.expire()
    world.settle()
    while not traced(world, "h2", "pre-acknowledged"):
        world.expire()
        world.settle()
    quiet(world)
    assert world.delivered("h2") == [("h1", 1)]
    assert not log.accepted
    assert not log.pre_acknowledged


def test_acknowledgements_ride_on_data():
    """Every entity sends once: the second round of data acknowledges the first, and no entity answers with empty PDUs in between."""
    world = World(Spo, 3, multicasts=True)
    for _ in range(3):
        for host in world.hosts:
            world.broadcast(host)
            world.settle()
    assert not sent(world, purpose=Purpose.CONTROL)
    assert [len(world.delivered(host)) for host in world.hosts] >= [3, 3, 3]


def test_an_entity_that_is_no_destination_keeps_nothing_and_follows_the_numbers():
    world = World(Spo, 3)
    world.broadcast("h1", to=("h2",))
    world.settle()
    log = receipts(world, "h3").logs[0]
    assert (log.treq, log.preq, list(log.accepted)) == (2, 1, [])


def test_lc1_a_gap_in_the_partial_numbers_is_asked_for_at_once_and_only_that_is_sent_again():
    world = World(Spo, 3)
    world.broadcast("h1")
    world.lose(to="h2")
    world.broadcast("h1")
    world.settle()
    (request,) = sent(world, Request)
    assert (request.sender, request.to, request.message.first, request.message.last) == ("h2", "h1", 1, 1)
    (again,) = sent(world, purpose=Purpose.REPAIR)
    assert (again.to, again.message.sequence) == ("h2", 1)
    quiet(world)
    assert [sequence for _, sequence in world.delivered("h2")] == [1, 2]


def test_what_was_asked_for_is_not_awaited_any_longer_when_it_is_here():
    """Otherwise the next loss would be asked for again only when the timer of the first one expires."""
    world = World(Spo, 3)
    for _ in range(2):
        world.broadcast("h1")
        world.lose(to="h2")
        world.broadcast("h1")
        while not sent(world, Request):
            world.hand_over()
        assert [name for name in world["h2"].timers if "ask/" in name] == ["core.losses/ask/0"]
        world.settle()
        assert not [name for name in world["h2"].timers if "ask/" in name]
        world.sent.clear()


def test_requests_for_the_same_pdu_wait_longer_and_longer_and_for_another_one_they_do_not():
    world = World(Spo, 2)
    world.broadcast("h1")
    world.lose()
    world.broadcast("h1")
    world.hand_over()
    waits = []
    for _ in range(3):
        world.lose(to="h1")
        waits.append(world["h2"].timers["core.losses/ask/0"] - world.now_s)
        while len(sent(world, Request)) == len(waits):
            world.expire()
            world.lose(to="h2")
    assert waits == pytest.approx([0.05, 0.1, 0.2])
    world.settle()
    world.broadcast("h1")
    world.lose()
    world.broadcast("h1")
    world.hand_over()
    assert world["h2"].timers["core.losses/ask/0"] - world.now_s < 0.1


def learns_of_a_pdu_from_another(to, **parameters):
    """h3 misses a PDU of h1 to some entities, and then accepts or holds back one of h2 that acknowledges it."""
    world = World(Spo, 3, **parameters)
    world.broadcast("h1", to=to)
    world.lose(to="h3")
    world.settle()
    world.broadcast("h2", to=("h2", "h3"))
    world.settle()
    return world


def test_lc2_an_entity_waits_for_the_next_pdu_of_the_sender_which_shows_that_nothing_was_for_it():
    world = learns_of_a_pdu_from_another(("h2",))
    assert receipts(world, "h3").logs[1].early
    assert not sent(world, Request)
    world.broadcast("h1", to=("h3",))
    world.settle()
    assert not receipts(world, "h3").logs[1].early
    assert not sent(world, Request)


def test_lc2_the_next_pdu_shows_that_the_lost_one_was_for_the_entity():
    world = learns_of_a_pdu_from_another(("h2", "h3"))
    world.broadcast("h1", to=("h3",))
    world.settle()
    assert [(request.sender, request.message.first, request.message.last) for request in sent(world, Request)] == [("h3", 1, 1)]


@pytest.mark.parametrize(("to", "repairs"), [(("h2",), 0), (("h2", "h3"), 1)])
def test_lc2_asking_at_once_is_for_nothing_where_the_lost_pdu_is_for_others(to, repairs):
    world = learns_of_a_pdu_from_another(to, lc2="at-once")
    assert [(request.message.first, request.message.last) for request in sent(world, Request)] == [(1, 0)]
    assert len(sent(world, purpose=Purpose.REPAIR)) == repairs
    assert not receipts(world, "h3").logs[1].early


def test_lc2_when_no_pdu_comes_the_entity_asks_after_a_while():
    world = learns_of_a_pdu_from_another(("h2",))
    quiet(world)
    assert world.delivered("h3") == [("h2", 1)]


def test_entities_that_lack_what_is_not_for_them_do_not_wait_for_each_other():
    """h4 lacks p of h1, which is not for it; q of h2 acknowledges p, and r of h1 acknowledges q. All three must be got past."""
    world = World(Spo, 4, multicasts=True)
    world.broadcast("h1", to=("h2", "h3"))
    world.lose(to="h4")
    world.settle()
    world.broadcast("h2")
    world.settle()
    assert receipts(world, "h4").logs[1].early
    world.broadcast("h1")
    world.settle()
    assert not any(log.early for log in receipts(world, "h4").logs)
    assert not sent(world, Request)


@pytest.mark.parametrize("kind", [Pdu, Status, Request])
def test_the_loss_of_any_last_datagram_is_repaired(kind):
    for lost in range(30):
        world = World(Spo, 3)
        world.broadcast("h1")
        world.lose(to="h3", kind=Pdu)
        for step in range(60):
            if step == lost:
                world.lose(kind=kind)
            if world.in_flight:
                world.hand_over()
            elif world.timers():
                world.expire()
        quiet(world)
        assert world.lacking() == {}, lost


def test_the_transmission_condition_keeps_messages_at_their_source_until_all_destinations_have_the_earlier_ones():
    """min(W, minBUF) / (H n^2) = 18 / 9: two PDUs on their way."""
    world = World(Spo, 3, window=18)
    for _ in range(5):
        world.broadcast("h1")
    assert len(sent(world, purpose=Purpose.DATA)) == 2 * 2
    assert sorted(key for key in world["h1"].stored if "waiting" in key) == ["waiting/3", "waiting/4", "waiting/5"]
    quiet(world)
    assert world.lacking() == {}


@pytest.mark.parametrize(("limit", "why"), [("window", "waits-for-window"), ("buffers", "waits-for-buffers")])
def test_the_log_says_for_what_a_message_waits(limit, why):
    world = World(Spo, 3, **{limit: 9})
    world.broadcast("h1")
    world.broadcast("h1")
    assert [name for name, _ in world["h1"].traced if name.startswith("waits")] == [why]


def test_the_smallest_buffer_of_all_entities_counts():
    world = World(Spo, 3, buffers=18)
    world.broadcast("h1", to=("h2",))
    world.settle()
    core, log = world["h1"].core, receipts(world, "h1")
    assert core._may_send(log.fullest[0])
    log._free[1] = 8
    assert log.fullest == (8, 1)
    assert not core._may_send(8)
    assert core._may_send()


def test_a_window_of_one_pdu_is_enough():
    world = World(Spo, 4, window=16, buffers=16)
    for _ in range(3):
        for host in world.hosts:
            world.broadcast(host)
    quiet(world, 2000)
    assert world.lacking() == {}


def test_no_buffer_is_given_to_what_cannot_be_accepted_yet_when_there_are_none_left():
    world = World(Spo, 2, buffers=16)
    receipts(world, "h2").held = 16
    world.broadcast("h1")
    world.lose()
    world.broadcast("h1")
    world.settle()
    assert "buffers-full" in [name for name, _ in world["h2"].traced]
    receipts(world, "h2").held = 0
    quiet(world)
    assert world.lacking() == {}


def test_messages_to_groups_reach_their_members_in_the_order_of_each_sender():
    world = World(Spo, 4, groups=GROUPS)
    for to in (1, 2, 1, 2):
        world.broadcast("h2", to=to)
    quiet(world)
    assert world.delivered("h1") == [("h2", 1), ("h2", 3)]
    assert world.delivered("h3") == world.delivered("h4") == [("h2", 2), ("h2", 4)]
    assert world.delivered("h2") == [("h2", number) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_doubled_or_misplaced_whatever_the_network_does(seed):
    world = World(Spo, 3, seed=seed, multicasts=bool(seed % 2))
    world.suffer(Random(seed), most_sent=400)
    quiet(world, 2000)
    assert world.lacking() == {}
    for host in world.hosts:
        for origin in world.hosts:
            numbers = [sequence for sender, sequence in world.delivered(host) if sender == origin]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"window": 8}, "with 3 hosts and h=1 nobody could ever send"),
        ({"buffers": 8}, "both must be at least 9"),
        ({"h": 1000}, "both must be at least 9000"),
    ],
)
def test_parameters_with_which_nobody_could_ever_send_are_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        Spo.check(SpoParameters(**parameters), ("h1", "h2", "h3"))


@pytest.mark.parametrize(("size", "fits"), [(MOST_HOSTS, True), (MOST_HOSTS + 1, False)])
def test_the_numbers_of_as_many_entities_as_are_allowed_fit_into_a_datagram_with_the_longest_message(size, fits):
    hosts = tuple(f"h{n}" for n in range(size))
    most, payload = (1 << 32) - 1, bytes(LARGEST_MESSAGE)
    pdu = Pdu(0, "h0", most, most, host_set(hosts, hosts), (most,) * size, (most,) * size, most, True, True, payload)
    encode = Codec(1, Spo.messages, 1, {host: number for number, host in enumerate(hosts)}).part
    with nullcontext() if fits else pytest.raises(ValueError, match=r"a Pdu message of .* bytes exceeds 1472"):
        encode(pdu, Purpose.DATA)
    with nullcontext() if fits else pytest.raises(ValueError, match=r"21 hosts are too many: .* the numbers of 20 fit"):
        Spo.check(SpoParameters(), hosts)
