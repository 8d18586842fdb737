"""What people read about the routes."""

from controller.explain import explain, rows
from topologies.builders import clusters


def test_a_table_of_flows_and_a_line_for_each_path():
    assert list(explain(clusters(2, 1, "line"))) == [
        "switch       destination  port -> neighbour",
        "s1           h1           1 -> h1",
        "s1           h2           2 -> s2, marks",
        "s2           h1           2 -> s1, marks",
        "s2           h2           1 -> h2",
        "h1 -> h2: h1-s1=s2-h2",
        "h2 -> h1: h2-s2=s1-h1",
    ]


def test_every_switch_knows_every_host():
    network = clusters(3, 2, "ring")
    assert [(row.switch, row.destination) for row in rows(network)] == [(s, h) for s in network.switches for h in network.hosts]
