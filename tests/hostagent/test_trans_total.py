"""Trans and Total: who acknowledges what, which order follows from it, and what happens when hosts miss something, die or come back."""

from itertools import pairwise
from random import Random

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.misses import Ask
from hostagent.protocols.trans_total.graph import Graph
from hostagent.protocols.trans_total.messages import MOST_ACKS, Said, Status
from hostagent.protocols.trans_total.protocol import TransTotal
from hostagent.protocols.trans_total.total import Total
from tests.hostagent.world import World
from tests.mutants.parts import with_part
from tests.mutants.trans_total import NeverReminds


def run(world, most=400):
    """Hand everything over and let timers expire until there is rest."""
    for _ in range(most):
        world.settle()
        if not world.timers():
            return
        world.expire()
    raise AssertionError(f"no rest after {most} timers: {world.timers()}")


def pass_time(world, timers):
    """Hand everything over and let so many timers expire, or fewer if there is rest."""
    for _ in range(timers):
        world.settle()
        if world.timers():
            world.expire()
    world.settle()


def kill(world, host):
    """The host says and hears nothing any more."""
    world[host].timers.clear()
    world[host].life.receive = lambda *_, **__: None
    world.lose(to=host)


def said(world, sequence=True):
    """What was put into the graph for the first time, as packets."""
    return [
        p
        for p in world.sent
        if isinstance(p.message, Said) and p.sender == p.message.origin and bool(p.message.sequence) == sequence
    ]


def prefixes(orders):
    """Whether of any two orders one is the beginning of the other."""
    return all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(sorted(orders, key=len)))


@pytest.mark.parametrize(("multicasts", "first", "each"), [(False, 3, 9), (True, 1, 3)], ids=["unicast", "multicast"])
def test_with_silent_hosts_a_message_takes_n_datagrams_or_n_times_n_less_one(multicasts, first, each):
    world = World(TransTotal, 4, multicasts=multicasts)
    for source in ("h1", "h1", "h3", "h2", "h1"):
        world.broadcast(source)
        run(world)
    assert len([p for p in world.sent if p.purpose is Purpose.DATA]) == 5 * first
    assert len(world.sent) == 5 * (first + each)
    assert len({tuple(world.delivered(host)) for host in world.hosts}) == 1
    assert not world.lacking()


def test_busy_hosts_send_nothing_but_their_messages():
    world = World(TransTotal, 4, multicasts=True)
    for turn in range(40):
        world.broadcast(world.hosts[turn % 4])
        world.settle()
    assert len(world.sent) == 40
    assert min(len(world.delivered(host)) for host in world.hosts) >= 32
    assert prefixes([world.delivered(host) for host in world.hosts])


def test_figure_2_2():
    """A, Ba, Cb, Dc; the host of E misses C: E acknowledges D, and C negatively; C is sent again; F acknowledges C and E."""
    world = World(TransTotal, 4, multicasts=True)
    names = {}

    def message(name, host, lost_at=()):
        world.broadcast(host)
        for other in lost_at:
            world.lose(to=other)
        mark = (world.hosts.index(host), said(world)[-1].message.number)
        names[mark] = name
        for _ in range(len(world.in_flight)):
            world.hand_over()
        return said(world)[-1].message

    written = [message("a", "h1"), message("b", "h2"), message("c", "h3", lost_at=("h2",)), message("d", "h1")]
    world["h2"].timers.clear()
    written.append(message("e", "h2"))
    assert [(p.message.sequence, p.message.origin, p.to) for p in world.in_flight] == [(1, "h3", "h2")]
    assert world.in_flight[0].purpose is Purpose.REPAIR
    world.settle()
    written.append(message("f", "h4"))

    def marks(some):
        return sorted(names[mark] for mark in some)

    assert [marks(m.acks + m.heard) for m in written] == [[], ["a"], ["b"], ["c"], ["d"], ["c", "e"]]
    assert [marks(m.misses) for m in written] == [[], [], [], [], ["c"], []]
    run(world)
    assert [len(world.delivered(host)) for host in world.hosts] == [6] * 4
    assert len({tuple(world.delivered(host)) for host in world.hosts}) == 1


class Exact(TransTotal):
    """The past of each message that a host sends is all that the host has."""

    def _say(self, *args):
        had = list(self.graph.counts)
        super()._say(*args)
        assert all(mine >= before for mine, before in zip(self.graph.latest[self._place], had, strict=True))


@pytest.mark.parametrize("repair", ["asked", "anyone"])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_network_does_there_is_one_order_and_nothing_is_lost(seed, repair):
    world = World(Exact, 3 + seed % 4, seed=seed, repair=repair, multicasts=bool(seed % 2))
    world.suffer(Random(seed), most_sent=500)
    assert prefixes([world.delivered(host) for host in world.hosts])
    run(world)
    assert not world.lacking()
    assert len({tuple(world.delivered(host)) for host in world.hosts}) == 1


def random_order(size, seed, messages=60):
    """Messages of a random run in which each host sends after it has received some of what the others sent."""
    random, graphs, sent = Random(seed), [Graph(size) for _ in range(size)], []
    for _ in range(messages):
        place = random.randrange(size)
        for other, one in sent:
            if not graphs[place].said((other, one.number)) and random.random() < 0.7:
                graphs[place].add(other, one)
        acks = tuple(graphs[place].acknowledgements(place, lacks=True))
        one = Said(0, f"h{place + 1}", int(random.random() < 0.6), graphs[place].counts[place] + 1, acks)
        graphs[place].add(place, one)
        sent.append((place, one))
    return sent


def ordered(size, messages, at_once=False):
    graph = Graph(size)
    total, order = Total(graph, (size - 1) // 3), []
    for place, one in messages:
        marks = graph.add(place, one)
        news = [mark for mark in marks if graph.said(mark).sequence]
        order += () if at_once else total.extend(marks, news)
    return order + list(total.restore(total.ordered)), graph


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("seed", range(8))
def test_the_total_order_of_a_part_of_the_partial_order_is_the_beginning_of_that_of_all(size, seed):
    sent, random = random_order(size, seed), Random(seed)
    whole, graph = ordered(size, sent)
    assert size > 4 or len(whole) > 20
    for _ in range(20):
        some = random.sample(sent, k=random.randrange(len(sent) + 1))
        part, _ = ordered(size, some, at_once=bool(random.randrange(2)))
        assert whole[: len(part)] == part
    places = {mark: place for place, mark in enumerate(whole)}
    for place, number in whole:
        past = graph.past(place, number)
        followed = [
            (other, one) for other, last in enumerate(past) for one in range(1, last + 1) if graph.said((other, one)).sequence
        ]
        assert all(places[mark] <= places[place, number] for mark in followed)


@pytest.mark.parametrize(("size", "dead", "goes_on"), [(4, 1, True), (4, 2, False), (7, 2, True), (7, 3, False)])
def test_hosts_go_on_while_fewer_than_a_third_are_dead(size, dead, goes_on):
    world = World(TransTotal, size)
    for host in world.hosts[size - dead :]:
        kill(world, host)
    for _ in range(3):
        world.broadcast("h1")
        pass_time(world, 60)
    assert world.delivered("h1") == world.delivered("h2") == ([("h1", n) for n in (1, 2, 3)] if goes_on else [])


def test_too_few_hosts_for_a_decision_do_not_speak_again_and_again():
    world = World(TransTotal, 4)
    for host in ("h3", "h4"):
        kill(world, host)
    for _ in range(3):
        world.broadcast("h1")
    pass_time(world, 200)
    assert world.now_s > 30
    assert len(said(world, sequence=False)) <= 9


def test_a_message_that_died_with_all_its_holders_blocks_nobody_else():
    """Only h1 has C, and h7 acknowledges it with D before both die. The others know D and never get C."""
    world = World(TransTotal, 7)
    world.broadcast("h1")
    world.in_flight = [packet for packet in world.in_flight if packet.to == "h7"]
    world.settle()
    world.broadcast("h7")
    kill(world, "h1")
    kill(world, "h7")
    world.broadcast("h2")
    pass_time(world, 100)
    assert {host: world.delivered(host) for host in world.hosts[1:6]} == {key: [("h2", 1)] for key in world.hosts[1:6]}
    assert any(packet.message.heard for packet in said(world, sequence=False))


def test_a_message_that_nobody_heard_of_is_told_of_by_its_source():
    world = World(TransTotal, 4)
    world.broadcast("h1")
    world.lose()
    run(world)
    assert not world.lacking()
    assert sorted(p.to for p in world.sent if p.purpose is Purpose.REPAIR) == ["h2", "h3", "h4"]


@pytest.mark.parametrize("core", [TransTotal, with_part(TransTotal, "reminders", NeverReminds)], ids=["reminded", "not-reminded"])
def test_a_host_that_heard_nothing_of_a_message_is_told_of_it_after_the_others_have_delivered_it(core):
    world = World(core, 4)
    world.broadcast("h1")
    while not all(world.delivered(host) for host in world.hosts[:3]):
        world.lose(to="h4")
        if world.in_flight:
            world.hand_over()
        else:
            world.expire()
    world.lose(to="h4")
    run(world)
    assert bool(world.delivered("h4")) == (core is TransTotal)


def test_a_message_whose_source_died_is_told_of_by_those_who_have_it():
    world = World(TransTotal, 4)
    world.broadcast("h1")
    world.lose(to="h4")
    kill(world, "h1")
    pass_time(world, 100)
    assert {host: world.delivered(host) for host in world.hosts[1:]} == {key: [("h1", 1)] for key in world.hosts[1:]}


def test_a_host_asks_one_that_acknowledged_a_message_and_then_its_source():
    world = World(TransTotal, 4)
    world.broadcast("h1")
    world.lose(to="h4")
    world.settle()
    world.broadcast("h2")
    world.settle()
    world["h4"].timers.pop("core/speak", None)
    asked = []
    while len(asked) < 3:
        world.expire()
        asked += [packet.to for packet in world.in_flight if isinstance(packet.message, Ask)]
        world.lose()
    assert asked == ["h2", "h1", "h3"]


def test_with_repair_by_anyone_the_first_answer_keeps_the_others_silent():
    world = World(TransTotal, 6, repair="anyone", multicasts=True)
    world.broadcast("h1")
    world.lose(to="h6")
    world.settle()
    kill(world, "h1")
    world.broadcast("h2")
    pass_time(world, 20)
    repairs = [packet for packet in world.sent if packet.purpose is Purpose.REPAIR]
    assert [packet.to for packet in repairs] == [0]
    assert ("h1", 1) in world.delivered("h6")


def test_a_host_that_was_down_gets_what_it_missed_and_goes_on_with_its_numbers():
    world = World(TransTotal, 4)
    world.broadcast("h4")
    run(world)
    for _ in range(100):
        world.broadcast("h1")
        world.lose(to="h4")
    world.lose(to="h4")
    world.restart("h4")
    world.broadcast("h4")
    run(world)
    assert not world.lacking()
    assert len({tuple(world.delivered(host)) for host in world.hosts}) == 1


def test_a_host_that_lost_its_storage_says_nothing_once_it_has_heard_of_its_own_messages():
    world = World(TransTotal, 4)
    world.broadcast("h4")
    run(world)
    world["h4"].storage.clear()
    world.restart("h4")
    world.broadcast("h1")
    pass_time(world, 50)
    before = len([packet for packet in said(world) if packet.sender == "h4"])
    world.broadcast("h4")
    pass_time(world, 50)
    assert len([packet for packet in said(world) if packet.sender == "h4"]) == before
    assert world.delivered("h1") == world.delivered("h2") == [("h4", 1), ("h1", 1)]


def test_messages_beyond_the_window_wait_at_their_source_also_across_a_restart():
    world = World(TransTotal, 4, window=5)
    for _ in range(20):
        world.broadcast("h1")
    assert len({packet.message.number for packet in world.sent}) == 5
    world.lose()
    world.restart("h1")
    run(world)
    assert world.delivered("h4") == [("h1", n) for n in range(1, 21)]


def test_a_bounded_history_makes_all_wait_for_a_dead_host():
    world = World(TransTotal, 4, history=5)
    kill(world, "h4")
    for _ in range(20):
        world.broadcast("h1")
    pass_time(world, 100)
    assert world.delivered("h1") == [("h1", n) for n in range(1, 6)]
    assert TransTotal.most_lost(TransTotal.Parameters(history=5), 4) == 0


def test_at_rest_only_null_messages_are_kept():
    world = World(TransTotal, 4)
    for turn in range(40):
        world.broadcast(world.hosts[turn % 3])
        run(world)
    for host in world.hosts:
        kept = [value for key, value in world[host].stored.items() if key.startswith("said/")]
        assert len(kept) <= 8
        assert not any(sequence for _, sequence, *_ in kept)


def test_messages_to_groups_are_delivered_by_their_members_in_one_order():
    world = World(TransTotal, 4, groups={1: ("h1", "h2", "h3"), 2: ("h2", "h3", "h4")})
    for turn in range(12):
        world.broadcast(world.hosts[turn % 4], to=(1, 2, ("h2", "h4"))[turn % 3])
    run(world)
    assert [len(world.delivered(host)) for host in world.hosts] == [4, 12, 8, 8]
    whole = world.delivered("h2")
    for host in world.hosts:
        assert world.delivered(host) == [message for message in whole if message in world.delivered(host)]


def test_a_host_with_more_to_acknowledge_than_fits_sends_a_null_message_first():
    world = World(TransTotal, 25, multicasts=True)
    for host in world.hosts[1:]:
        world.broadcast(host)
    world.settle()
    world.broadcast("h1", payload=bytes(1200))
    null, last = (packet.message for packet in world.sent[-2:])
    assert (null.sequence, len(null.acks), last.sequence, len(last.acks)) == (0, 24, 1, 0)
    assert MOST_ACKS < 24
    run(world, most=5000)
    assert not world.lacking()


def test_the_longest_message_fits_beside_all_that_it_may_carry():
    marks = tuple((200, 2**31 + n) for n in range(MOST_ACKS))
    longest = Said(65535, "h1", 2**31, 2**31, marks, bytes(1200), bytes(13), marks[:4], marks[:6], "h100")
    world = World(TransTotal, 100)
    assert world.codec.part(longest, Purpose.DATA)


@pytest.mark.parametrize(("resilience", "hosts"), [(1, 3), (2, 6), (1000, 12)])
def test_a_resilience_of_a_third_or_more_is_refused(resilience, hosts):
    with pytest.raises(ValueError, match=f"among {hosts} hosts it is {(hosts - 1) // 3} at most"):
        TransTotal.check(TransTotal.Parameters(resilience=resilience), tuple(f"h{n}" for n in range(hosts)))
    TransTotal.check(TransTotal.Parameters(resilience=(hosts - 1) // 3), tuple(f"h{n}" for n in range(hosts)))


def test_more_hosts_than_a_datagram_has_numbers_for_are_refused():
    with pytest.raises(ValueError, match="256 hosts at most, not 257"):
        TransTotal.check(TransTotal.Parameters(), tuple(f"h{n}" for n in range(257)))


def test_a_status_of_another_number_of_hosts_and_a_mark_of_no_host_are_refused():
    world = World(TransTotal, 3)
    refused = {"malformed": Status(0, "h1", 0, (1, 2), True), "unknown_host": Said(0, "h1", 0, 1, ((3, 1),))}
    for reason, message in refused.items():
        with pytest.raises(Exception, match=reason):
            world.codec.decode(world.codec.encode(1, 1, message, Purpose.CONTROL, 0))
