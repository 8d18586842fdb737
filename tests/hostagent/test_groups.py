"""Destinations, multicast, marks and views, as a core asks for them."""

import pytest

from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Purpose
from hostagent.parts.links import Acknowledgement, Letter
from hostagent.protocols.basic import Basic
from hostagent.protocols.best_effort import BestEffort
from hostagent.protocols.eager_reliable import EagerReliable
from hostagent.protocols.lazy_reliable import LazyReliable
from hostagent.protocols.uniform import Uniform
from hostagent.runtime.control import CrashWhen
from hostagent.runtime.failures import CoreFailed
from tests.hostagent.recording import Grouped, Unpromising
from tests.hostagent.world import World

ALPHA = 1
GROUPS = {ALPHA: ("h2", "h3")}


class Remembering(World):
    """A world that keeps what hosts log."""

    def __init__(self, *arguments, **options):
        self.logged = []
        super().__init__(*arguments, **options)

    def log(self, host, event):
        self.logged.append((host, event.event, event.origin, event.sequence, event.details))


@pytest.fixture(params=[False, True], ids=["unicast", "multicast"])
def world(request):
    return Remembering(Grouped, 4, groups=GROUPS, multicasts=request.param)


def test_a_message_to_a_group_reaches_its_members_and_nobody_else(world):
    world.broadcast("h1", to=ALPHA)
    assert len(world.sent) == (1 if world.multicasts else 2)
    world.settle()
    assert [len(world.delivered(host)) for host in world.hosts] == [0, 2, 2, 0]


def test_a_member_does_not_send_to_itself(world):
    world.broadcast("h2", to=ALPHA)
    assert [packet.to for packet in world.in_flight] == ["h3"]


def test_nothing_is_sent_to_a_group_without_others():
    for multicasts in (False, True):
        world = World(Grouped, 4, groups={ALPHA: ("h2",)}, multicasts=multicasts)
        world.broadcast("h2", to=ALPHA)
        assert not world.sent


def test_the_origin_logs_whom_a_message_is_for_unless_it_is_for_everybody(world):
    world.broadcast("h1")
    world.broadcast("h1", to=ALPHA)
    world.broadcast("h1", to=("h4", "h1"))
    assert [details for _, event, *_, details in world.logged if event == "broadcast"] == [
        {},
        {"group": ALPHA, "to": ["h2", "h3"]},
        {"group": LISTED, "to": ["h1", "h4"]},
    ]
    assert world["h1"].core.asked == Destination(LISTED, ("h1", "h4"))


def test_every_mark_is_logged_in_order_and_names_its_message(world):
    world.broadcast("h1", to=ALPHA)
    world.settle()
    assert [entry for entry in world.logged if entry[0] == "h3"] == [
        ("h3", "start", "", 0, {"incarnation": 1}),
        ("h3", "receive", "h1", 1, {}),
        ("h3", "deliver", "h1", 1, {"ordinal": 7}),
        ("h3", "take-back", "h1", 1, {}),
        ("h3", "deliver", "h1", 1, {}),
        ("h3", "commit", "h1", 1, {}),
        ("h3", "done", "h1", 1, {"group": ALPHA}),
    ]


@pytest.mark.parametrize("event", ["receive", "take-back", "commit", "done"])
def test_a_crash_can_wait_for_any_mark_and_for_a_trace_about_a_message(event):
    world = World(Grouped, 2)
    world["h2"].start((CrashWhen(event, "h1", sequence=2),))
    for expected in (False, True):
        world.broadcast("h1")
        world.settle()
        assert world["h2"].life.is_over is expected


def test_views_are_logged_and_decide_whom_later_messages_are_for(world):
    world["h1"].life.join(ALPHA)
    world["h2"].life.leave(ALPHA)
    for host in ("h1", "h2"):
        world.broadcast(host, to=ALPHA)
    views = {host: details for host, event, *_, details in world.logged if event == "view"}
    assert views == {
        "h1": {"group": ALPHA, "view": 2, "members": ["h1", "h2", "h3"]},
        "h2": {"group": ALPHA, "view": 3, "members": ["h3"]},
    }
    told = [(host, details["to"]) for host, event, *_, details in world.logged if event == "broadcast"]
    assert told == [("h1", ["h1", "h2", "h3"]), ("h2", ["h3"])]
    assert [event for _, event, *_ in world.logged if event in {"join", "leave"}] == ["join", "leave"]


def test_everybody_is_a_group_whose_view_can_change_too(world):
    world["h4"].life.leave(EVERYBODY)
    world.broadcast("h4")
    assert world.logged[-1] == ("h4", "broadcast", "h4", 1, {"group": EVERYBODY, "to": ["h1", "h2", "h3"]})


class Groupless(Unpromising):
    """Knows neither groups nor membership."""

    name = "groupless"
    number = 222
    messages = ()


def test_a_protocol_without_groups_is_not_handed_any():
    life = World(Groupless, 3, groups={ALPHA: ("h1", "h2")})["h1"].life
    life.offer(b"", ALPHA)
    with pytest.raises(CoreFailed, match="AssertionError: groupless knows no groups"):
        life.admit()
    for ask in (life.join, life.leave):
        with pytest.raises(CoreFailed, match="LookupError: groupless knows no membership"):
            ask(ALPHA)


@pytest.mark.parametrize("multicasts", [False, True], ids=["unicast", "multicast"])
@pytest.mark.parametrize(
    ("core", "parameters"),
    [
        *((Basic, {}), (BestEffort, {}), (BestEffort, {"links": "none"}), (EagerReliable, {}), (LazyReliable, {})),
        *((Uniform, {}), (Uniform, {"waits_for": "majority"})),
    ],
)
def test_messages_to_groups_and_lists_reach_their_destinations_once_and_nobody_else(core, parameters, multicasts):
    world = World(core, 4, groups=GROUPS, multicasts=multicasts, **parameters)
    world.broadcast("h1", to=ALPHA)
    world.broadcast("h2", to=ALPHA)
    world.broadcast("h3", to=("h3", "h4"))
    world.broadcast("h4")
    world.settle()
    assert {host: sorted(world.delivered(host)) for host in world.hosts} == {
        "h1": [("h4", 1)],
        "h2": [("h1", 1), ("h2", 1), ("h4", 1)],
        "h3": [("h1", 1), ("h2", 1), ("h3", 1), ("h4", 1)],
        "h4": [("h3", 1), ("h4", 1)],
    }
    assert set(world.timers()) <= {"core.detector/heartbeat"}


def destinations_of(world):
    """Who was sent a letter with a message, over all senders."""
    return {packet.to for packet in world.sent if isinstance(packet.message, Letter)}


@pytest.mark.parametrize("core", [EagerReliable, Uniform])
@pytest.mark.parametrize("to", [ALPHA, ("h2", "h3")], ids=["group", "list"])
def test_a_message_is_passed_on_to_its_destinations_only_also_after_a_restart(core, to):
    world = World(core, 5, groups=GROUPS)
    world.broadcast("h1", to=to)
    world.lose(to="h3")
    world.hand_over()
    world.lose()
    world.restart("h2")
    world.settle()
    assert destinations_of(world) == {"h2", "h3"}
    assert [world.delivered(host) for host in world.hosts] == [[], [("h1", 1)], [("h1", 1)], [], []]


@pytest.mark.parametrize("core", [EagerReliable, Uniform])
def test_on_multicast_each_member_passes_a_letter_to_the_group_on_in_one_datagram(core):
    world = World(core, 5, groups={ALPHA: ("h1", "h2", "h3")}, multicasts=True)
    world.broadcast("h1", to=ALPHA)
    world.settle()
    assert [packet.to for packet in world.sent if packet.purpose is Purpose.DATA] == [ALPHA] * 3
    assert [len(world.delivered(host)) for host in world.hosts] == [1, 1, 1, 0, 0]


def test_on_multicast_a_lost_letter_is_repeated_to_who_lacks_it():
    world = World(BestEffort, 4, groups={ALPHA: ("h1", "h2", "h3")}, multicasts=True)
    world.broadcast("h1", to=ALPHA)
    world.lose(to="h3")
    world.settle()
    world.expire()
    assert [(packet.to, packet.purpose) for packet in world.in_flight] == [("h3", Purpose.REPAIR)]
    world.settle()
    assert world.delivered("h3") == [("h1", 1)]
    assert not world.timers()


@pytest.mark.parametrize("to", [ALPHA, ("h2", "h3")], ids=["group", "list"])
def test_lazy_passes_what_came_from_a_suspect_on_to_the_other_destinations_also_after_a_restart(to):
    world = World(LazyReliable, 5, groups=GROUPS)
    world.broadcast("h1", to=to)
    world.lose(to="h3")
    world.settle()
    world.restart("h2")
    world["h2"].core.on_suspect("h1")
    assert [(packet.to, type(packet.message)) for packet in world.in_flight] == [("h3", Letter)]
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[], [("h1", 1)], [("h1", 1)], [], []]


def test_uniform_waits_for_the_destinations_only():
    world = World(Uniform, 5, groups={ALPHA: ("h1", "h2", "h3")})
    world.broadcast("h1", to=ALPHA)
    world.lose(to="h3")
    world.hand_over()
    world.lose(to="h3")
    world.settle()
    assert not world.delivered("h1")
    world["h1"].core.detector.suspected = {"h3": None}
    world["h1"].core.on_suspect("h3")
    assert world.delivered("h1") == [("h1", 1)]


def test_a_letter_to_a_group_that_does_not_exist_goes_to_nobody():
    world = World(EagerReliable, 3)
    world["h2"].life.receive("h1", [Letter(9, "h1", 1, 1, 1, b"forged")], expensive=False)
    assert [type(packet.message) for packet in world.in_flight] == [Acknowledgement]


def test_on_multicast_basic_sends_one_datagram_and_repeats_to_those_who_lack_it():
    world = World(Basic, 4, groups={ALPHA: ("h1", "h2", "h3")}, multicasts=True)
    world.broadcast("h1", to=ALPHA)
    assert [packet.to for packet in world.sent] == [ALPHA]
    world.lose(to="h3")
    world.settle()
    world.restart("h1")
    assert [(packet.to, packet.purpose) for packet in world.in_flight] == [("h2", Purpose.REPAIR), ("h3", Purpose.REPAIR)]
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[("h1", 1)], [("h1", 1)], [("h1", 1)], []]
    assert not world.timers()


@pytest.mark.parametrize("core", [Basic, BestEffort, EagerReliable, LazyReliable, Uniform])
def test_what_is_delivered_is_remembered_without_gaps_also_for_a_host_that_gets_a_part_of_it(core):
    world = World(core, 3, groups={ALPHA: ("h1", "h2"), 2: ("h1", "h3")})
    for _ in range(2):
        for to in (ALPHA, 2, EVERYBODY, 2):
            world.broadcast("h1", to=to)
            world.settle()
        world.restart("h1")
    assert world["h2"].kept("core.delivery.delivered") == {"h1:1": 2, "h1": 2}
    assert world["h3"].kept("core.delivery.delivered") == {"h1:2": 4, "h1": 2}
    assert world.delivered("h2") == [("h1", sequence) for sequence in (1, 3, 5, 7)]
