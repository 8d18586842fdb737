"""castbed graph: propagation graphs from text, files, scenarios and at random; it needs neither root nor Spark."""

import json

import pytest

from testbed.__main__ import parser
from testbed.errors import CannotRun

FIGURE_3_4 = "alpha1:b,d,a,e;alpha2:b,c,f;alpha3:d,e,f,g"


def graph(capsys, *words) -> tuple[int, str]:
    arguments = parser().parse_args(["graph", *map(str, words)])
    return arguments.call(arguments), capsys.readouterr().out


def test_the_table_has_the_forest_primary_destinations_depth_extra_sites_and_properties(capsys):
    status, shown = graph(capsys, FIGURE_3_4)
    assert status == 0
    assert (
        "b  (primary destination of alpha1, alpha2)\n  a\n  c\n  d  (primary destination of alpha3)\n    e\n    f\n    g\n"
        in shown
    )
    assert [line.split() for line in shown.splitlines() if line.startswith("  alpha2")] == [
        ["alpha2", *"bcf", "b", "2", "d", "4"]
    ]
    assert "PG3: yes\nPG4: no, d is an extra site of alpha2\none order: yes" in shown


def test_independence_adds_an_edge_past_the_extra_site(capsys):
    status, shown = graph(capsys, FIGURE_3_4, "--independent")
    assert status == 0
    assert "b -> f for alpha2, past the sites between them" in shown
    assert "PG4: yes" in shown


def test_machines_get_json_and_groups_may_be_a_file(capsys, tmp_path):
    (tmp_path / "groups.json").write_text('{"alpha": ["h1", "h2"], "beta": ["h2", "h5"]}')
    status, shown = graph(
        capsys, tmp_path / "groups.json", "--on", "clusters:k=2,size=3,shape=line", "--by", "shortest-path-tree", "--json"
    )
    figures = json.loads(shown)
    assert status == 0
    assert figures["groups"]["beta"]["primary"] == "h2"
    assert figures["parents"].keys() == {f"h{number}" for number in range(1, 7)}
    assert figures["problems"]["one order"] == ""


def test_random_groups_among_many_sites_follow_from_the_seed(capsys):
    words = "random:sites=60,groups=20,size=5,seed="
    shown = [graph(capsys, f"{words}{seed}", "--json")[1] for seed in (7, 7, 8)]
    assert shown[0] == shown[1] != shown[2]
    assert len(json.loads(shown[0])["groups"]) == 20


def test_the_forest_is_drawn_by_itself_and_on_the_network(capsys, tmp_path):
    graph(capsys, "alpha:h1,h2;beta:h2,h5", "--on", "clusters:k=2,size=3,shape=line", "--save", tmp_path / "forest")
    names = ("forest.png", "forest.svg", "forest-on-network.png", "forest-on-network.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("alpha:h1", "--by", "heuristic-2"), "--by heuristic-2 needs a network: name it with --on"),
        (("alpha:h1,h99", "--on", "clusters:k=2,size=3,shape=line"), "group 'alpha' names 'h99', which is not a host"),
        (("clusters",), "clusters has no groups"),
        (("random:sites=5,groups=0,size=1",), "there must be at least one site and one group"),
        (("random:sites=5,groups=2,size=9",), "random groups of 9 hosts: there are 5 hosts"),
        (("random:groups=2,size=3",), "say among how many sites, as in random:sites=20"),
        (("nonsense",), "write NAME:HOST,HOST;NAME:HOST,HOST"),
        (("random:sites=9,groups=2,size=3", "--on", "clusters:k=2,size=3,shape=line"), "the network has only 6 hosts"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(capsys, words, sentence):
    with pytest.raises(CannotRun, match=sentence):
        graph(capsys, *words)
