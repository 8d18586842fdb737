"""The propagation graph when hosts fail: a new graph by majority, one order, recovery (third paper, Protocol 5 and section 7.3)."""

from itertools import combinations
from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.protocols.propagation_graph.forming import PIECE_BYTES
from hostagent.protocols.propagation_graph.items import Alive, Begin, Has, Mark, Pass, PlanPiece, Refusal, ReportPiece, Stop
from hostagent.protocols.propagation_graph.parameters import PropagationGraphParameters
from hostagent.protocols.propagation_graph.protocol import PropagationGraph
from tests.hostagent.world import World

# Figure 7.1, with h1 for a and so on: h1 passes on to h2 and h3, and h3 to h4 and h5.
FIGURE_7_1 = {1: ("h1", "h2", "h3", "h4", "h5"), 2: ("h3", "h4", "h5"), 3: ("h1", "h2")}
BOTH = pytest.mark.parametrize("recover", ["new-member", "rollback"])


def make(size=5, groups=None, recover="new-member", **more):
    return World(PropagationGraph, size, groups=groups or {}, failures="non-atomic", recover=recover, **more)


def crash(world, host):
    world[host].carry_out()
    world[host].life = None
    world[host]._timers.clear()


def settle(world, cut=lambda *_: False):
    while world.in_flight:
        packet = world.in_flight[0]
        if world[packet.to].life is None or cut(packet.sender, packet.to):
            world.in_flight.pop(0)
        else:
            world.hand_over()


def go_on(world, seconds=5.0, cut=lambda *_: False):
    """Let time pass; nothing gets through where `cut` says so."""
    until = world.now_s + seconds
    settle(world, cut)
    while min(at for host in world.hosts for at in world[host].timers.values()) <= until:
        world.expire()
        settle(world, cut)
    world.now_s = until


def between(one, other):
    return lambda sender, to: (sender in one and to in other) or (sender in other and to in one)


def traced(world, host, event):
    return [details for name, details in world[host].traced if name == event]


def survivor(world, host):
    return world[host].core.survivor


def standing(world, host):
    """What stands at a host: deliveries without those that were taken back."""
    return list(world.__dict__.get("logs", {}).get(host, {}))


@pytest.fixture(autouse=True)
def logs(monkeypatch):
    """Note what stands at every host, and what was taken back."""

    def log(world, host, event):
        mine = world.__dict__.setdefault("logs", {}).setdefault(host, {})
        if event.event == "deliver":
            assert (event.origin, event.sequence) not in mine, "delivered twice"
            mine[event.origin, event.sequence] = None
        elif event.event == "take-back":
            del mine[event.origin, event.sequence]
            world.__dict__.setdefault("taken_back", []).append((host, event.origin, event.sequence))

    monkeypatch.setattr(World, "log", log)


@pytest.mark.parametrize("group", FIGURE_7_1)
def test_while_nobody_fails_a_message_takes_as_many_packets_as_with_atomic_delivery(group):
    """Section 7.1.1: during failure-free operation no additional messages have to be sent with a message."""
    packets = []
    for failures in ("atomic", "non-atomic"):
        world = World(PropagationGraph, 6, groups=FIGURE_7_1, failures=failures)
        world.broadcast("h6", to=group)
        world.settle()
        packets.append(len([packet for packet in world.sent if packet.purpose is Purpose.DATA]))
    assert packets[0] == packets[1]


@BOTH
def test_when_an_inner_host_fails_those_below_it_get_the_messages_by_another_way(recover):
    world = make(groups=FIGURE_7_1, recover=recover)
    crash(world, "h3")
    world.broadcast("h1", to=1)
    settle(world)
    assert not standing(world, "h4")
    go_on(world)
    assert [standing(world, host) for host in ("h1", "h2", "h4", "h5")] == [[("h1", 1)]] * 4
    assert survivor(world, "h1").members == ("h1", "h2", "h4", "h5")


def test_what_only_the_failed_host_delivered_comes_again_from_its_source_after_what_the_others_have():
    """Figures 7.1 to 7.4: c delivers a message to beta and one to alpha, and dies; d and e deliver that to alpha first."""
    world = make(groups=FIGURE_7_1)
    world.broadcast("h4", to=2)
    while not standing(world, "h3"):
        world.hand_over()
    world.lose(kind=Pass)
    world.broadcast("h1", to=1)
    while len(standing(world, "h3")) < 2:
        world.in_flight = [packet for packet in world.in_flight if packet.to in {"h2", "h3"}]
        world.hand_over()
    crash(world, "h3")
    go_on(world)
    assert standing(world, "h3") == [("h4", 1), ("h1", 1)]
    assert standing(world, "h4") == standing(world, "h5") == [("h1", 1), ("h4", 1)]


@BOTH
def test_a_successor_takes_over_from_a_manager_that_fails(recover):
    """Section 7.1.1, a hierarchy of managers."""
    world = make(recover=recover)
    for host in ("h1", "h2"):
        crash(world, host)
    world.broadcast("h4")
    go_on(world)
    assert traced(world, "h3", "successor")
    assert [standing(world, host) for host in ("h3", "h4", "h5")] == [[("h4", 1)]] * 3


def test_the_manager_that_the_parameters_name_is_the_first():
    world = make(manager="h4")
    crash(world, "h1")
    go_on(world)
    assert traced(world, "h4", "formed")
    assert not traced(world, "h2", "formed")


@BOTH
def test_no_graph_is_formed_without_a_majority_and_the_rest_of_a_tree_stops(recover):
    """Section 7.3: every tree periodically checks that it still contains a majority."""
    world = make(recover=recover)
    for host in ("h3", "h4", "h5"):
        crash(world, host)
    go_on(world)
    assert not survivor(world, "h1").is_open
    assert not survivor(world, "h2").is_open
    world.broadcast("h1")
    go_on(world)
    assert not any(traced(world, host, "formed") for host in world.hosts)
    assert not standing(world, "h1")
    world.restart("h3")
    go_on(world)
    assert standing(world, "h1") == standing(world, "h2") == standing(world, "h3") == [("h1", 1)]


@BOTH
def test_a_host_that_was_left_out_while_it_ran_stops_as_soon_as_it_hears_of_it(recover):
    """Section 7.3: when the "down" site again establishes communication with the others, it is told that it is dead."""
    world = make(recover=recover)
    # h5 still hears the others for a while, so it does not know that it has lost the majority.
    go_on(world, 1.0)
    go_on(world, 3.0, cut=lambda sender, to: sender == "h5" or isinstance_begin(world, to))
    assert "h5" not in survivor(world, "h1").members
    assert traced(world, "h5", "left-out") or traced(world, "h5", "alone")
    assert not survivor(world, "h5").is_open


def isinstance_begin(world, to):
    return to == "h5" and not isinstance(world.in_flight[0].message, Alive)


def divided(recover):
    """h1 and h2 are cut off and deliver a message of h1; the others deliver one of h5, form a graph, and the network is whole again."""
    world = make(recover=recover)
    apart = between(("h1", "h2"), ("h3", "h4", "h5"))
    world.broadcast("h1")
    settle(world, apart)
    assert standing(world, "h2") == [("h1", 1)]
    go_on(world, 4.0, apart)
    world.broadcast("h5")
    go_on(world, 1.0, apart)
    assert standing(world, "h3") == [("h5", 1)]
    go_on(world, 6.0)
    return world


def test_hosts_that_start_over_keep_what_they_delivered_and_give_up_what_they_missed():
    world = divided("new-member")
    for host in ("h3", "h4", "h5"):
        assert standing(world, host) == [("h5", 1), ("h1", 1)]
    assert standing(world, "h1") == standing(world, "h2") == [("h1", 1)]
    assert "taken_back" not in world.__dict__
    assert traced(world, "h1", "failed")
    assert traced(world, "h1", "recovered")
    world.broadcast("h4")
    go_on(world, 1.0)
    assert all(standing(world, host)[-1] == ("h4", 1) for host in world.hosts)


def test_hosts_with_rollback_take_back_the_tail_and_deliver_again_in_the_order_of_the_others():
    """Section 7.3, R3."""
    world = divided("rollback")
    assert all(standing(world, host) == [("h5", 1), ("h1", 1)] for host in world.hosts)
    assert sorted(world.taken_back) == [("h1", "h1", 1), ("h2", "h1", 1)]


def test_a_host_with_rollback_gets_all_that_was_sent_while_it_was_down():
    world = make(recover="rollback")
    crash(world, "h5")
    go_on(world)
    for _ in range(3):
        world.broadcast("h2")
    go_on(world, 1.0)
    world.restart("h5")
    go_on(world)
    assert standing(world, "h5") == standing(world, "h1") == [("h2", 1), ("h2", 2), ("h2", 3)]
    assert not hasattr(world, "taken_back")


@BOTH
def test_a_source_that_was_left_out_sends_its_messages_when_it_is_back(recover):
    """Section 7.3, failed sources."""
    world = make(recover=recover)
    apart = between(("h1",), ("h2", "h3", "h4", "h5"))
    go_on(world, 4.0, apart)
    world.broadcast("h1")
    world.broadcast("h1")
    go_on(world)
    assert all(standing(world, host) == [("h1", 1), ("h1", 2)] for host in world.hosts)


def test_a_plan_that_a_majority_accepted_stands_though_nobody_was_told_to_begin():
    """The manager dies before anybody hears that the graph has begun: its successor continues the plan, as it may have counted."""
    world = make()
    crash(world, "h5")
    world.broadcast("h1")
    settle(world)
    while not traced(world, "h1", "formed"):
        if world.in_flight:
            packet = world.in_flight[0]
            if world[packet.to].life is None or isinstance(packet.message, Begin):
                world.in_flight.pop(0)
            else:
                world.hand_over()
        else:
            world.expire()
    world.lose(kind=Begin)
    first = survivor(world, "h1").opened
    crash(world, "h1")
    world.restart("h5")
    go_on(world, 8.0)
    assert survivor(world, "h2").opened > first
    assert traced(world, "h5", "failed"), "h5 was not in the plan that counted"
    assert not traced(world, "h3", "failed")


def test_a_host_that_has_promised_a_higher_graph_refuses_a_lower_one():
    world = make()
    world["h3"].core.on_message("h1", Stop(0, "h1", 10), expensive=False)
    world["h3"].core.on_message("h2", Stop(0, "h2", 6), expensive=False)
    answers = [packet for packet in world.sent if packet.sender == "h3" and packet.purpose is Purpose.CONTROL]
    assert isinstance(next(packet.message for packet in answers if packet.to == "h2"), Refusal)
    assert isinstance(next(packet.message for packet in answers if packet.to == "h1"), ReportPiece)
    assert not survivor(world, "h3").is_open


def test_two_managers_at_once_end_with_one_graph():
    """h1 and h2 do not hear each other, so both form graphs; the others take part in the higher one."""
    world = make()
    crash(world, "h5")
    go_on(world, 6.0, between(("h1",), ("h2",)))
    go_on(world, 8.0)
    opened = {survivor(world, host).opened for host in ("h1", "h2", "h3", "h4")}
    assert len(opened) == 1
    assert survivor(world, "h1").is_open


@BOTH
def test_hosts_join_and_leave_groups_with_a_new_graph(recover):
    world = make(groups={1: ("h1", "h2", "h3")}, recover=recover)
    world["h4"].life.join(1)
    world["h1"].life.leave(1)
    go_on(world, 3.0)
    world.broadcast("h5", to=1)
    go_on(world, 1.0)
    assert [host for host in world.hosts if standing(world, host)] == ["h2", "h3", "h4"]
    assert survivor(world, "h4")._wishes == {}


def test_the_last_member_of_a_group_cannot_leave_it_and_asks_only_once():
    world = make(groups={1: ("h1",)})
    world["h1"].life.leave(1)
    go_on(world)
    assert world["h2"].life.core.env.groups[1] == ("h1",)
    assert len(traced(world, "h1", "forming")) == 1


def test_a_message_to_a_group_whose_members_have_all_failed_waits_at_its_source():
    world = make(groups={1: ("h4", "h5")})
    crash(world, "h4")
    crash(world, "h5")
    go_on(world)
    world.broadcast("h1", to=1)
    go_on(world)
    assert not standing(world, "h4")
    world.restart("h4")
    go_on(world)
    assert standing(world, "h4") == [("h1", 1)]


def test_with_rollback_a_message_to_a_group_whose_members_have_all_failed_has_a_place_in_the_order():
    world = make(groups={1: ("h4", "h5")}, recover="rollback")
    crash(world, "h4")
    crash(world, "h5")
    go_on(world)
    world.broadcast("h2", to=1)
    go_on(world)
    crash(world, "h2")
    for host in ("h4", "h5"):
        world.restart(host)
    go_on(world, 8.0)
    assert standing(world, "h4") == standing(world, "h5") == [("h2", 1)]


def test_long_histories_travel_in_several_pieces():
    world = make()
    for _ in range(20):
        world.broadcast("h1", payload=bytes(200))
    settle(world)
    crash(world, "h5")
    go_on(world)
    reports = [packet.message for packet in world.sent if isinstance(packet.message, ReportPiece) and packet.sender == "h2"]
    assert [piece.left for piece in reports] == list(range(len(reports)))[::-1]
    assert len(reports) > 2
    assert max(len(piece.content) for piece in reports) == PIECE_BYTES
    assert any(isinstance(packet.message, PlanPiece) for packet in world.sent)


@BOTH
@pytest.mark.parametrize("seed", range(15))
def test_whatever_happens_hosts_that_never_failed_agree_and_with_rollback_all_do(recover, seed):
    random = Random(f"{seed}/{recover}")
    world = make(4, {1: ("h1", "h2", "h3"), 2: ("h2", "h4"), 3: ("h3", "h4")}, recover, seed=seed)
    world.logs = {host: {} for host in world.hosts}
    sent = []

    def multicast(host, payload=b"", to=0):
        World.broadcast(world, host, payload, to or random.choice([0, 1, 2, 3]))
        sent.append((host, world[host].broadcasts))

    world.broadcast = multicast
    world.suffer(random, most_sent=400)
    go_on(world, 25.0)
    failed = {host for host in world.hosts if traced(world, host, "failed")}
    logs = {host: standing(world, host) for host in world.hosts if recover == "rollback" or host not in failed}
    for one, other in combinations(logs.values(), 2):
        assert [message for message in one if message in other] == [message for message in other if message in one]
    if recover == "rollback":
        assert {message for log in logs.values() for message in log} == set(sent)
        assert len(set(logs["h1"]) ^ {message for message in sent if message in logs["h1"]}) == 0
    assert all(survivor(world, host).is_open for host in world.hosts)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"recover": "rollback"}, "recover=rollback needs failures=non-atomic"),
        ({"failures": "non-atomic", "manager": "h9"}, "manager=h9: there is no such host"),
        ({"failures": "non-atomic", "timeout_ms": 400.0}, "timeout_ms=400 must be between period_ms=500"),
        ({"failures": "non-atomic", "longest_timeout_ms": 900.0}, "timeout_ms=1000 .* and longest_timeout_ms=900"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        PropagationGraph.check(PropagationGraphParameters(**wrong), ("h1", "h2"))


def kept(world):
    up = [host for host in world.hosts if world[host].life is not None]
    return {host: (len(survivor(world, host)._journal.entries), len(survivor(world, host)._journal.own)) for host in up}


@BOTH
def test_what_all_have_and_a_majority_knows_is_forgotten(recover):
    world = make(groups=FIGURE_7_1, recover=recover)
    for _ in range(5):
        world.broadcast("h2", to=1)
        # h2 is neither in this group nor on the way to its members.
        world.broadcast("h2", to=2)
    settle(world)
    assert all(entries for entries, _ in kept(world).values())
    go_on(world, 3.0)
    assert set(kept(world).values()) == {(0, 0)}
    before = len([packet for packet in world.sent if isinstance(packet.message, Mark | Has)])
    go_on(world, 3.0)
    assert len([packet for packet in world.sent if isinstance(packet.message, Mark | Has)]) == before
    for host in world.hosts:
        world.restart(host)
    world.broadcast("h2", to=1)
    go_on(world, 1.0)
    assert all(len(standing(world, host)) in {6, 11} for host in world.hosts)


def test_with_rollback_what_a_host_that_is_down_lacks_is_kept_for_it_and_nobody_is_told_again_and_again():
    world = make(recover="rollback")
    crash(world, "h5")
    go_on(world)
    world.broadcast("h2")
    go_on(world, 3.0)
    assert kept(world)["h2"] == (1, 1)
    before = len([packet for packet in world.sent if isinstance(packet.message, Mark)])
    go_on(world, 3.0)
    assert len([packet for packet in world.sent if isinstance(packet.message, Mark)]) == before
    world.restart("h5")
    go_on(world, 8.0)
    assert kept(world)["h2"] == (0, 0)
    assert standing(world, "h5") == [("h2", 1)]


def test_a_message_that_is_settled_is_part_of_the_order_though_nobody_can_show_it():
    """h4 and h5 have it and are cut off; a majority knows, so h5 does not have to take it back when they return."""
    world = make(groups={1: ("h4", "h5")}, recover="rollback")
    world.broadcast("h4", to=1)
    go_on(world, 3.0)
    go_on(world, 4.0, between(("h4", "h5"), ("h1", "h2", "h3")))
    go_on(world, 8.0)
    assert standing(world, "h4") == standing(world, "h5") == [("h4", 1)]
    assert not hasattr(world, "taken_back")


def test_a_flow_enters_a_graph_at_one_place_though_its_group_has_changed_and_its_source_restarts():
    """h2 sent to the group before h1 left it. In the new graph both this message and later ones enter above all former members."""
    world = make(groups={1: ("h1", "h4", "h5"), 2: ("h4", "h5"), 3: ("h4", "h3")})
    crash(world, "h4")
    world.broadcast("h2", to=1)
    world["h1"].life.leave(1)
    settle(world)
    go_on(world)
    where = dict(survivor(world, "h2")._entrances)
    assert list(where) == [("h2", 1, b"")]
    world.restart("h2")
    assert survivor(world, "h2")._entrances == where
    world.broadcast("h2", to=1)
    go_on(world, 1.0)
    assert standing(world, "h5") == [("h2", 1), ("h2", 2)]
    assert standing(world, "h1") == [("h2", 1)]
