"""Perfect point-to-point links: what the second paper's algorithms stand on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.contract.core import Core
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Purpose
from hostagent.contract.promises import Promise
from hostagent.parts.links import WINDOW, Acknowledgement, Letter, LinkParameters, Links
from hostagent.runtime.memory import retained_items
from tests.hostagent.arbitrary import unhurried
from tests.hostagent.world import World


class Post(Core):
    """Sends what is broadcast to all, or to the hosts that the message names; hands over what the links say is new, whatever it is."""

    name = "post"
    number = 210
    messages = Links.messages
    Parameters = LinkParameters

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.links = self.add("links", lambda own: Links(own, parameters, self.on_letter))

    @classmethod
    def promise(cls, parameters, hosts):
        return Promise(guarantees=(), patience_ms=parameters.patience_ms(), retained=hosts)

    def on_broadcast(self, sequence, payload):
        to = tuple(payload.decode().split())
        destination = Destination(LISTED, to) if to else Destination(EVERYBODY, self.env.hosts)
        self.links.send(self.env.host, sequence, payload, to=destination)

    def on_letter(self, sender, letter):
        assert sender == letter.origin
        self.env.deliver(letter.origin, letter.sequence, letter.payload)


@pytest.fixture
def world() -> World:
    return World(Post, 3)


def post(world: World, sender: str, *to: str) -> None:
    world.broadcast(sender, " ".join(to).encode())


def nothing_is_kept(world: World) -> bool:
    """Nothing but a link to each host and a number for each that was heard from."""
    kept = {key for host in world.hosts for key in world[host].kept("core.links") if key.startswith("letter/")}
    return not kept and not world.timers() and all(retained_items(world[h].core) <= 3 * len(world.hosts) for h in world.hosts)


def test_a_letter_to_every_host_and_an_acknowledgement_from_each(world):
    post(world, "h1")
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[], [("h1", 1)], [("h1", 1)]]
    assert [packet.purpose for packet in world.sent] == [Purpose.DATA] * 2 + [Purpose.CONTROL] * 2
    assert nothing_is_kept(world)


def test_a_letter_to_one_host_goes_there_only(world):
    post(world, "h1", "h3")
    world.settle()
    assert [world.delivered(host) for host in world.hosts] == [[], [], [("h1", 1)]]
    assert nothing_is_kept(world)


def test_a_message_is_stored_once_however_many_it_is_for(world):
    post(world, "h1")
    assert {key: value for key, value in world["h1"].kept("core.links").items() if key != "sent"} == {
        "letter/1": ["h1", 1, b"", EVERYBODY, b"\x07", 0]
    }


def test_a_lost_letter_is_repeated_as_repair_and_only_to_who_lacks_it(world):
    post(world, "h1")
    world.lose(to="h3")
    world.settle()
    assert 0.5 <= world.expire() <= 0.55
    assert [(packet.to, packet.purpose) for packet in world.in_flight] == [("h3", Purpose.REPAIR)]
    world.settle()
    assert nothing_is_kept(world)


def test_a_lost_acknowledgement_leads_to_a_second_copy_that_is_not_received(world):
    post(world, "h1", "h2")
    world.hand_over()
    world.lose(kind=Acknowledgement)
    world.expire()
    world.settle()
    assert world.delivered("h2") == [("h1", 1)]
    assert nothing_is_kept(world)


def test_the_wait_doubles_up_to_the_longest_and_is_short_again_after_an_answer():
    world = World(Post, 2, retry_ms=100, longest_retry_ms=500)
    for _ in range(2):
        post(world, "h1")
    for wait_s in (0.1, 0.2, 0.4, 0.5, 0.5):
        world.lose()
        assert wait_s <= world.expire() <= 1.1 * wait_s
    world.hand_over()
    world.lose(kind=Letter)
    world.settle()
    assert 0.1 <= world.expire() <= 0.11


def test_what_is_sent_just_before_the_timer_expires_is_not_repeated_yet():
    world = World(Post, 2)
    post(world, "h1")
    post(world, "h1")
    world.lose()
    world.expire()
    assert [packet.message.number for packet in world.in_flight] == [1]


def test_a_host_that_is_down_is_repeated_no_more_than_a_window_however_much_waits_for_it():
    world = World(Post, 2)
    for _ in range(10 * WINDOW):
        post(world, "h1")
    for _ in range(5):
        world.lose()
        world.expire()
        assert len(world.in_flight) <= WINDOW
    for _ in range(WINDOW):
        world.hand_over()
    # Each acknowledgement lets one more go, so all that waited arrives without waiting for the timer again.
    world.settle()
    assert len(world.delivered("h2")) == 10 * WINDOW
    assert nothing_is_kept(world)


def test_a_host_that_restarts_goes_on_with_what_was_not_acknowledged_in_windows():
    world = World(Post, 2)
    for _ in range(3 * WINDOW):
        post(world, "h1")
    world.lose()
    world.restart("h1")
    assert [packet.purpose for packet in world.in_flight] == [Purpose.REPAIR] * WINDOW
    world.settle()
    assert sorted(world.delivered("h2")) == [("h1", number) for number in range(1, 3 * WINDOW + 1)]
    assert nothing_is_kept(world)


def test_numbers_go_on_after_a_restart_though_everything_was_forgotten(world):
    post(world, "h1")
    world.settle()
    world.restart("h1")
    post(world, "h1")
    world.settle()
    assert world.delivered("h2") == [("h1", 1), ("h1", 2)]


def test_a_receiver_that_restarts_acknowledges_again_and_does_not_receive_again(world):
    post(world, "h1", "h2")
    world.hand_over()
    world.lose()
    world.restart("h2")
    world.expire()
    world.settle()
    assert world.delivered("h2") == [("h1", 1)]
    assert nothing_is_kept(world)


def test_letters_to_others_leave_no_gaps_behind(world):
    for _ in range(20):
        post(world, "h1", "h2")
        world.settle()
        post(world, "h1", "h3")
        world.settle()
    assert world["h2"].kept("core.links.received") == {"h1": 39}
    assert world["h3"].kept("core.links.received") == {"h1": 40}


def test_an_acknowledgement_of_what_was_not_sent_to_that_host_changes_nothing(world):
    post(world, "h1", "h2")
    core = world["h1"].core
    for sender, origin, sequence, number in (("h3", "h1", 1, 1), ("h2", "h1", 1, 7), ("h2", "h1", 2, 1), ("h2", "h3", 1, 1)):
        core.on_message(sender, Acknowledgement(0, origin, sequence, number), expensive=False)
        assert core.links.floor == 1
    core.on_message("h2", Acknowledgement(0, "h1", 1, 1), expensive=False)
    assert core.links.floor == 2


def test_the_floor_is_below_what_any_host_has_not_acknowledged(world):
    for _ in range(3):
        post(world, "h1")
    world.lose(to="h3")
    world.settle()
    assert world["h1"].core.links.floor == 1
    world.expire()
    world.settle()
    assert world["h1"].core.links.floor == 4


def test_a_letter_of_number_zero_and_an_absurd_floor_do_no_harm(world):
    world["h2"].core.on_message("h1", Letter(0, "h1", 1, 0, 0, b""), expensive=False)
    assert world.delivered("h2") == []
    world["h2"].core.on_message("h1", Letter(0, "h1", 1, 2**32 - 1, 2**32 - 1, b""), expensive=False)
    assert retained_items(world["h2"].core) <= 9


def test_a_host_alone_keeps_nothing():
    world = World(Post, 1)
    post(world, "h1")
    assert nothing_is_kept(world)


STEP = st.one_of(
    st.tuples(st.just("post"), st.sampled_from(["h1", "h2", "h3"]), st.sampled_from(["", "h1", "h2", "h3"])),
    st.tuples(st.sampled_from(["restart", "lose"]), st.sampled_from(["h1", "h2", "h3"])),
    st.tuples(st.sampled_from(["duplicate", "expire"])),
    st.tuples(st.just("hand over"), st.integers(0, 1000)),
)


@unhurried
@given(st.lists(STEP, max_size=150))
def test_everything_sent_is_received_once_and_nothing_else_whatever_the_network_and_the_hosts_do(steps):
    """Loss, duplication, reordering and restarts of both sides, and then a healed network."""
    world, wanted = World(Post, 3), {"h1": [], "h2": [], "h3": []}
    for step in steps:
        match step:
            case "post", sender, to if sender != to:
                post(world, sender, *to.split())
                for host in [to] if to else world[sender].peers:
                    wanted[host].append((sender, world[sender].broadcasts))
            case "restart", host:
                world.restart(host)
            case "lose", host:
                world.lose(to=host)
            case ("duplicate",) if len(world.in_flight) < 50:
                world.duplicate()
            case ("expire",) if world.timers():
                world.expire()
            case "hand over", number if world.in_flight:
                world.hand_over(lambda count, number=number: number % count)
    world.settle()
    while world.timers():
        world.expire()
        world.settle()
    assert {host: sorted(world.delivered(host)) for host in world.hosts} == {host: sorted(wanted[host]) for host in wanted}
    assert nothing_is_kept(world)
