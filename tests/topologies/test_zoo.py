"""Real networks by name."""

import pytest

from topologies import NetworkError, zoo_names, zoo_network

ARPANET = "topozoo/Arpanet19728"


def test_the_arpanet_has_a_lan_at_every_node_and_expensive_lines_between_them():
    network = zoo_network(ARPANET, hosts_per_switch=2)
    assert (len(network.switches), len(network.hosts), len(network.clusters)) == (29, 58, 29)
    assert sum(link.expensive for link in network.links) == 32


def test_switches_keep_their_longitude_and_latitude():
    assert zoo_network(ARPANET).positions["s1"] == (-89.64, 39.8)


def test_links_have_no_delay_unless_it_is_asked_for():
    assert {link.delay_ms for link in zoo_network(ARPANET).links} == {0.0}


def test_delay_from_length_is_200_km_a_millisecond():
    link = zoo_network(ARPANET, delay_from_length=True, loss=0.5).link("s1", "s27")
    assert link.delay_ms == pytest.approx(1885.69 / 200)
    assert link.loss == 0.5


def test_names_of_every_group_are_listed():
    assert {name.split("/")[0] for name in zoo_names()} >= {"topozoo", "sndlib", "gabriel"}
    assert len(zoo_network("gabriel/25/0").switches) == 25


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "topozoo/arpanet1972"}, r"topohub has no network 'topozoo/arpanet1972'; did you mean topozoo/Arpanet19728.*\?"),
        ({"name": "../../secret"}, r"topohub has no network '../../secret'; its \d+ names are like .*, in the groups .*topozoo"),
        ({"name": ARPANET, "hosts_per_switch": 0}, "hosts_per_switch must be at least 1, not 0"),
        (
            {"name": ARPANET, "delay_from_length": True, "delay_ms": 1.0},
            "give either delay_ms or delay_from_length, not both",
        ),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(arguments, sentence):
    with pytest.raises(NetworkError, match=sentence):
        zoo_network(**arguments)
