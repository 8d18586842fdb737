"""Who watches whom in the propagation graph with non-atomic failures, how often they ask, and when they suspect."""

from hostagent.protocols.propagation_graph.items import Alive
from tests.hostagent.test_non_atomic import crash, go_on, make, survivor, traced

PERIOD_S, TIMEOUT_S = 0.5, 1.0


def signs(world):
    return [packet for packet in world.sent if isinstance(packet.message, Alive)]


def test_while_all_is_well_the_manager_and_each_other_host_exchange_at_most_two_signs_of_life_in_a_period():
    world = make()
    go_on(world)
    world.sent.clear()
    go_on(world, 20 * PERIOD_S)
    assert all("h1" in {packet.sender, packet.to} for packet in signs(world))
    assert 0 < len(signs(world)) <= 2 * 4 * 20
    assert len([packet for packet in signs(world) if packet.message.question]) == len(signs(world)) / 2


def test_a_host_is_suspected_soon_after_the_time_out_where_answers_were_quick():
    world = make()
    watch = survivor(world, "h1")._watch
    assert watch._trips.wait_s("h4") == TIMEOUT_S / 8
    go_on(world)
    assert watch._trips.wait_s("h4") == 0.02
    crash(world, "h4")
    go_on(world, TIMEOUT_S + 2 * PERIOD_S)
    assert [*watch.suspected] == ["h4"]
    assert not any(survivor(world, host)._watch.suspected for host in ("h2", "h3", "h5")), "nobody else watches it"


def test_a_host_that_misses_the_manager_watches_all_others_until_there_is_a_graph_without_it():
    world = make()
    go_on(world)
    for host in ("h1", "h2"):
        crash(world, host)
    go_on(world, 4 * TIMEOUT_S + 2 * PERIOD_S)
    assert [*survivor(world, "h4")._watch.suspected] == ["h1", "h2"]
    assert survivor(world, "h4").members == ("h3", "h4", "h5")
    assert survivor(world, "h4")._watched() == ("h3",)


def test_a_wrong_suspicion_ends_with_the_next_message_and_more_questions_are_asked_from_then_on():
    world = make()
    go_on(world)
    watch = survivor(world, "h1")._watch
    tries = watch._tries["h4"]
    go_on(world, 3.0, cut=lambda sender, _: sender == "h4")
    assert traced(world, "h1", "suspect") == [{"host": "h4"}]
    go_on(world)
    assert traced(world, "h1", "trust") == [{"host": "h4"}]
    assert (watch.suspected, watch._tries["h4"]) == ({}, tries + 2)
