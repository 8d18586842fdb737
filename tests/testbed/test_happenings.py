"""What `watch` tells of a network that is up: faults and what hosts did, in words, with what belongs together in one line."""

from hostagent.contract.events import Event
from runfiles.format import FaultRecord
from testbed.live import views
from testbed.live.happenings import MOST, Happenings
from tests.testbed.test_views import NOW, replaced

S = 1_000_000_000


def event(at_s, name, **details):
    return Event(at_ns=round(at_s * S), event=name, details=details)


def told(happenings):
    return [(one.at_s, one.who, one.what) for one in happenings.latest]


def test_faults_and_events_come_by_time_and_what_every_message_does_is_left_out():
    happenings = Happenings(10 * S)
    fault = FaultRecord(fault="crash", target="h3", asked_ns=12 * S, applied_ns=12 * S)
    news = [
        ("h1", event(11, "start")),
        ("h1", event(13, "suspect", host="h3")),
        ("h1", event(13, "deliver")),
        ("h1", event(14, "trust", host="h3")),
        ("h1", event(15, "start")),
        ("h2", event(16, "parent", source="h1", parent="h4", leader=True)),
        ("h2", event(17, "parent", source="h1", parent="")),
        ("h2", event(18, "list", members=["h1", "h2"], version=3)),
    ]
    happenings.add(news, [fault])
    assert told(happenings) == [
        (2.0, "fault", "crash h3"),
        (3.0, "h1", "suspects h3"),
        (4.0, "h1", "trusts h3 again"),
        (5.0, "h1", "starts again"),
        (6.0, "h2", "has the parent h4 in the tree of h1"),
        (7.0, "h2", "has no parent in the tree of h1"),
        (8.0, "h2", "has the list h1, h2, version 3"),
    ]


def test_several_hosts_that_say_the_same_and_the_way_of_a_token_are_one_line_each():
    happenings = Happenings(0)
    happenings.add([(host, event(1, "suspect", host="h3")) for host in ("h1", "h2", "h1")], [])
    for second, host in enumerate(("h1", "h2", "h4")):
        happenings.add([(host, event(second + 2, "token", generation=7, held=held)) for held in (True, False)], [])
    assert told(happenings) == [(1.0, "h1, h2", "suspects h3"), (4.0, "h4", "has the token, generation 7")]
    same = FaultRecord(fault="heal", target="s1-s2", asked_ns=0, applied_ns=9 * S)
    happenings.add([], [same, same])
    assert told(happenings)[2:] == [(9.0, "fault", "heal s1-s2")] * 2


def test_what_belongs_together_is_so_though_other_things_happen_in_between():
    happenings = Happenings(0)
    view = {"view": 2, "group": 0, "members": ["h1", "h2"]}
    for number, host in enumerate(("h1", "h2", "h3")):
        at_s = 1 + number / 10
        happenings.add([(host, event(at_s, "token", generation=7, held=True)), (host, event(at_s, "view", **view))], [])
    happenings.add([("h4", event(5, "view", **view))], [])
    said = "installs view 2 of group 0: h1, h2"
    assert told(happenings) == [(1.0, "h1, h2, h3", said), (1.2, "h3", "has the token, generation 7"), (5.0, "h4", said)]
    assert views.news(replaced(NOW, happenings=happenings.latest), replaced(NOW, happenings=happenings.latest)) == []


def test_an_event_of_a_users_protocol_is_told_as_it_is_also_under_a_name_of_ours():
    happenings = Happenings(0)
    news = [
        ("h1", Event(at_ns=S, event="heard", origin="h2", sequence=4, details={"times": 2})),
        ("h1", event(2, "list", size=3)),
    ]
    happenings.add(news, [])
    assert [what for _, _, what in told(happenings)] == ["heard h2:4: times 2", "list: size 3"]


def test_the_oldest_are_forgotten():
    happenings = Happenings(0)
    happenings.add([("h1", event(second, "suspect", host=f"h{second}")) for second in range(MOST + 5)], [])
    assert len(happenings.latest) == MOST
    assert happenings.latest[0].what == "suspects h5"


def test_the_view_has_a_pane_that_fits_and_lines_have_only_what_is_new():
    happenings = Happenings(0)
    happenings.add([("h1", event(second, "suspect", host=f"h{second}")) for second in range(1, 41)], [])
    now = replaced(NOW, happenings=happenings.latest)
    for height in (12, 24, 50):
        rows = views.text(views.watched(now, now, 80, height)).splitlines()
        assert len(rows) <= height
        assert "what happened:" in rows
        assert rows[-1] == "   40.0 s  h1: suspects h40"
    assert views.news(now, now) == []
    before = replaced(NOW, happenings=happenings.latest[:38])
    assert views.news(before, now) == ["   39.0 s  h1: suspects h39", "   40.0 s  h1: suspects h40"]


def test_the_end_says_who_lacks_what():
    assert views.ended(NOW) == "lab: propagation-graph, 3 s, 5 messages; it has ended, and h3 lacks 2, h4 lacks 2"
