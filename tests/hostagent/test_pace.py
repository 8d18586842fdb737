"""The window of what is under way."""

from hostagent.parts.pace import FEWEST, FIRST, STEP, Pace


def test_the_window_grows_by_what_arrives_until_something_is_lost_and_little_by_little_then():
    pace = Pace(1024)
    assert (pace.window, pace.is_open) == (256, False)
    pace.arrived(256)
    assert pace.window == 512
    assert pace.lost(600, 800, 500)
    assert pace.window == 256
    pace.arrived(256)
    assert pace.window == 256 + STEP
    for _ in range(200):
        pace.arrived(256)
    assert (pace.window, pace.is_open) == (1024, True)


def test_what_is_lost_with_what_was_under_way_already_counts_once():
    pace = Pace(1024)
    assert pace.lost(10, 200, 200)
    assert not pace.lost(11, 200, 200)
    assert not pace.lost(200, 240, 200)
    assert pace.lost(201, 240, 100)
    assert pace.window == 64


def test_where_little_is_under_way_a_loss_slows_nobody():
    pace = Pace(1024)
    assert not pace.lost(10, 20, 128)
    assert pace.window == 256


def test_a_few_may_always_be_under_way_and_never_more_than_the_most():
    pace = Pace(1024)
    for number in range(100):
        pace.lost(number, number, 1024)
    assert pace.window == FEWEST
    small = Pace(4)
    assert (small.window, small.is_open) == (4, True)
    assert not small.lost(1, 1, 0)
    assert Pace(100).window == FIRST
