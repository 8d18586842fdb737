"""Pictures: what is on them, not how they look."""

import dataclasses
import math
import subprocess
import sys

import pytest
from matplotlib.collections import LineCollection, PathCollection

from topologies import NetworkError, clusters, figure_3_1, figure_3_2, zoo_network
from topologies.drawing import DrawnTree, _Arc, _clear_arc, figure, save, tree_figure
from topologies.layout import positions


def patches(made):
    return [patch for patch in made.axes[0].patches if patch.get_gid() == "cluster"]


def texts(made):
    return [text.get_text() for text in made.axes[0].texts]


def test_every_cluster_has_a_patch_around_its_hosts_and_switches():
    network = figure_3_2()
    made = figure(network)
    assert len(patches(made)) == 6
    around_b = patches(made)[1].get_path()
    corners = {tuple(corner) for corner in around_b.vertices.round(3).tolist()}
    assert corners == {network.positions[node] for node in ("s2", "h4", "h5")}


def test_a_switch_without_cheap_neighbours_has_no_patch():
    assert len(patches(figure(figure_3_1()))) == 3


def test_every_node_and_every_link_is_drawn():
    network = figure_3_2()
    axes = figure(network).axes[0]
    assert sum(len(marks.get_offsets()) for marks in axes.collections if isinstance(marks, PathCollection)) == 20
    assert sum(len(lines.get_segments()) for lines in axes.collections if isinstance(lines, LineCollection)) == len(network.links)
    assert set(texts(axes.figure)) == {*network.hosts, *network.switches}


def test_values_label_and_widen_their_links():
    made = figure(figure_3_1(), {"s1-s4": 1.0, "s2-s4": 2.5}, value_label="packets per message")
    assert {"1", "2.5"} <= set(texts(made))
    assert made.axes[1].get_ylabel() == "packets per message"
    *_, valued = (lines for lines in made.axes[0].collections if isinstance(lines, LineCollection))
    thin, thick = valued.get_linewidths()
    assert thin < thick


def test_values_that_are_all_zero_can_be_drawn():
    assert "0" in texts(figure(figure_3_1(), {"s1-s4": 0.0}))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"s4-s1": 1.0}, "there is a value for link 's4-s1', which is not a link of network 'figure-3-1'"),
        ({"s1-s4": math.nan}, "the value of link s1-s4 must be a number, not nan"),
    ],
)
def test_bad_values_are_refused_with_a_sentence(values, sentence):
    with pytest.raises(NetworkError, match=sentence):
        figure(figure_3_1(), values)


def test_the_legend_counts_hosts_and_clusters():
    legend = figure(figure_3_2()).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        "14 hosts in 6 clusters",
        "6 switches",
        "cheap link",
        "expensive link",
    ]


def test_a_saved_figure_is_the_same_every_time(tmp_path):
    for stem in ("one", "two"):
        assert save(figure(figure_3_1()), tmp_path / stem) == (tmp_path / f"{stem}.png", tmp_path / f"{stem}.svg")
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_drawing_leaves_pyplot_alone():
    program = "import sys; from topologies import drawing, grid; drawing.figure(grid(1, 2)); assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def nearest(places):
    return min(math.dist(one, other) for i, one in enumerate(places) for other in places[:i])


def test_a_network_without_positions_gets_the_same_ones_every_time():
    network = dataclasses.replace(clusters(4, 3, "ring"), positions={})
    assert positions(network) == positions(network)
    assert positions(network).keys() == {*network.hosts, *network.switches}
    assert nearest(list(positions(network).values())) > 0.05


def test_switches_in_the_same_town_are_moved_apart():
    network = zoo_network("topozoo/Arpanet19728")
    assert nearest(list(network.positions.values())) == 0
    places = positions(network)
    assert nearest([places[switch] for switch in network.switches]) > 1
    assert nearest(list(places.values())) > 0.3


def test_positions_of_a_network_that_has_them_all_are_kept():
    assert positions(figure_3_2()) == figure_3_2().positions


def test_a_network_too_large_for_a_layout_by_force_is_drawn_on_a_circle():
    network = dataclasses.replace(clusters(2001, 1, "line"), positions={})
    assert math.hypot(*positions(network)["s7"]) == pytest.approx(1.0)


def test_a_tree_is_an_arrow_from_each_child_and_says_who_leads():
    network = figure_3_2()
    source, *others = network.hosts
    leaders = [cluster[0] for cluster in network.clusters]
    tree = DrawnTree(source, dict.fromkeys(others, source), leaders, down=("s1-s2",), away=others[-1:])
    made = tree_figure(network, tree, "a tree")
    assert len([patch for patch in made.axes[0].patches if patch.get_gid() == "child"]) == len(others) - 1
    assert set(texts(made)) == {*network.hosts, *network.switches}
    assert [text.get_text() for text in made.legends[0].get_texts()] == [
        *("source", "leader of a cluster", "other host", "host that is down"),
        *("from a child to its parent", "expensive link", "link that is down"),
    ]


def test_a_link_that_is_down_takes_its_cluster_apart():
    network = figure_3_2(repaired=True)
    whole, apart = (tree_figure(network, DrawnTree("h1", {}, (), down=down), "") for down in ((), ("s3-s5",)))
    assert (len(patches(whole)), len(patches(apart))) == (5, 6)


def test_arrows_go_around_other_nodes():
    assert _Arc((0, 0), (10, 0), 0.18).clearance([(5, -0.9)]) < 0.1
    assert _Arc((0, 0), (10, 0), -0.18).clearance([(5, -0.9)]) > 1


def test_arrows_stay_in_the_picture_and_do_not_merge_at_a_host():
    network = clusters(4, 3, "line")
    parents = dict.fromkeys(network.hosts[1:], "h1")
    made = tree_figure(network, DrawnTree("h1", parents, ()), "")
    made.canvas.draw()
    axes = made.axes[0]
    paths = [patch.get_path() for patch in axes.patches if patch.get_gid() == "child"]
    arrows = [points for path in paths for points in path.to_polygons(closed_only=False)]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert all(left < x < right and low < y < high for arrow in arrows for x, y in arrow)


def test_an_arrow_leaves_room_for_those_that_end_where_it_starts():
    first = _clear_arc((0, 0), (10, 0), [], [])
    second = _clear_arc((10, 1), (0, 0), [], [first])
    assert second.apart([first]) > 0.3
