"""What users type for a topology."""

import subprocess
import sys

import pytest

from topologies import NetworkError, choices, clusters, dump, figure_3_1, figure_3_2, find, grid, lan, zoo_network


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("grid:rows=2,cols=3", grid(2, 3)),
        (
            "grid:rows=2,cols=3,hosts=4,bandwidth=5mbit,delay=20ms,jitter=1ms,loss=1%,burst=3,duplicate=2%,reorder=25%,queue=9",
            grid(
                2,
                3,
                4,
                bandwidth_mbit=5.0,
                delay_ms=20.0,
                jitter_ms=1.0,
                loss=0.01,
                burst=3.0,
                duplicate=0.02,
                reorder=0.25,
                queue_packets=9,
            ),
        ),
        ("clusters:k=4,size=3,shape=ring,switches=2", clusters(4, 3, "ring", 2)),
        ("lan:hosts=5,bandwidth=10mbit", lan(5, bandwidth_mbit=10.0)),
        ("figure-3-1:delay=1s", figure_3_1(delay_ms=1000.0)),
        ("figure-3-2", figure_3_2()),
        ("figure-3-2:repaired=yes", figure_3_2(repaired=True)),
        ("topozoo/Abilene:hosts=2,delays=yes", zoo_network("topozoo/Abilene", 2, delay_from_length=True)),
    ],
)
def test_a_line_of_text_stands_for_a_network(text, network):
    assert find(text) == network


def test_a_path_stands_for_the_network_in_the_file(tmp_path):
    dump(figure_3_2(), tmp_path / "tree.json")
    assert find(str(tmp_path / "tree.json")) == figure_3_2()


def test_every_choice_that_is_listed_can_be_found():
    examples, paths = choices()[:-3], [text for text, _ in choices()[-3:]]
    assert [find(text).name for text, _ in examples]
    assert paths == ["PATH.json, PATH.graphml", "PATH.py:topo=NAME", "PATH.clab.yml"]
    assert all(description and "\n" not in description for _, description in choices())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "torus",
            (
                "there is no topology 'torus': choose grid, clusters, lan, figure-3-1, figure-3-2, a network of topohub such as"
                " topozoo/Arpanet19728, or a file that ends in .json, .graphml, .py, .yml, .yaml"
            ),
        ),
        (
            "grid:rows=2,columns=3",
            (
                "grid has no parameter 'columns': choose from rows, cols, hosts, "
                "bandwidth, delay, jitter, loss, burst, duplicate, reorder, queue"
            ),
        ),
        ("grid:cols=2", "grid needs rows: for example grid:rows=4,cols=4,hosts=3"),
        ("clusters", "clusters needs k and size and shape: for example clusters:k=4,size=3,shape=ring"),
        ("grid:rows=2,rows=3", "grid: rows is given twice"),
        ("grid:rows=two", "grid: rows: 'two' is not a whole number"),
        ("grid:rows", "grid: rows: '' is not a whole number"),
        ("figure-3-1:delay=5", "figure-3-1: delay: '5' is not a time: write a number and a unit, one of us, ms, s"),
        ("figure-3-2:repaired=maybe", "figure-3-2: repaired: 'maybe' is neither yes nor no"),
        ("grid:rows=0,cols=1", "rows must be at least 1, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_choices(text, sentence):
    with pytest.raises(NetworkError) as error:
        find(text)
    assert str(error.value) == sentence


def test_importing_networks_imports_none_of_the_heavy_packages():
    heavy = "{'networkx', 'topohub', 'matplotlib', 'numpy'}"
    program = f"import sys, topologies; assert not {heavy} & sys.modules.keys(), {heavy} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)
