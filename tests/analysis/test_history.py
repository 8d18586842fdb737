"""Histories from event logs: whom messages are for, what became of them, and the views of groups."""

from analysis.judging.history import Delivery, View, make

HOSTS = ("h1", "h2", "h3")


def test_the_destinations_of_a_message_are_what_its_origin_logged_first():
    history = make(
        HOSTS,
        [
            ("h1", 1, 0, "broadcast", "h1", 1, {}),
            ("h1", 2, 5, "broadcast", "h1", 2, {"group": 4, "to": ["h2", "h3"]}),
            ("h1", 3, 6, "broadcast", "h1", 2, {"group": 4, "to": ["h1"]}),
        ],
        9,
        (),
    )
    assert history.destinations == {("h1", 1): HOSTS, ("h1", 2): ("h2", "h3")}


def test_every_mark_and_view_is_in_the_history_with_its_place():
    logged = [("h2", line, 10 * line, mark, "h1", 1, {}) for line, mark in enumerate(("receive", "commit", "take-back"), start=1)]
    view = ("h2", 5, 50, "view", "", 0, {"group": 4, "view": 2, "members": ["h1", "h2"]})
    history = make(HOSTS, [*logged, ("h2", 4, 40, "deliver", "h1", 1, {"ordinal": 7}), view], 99, ())
    assert history.receipts == (Delivery(10, "h2", "h1", 1, position=1),)
    assert history.commits == (Delivery(20, "h2", "h1", 1, position=2),)
    assert history.taken_back == (Delivery(30, "h2", "h1", 1, position=3),)
    assert history.deliveries == (Delivery(40, "h2", "h1", 1, position=4, ordinal=7),)
    assert history.views == (View(50, "h2", 4, 2, ("h1", "h2"), position=5),)
