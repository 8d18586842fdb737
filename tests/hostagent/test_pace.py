"""The window of what is under way."""

from hostagent.parts.pace import FEWEST, FIRST, STEP, Pace


def test_the_window_grows_by_what_arrives_until_much_is_lost_and_little_by_little_then():
    pace = Pace(1024)
    assert (pace.window, pace.is_open) == (256, False)
    pace.arrived(256)
    assert pace.window == 512
    assert pace.lost("h2", range(600, 730), 800, 500)
    assert pace.window == 250
    pace.arrived(250)
    assert pace.window == 250 + STEP
    for _ in range(200):
        pace.arrived(256)
    assert (pace.window, pace.is_open) == (1024, True)


def test_links_that_lose_a_datagram_now_and_then_slow_nobody():
    pace = Pace(1024)
    for number in range(1, 10_000, 8):
        assert not pace.lost("h2", [number], number + 200, 256)
        assert not pace.lost("h3", [number + 3], number + 200, 256)


def test_losses_that_come_one_by_one_add_up_at_the_host_where_they_are():
    pace = Pace(1024)
    narrowed = [number for number in range(1, 200, 2) if pace.lost("h2" if number % 4 == 1 else "h3", [number], 200, 256)]
    assert not narrowed
    narrowed = [number for number in range(301, 500, 2) if pace.lost("h2", [number], 500, 256)]
    assert narrowed == [429]


def test_what_is_asked_for_again_counts_once():
    pace = Pace(1024)
    for _ in range(10):
        assert not pace.lost("h2", range(1, 50), 256, 256)
    assert pace.lost("h2", range(1, 70), 256, 256)


def test_what_is_lost_with_what_was_under_way_already_counts_once():
    pace = Pace(1024)
    assert pace.lost("h2", range(1, 100), 200, 200)
    assert not pace.lost("h3", range(1, 100), 200, 200)
    assert not pace.lost("h2", range(120, 201), 240, 200)
    assert pace.lost("h2", range(201, 240), 240, 100)
    assert pace.window == 50


def test_where_few_are_under_way_losses_are_chance():
    pace = Pace(1024)
    assert not pace.lost("h2", range(1, 17), 20, 20)
    assert pace.window == 256


def test_half_of_what_was_under_way_may_be_after_losses_also_if_the_window_was_wider():
    pace = Pace(1024)
    assert pace.lost("h2", range(1, 51), 100, 100)
    assert pace.window == 50


def test_a_few_may_always_be_under_way_and_never_more_than_the_most():
    pace = Pace(1024)
    for number in range(0, 20_000, 500):
        pace.lost("h2", range(number, number + 499), number + 499, 1024)
    assert pace.window == FEWEST
    small = Pace(4)
    assert (small.window, small.is_open) == (4, True)
    assert not small.lost("h2", [1], 1, 0)
    assert Pace(100).window == FIRST
