"""A network with a propagation graph as text: the forest, the primary destinations, what is open, and who waits for whom."""

import msgspec

from testbed.live import views
from testbed.live.snapshot import GraphNow, HostNow, Snapshot


def host(name, parent, state="up", missing=0, number=2, closed=False, primary_of=(), waits_for=""):
    graph = GraphNow(number, closed, primary_of, waits_for)
    return HostNow(name, state, 5, missing, {"h1": parent} if parent else {}, graph)


NOW = Snapshot(
    name="lab",
    network="lab",
    protocol="propagation-graph",
    results="nowhere",
    at_s=3.0,
    interval_ms=0.0,
    broadcasts={"h1": 5},
    expensive_packets={"data": 1, "repair": 0, "control": 0},
    lower_bound=1,
    hosts=(
        host("h1", "", primary_of=("alpha", "gamma")),
        host("h2", "h1", number=1, closed=True),
        host("h3", "h1", "crashed", 2, primary_of=("beta",)),
        host("h4", "h3", missing=2, waits_for="h3"),
    ),
    links=(),
    clusters=(("h1", "h2"), ("h3", "h4")),
    problems=(),
    groups={"alpha": ("h1", "h4")},
)


def replaced(now, **some):
    return msgspec.structs.replace(now, **some)


def shown(part):
    return views.text(part)


def test_the_tree_has_primary_destinations_closed_graphs_and_who_waits():
    assert [line.strip("│├└─ ") for line in views.tree(NOW).splitlines()] == [
        "h1, the root, primary destination of alpha, gamma",
        "h2, graph 1 closed",
        "h3 (crashed), primary destination of beta",
        "h4 (waits for h3)",
    ]


def test_the_status_has_a_row_for_each_host_with_its_graph():
    rows = [line.split() for line in shown(views.host_table(NOW)).splitlines()]
    assert ["h1", "up", "5", "0", "2", "alpha,", "gamma"] in rows
    assert ["h2", "up", "5", "0", "h1", "1", "closed"] in rows
    assert ["h4", "waits", "for", "h3", "5", "2", "h3", "2"] in rows


def test_watch_says_which_graphs_are_open_and_who_waits():
    line = views.line(NOW, NOW)
    assert "h3 crashed, h4 waits for h3" in line
    assert "graph 2 at h1, h3, h4; graph 1 closed at h2; primary destinations: alpha h1, gamma h1, beta h3" in line
    assert "waits for h3" in shown(views.watched(NOW, NOW, 80, 24))


def test_a_network_without_a_graph_shows_none():
    plain = replaced(NOW, hosts=(HostNow("h1", "up", 5, 0, {}), HostNow("h2", "up", 5, 0, {"h1": "h1"})))
    assert "graph" not in shown(views.host_table(plain)) + views.line(plain, plain).replace("propagation-graph", "")
    assert views.tree(plain).startswith("h1, the source")


def test_a_watched_screen_has_all_of_the_headline_and_of_the_costs():
    packets = {"data": 100, "repair": 20, "control": 30}
    now = replaced(NOW, network="a-network-with-a-name-that-is-long", expensive_packets=packets, at_s=5.0)
    rows = shown(views.watched(NOW, now, 80, 24)).splitlines()
    assert max(map(len, rows)) <= 80
    words = " ".join(" ".join(rows).split())
    assert views.headline(now) in words
    assert "30.00 a message, at least 1 with one packet a message; per s: data 50, repair 10, control 15" in words
