"""The parameters of the propagation graph as users set them: advice comes from the network, and nonsense is refused with a sentence."""

import pytest

from scenarios import ScenarioError
from scenarios.catalogue import find
from testbed.errors import CannotRun
from testbed.running.settings import choose, split_settings


def chosen(scenario="groups_change", settings=None, **parameters):
    return choose(find(scenario).build(settings or {}), ("propagation-graph",), {"propagation-graph": parameters})


@pytest.mark.parametrize("method", ["heuristic-2", "heuristic-3", "minimum-spanning-tree", "shortest-path-tree"])
def test_a_graph_that_looks_at_the_network_is_given_the_distances_on_each(method):
    advice = [variant.parameters["advice"] for variant in chosen("propagation_graph", graph=method)]
    assert len(set(advice)) == len(advice) == 3, "the ring, the line and the grid have different distances"
    assert all("advice" not in variant.parameters for variant in chosen("propagation_graph"))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"manager": "h99"}, "protocol propagation-graph: manager=h99: there is no such host"),
        ({"graph": "heuristic-4"}, "graph=heuristic-4: choose from heuristic-1, heuristic-2, heuristic-3, random"),
        ({"advice": "0.0|AAAA"}, "propagation-graph.advice cannot be set: it is worked out from the network"),
        ({"independent": True, "failures": "non-atomic"}, "independent=true needs failures=atomic"),
        ({"children": -1}, "children=-1: must be a whole number of at least 0"),
        ({"silence_ms": 0}, "silence_ms=0: must be a number of at least 0.1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(parameters, sentence):
    with pytest.raises(CannotRun, match=sentence):
        chosen(**parameters)


def test_words_for_yes_and_no_are_read_as_such():
    assert split_settings(["propagation-graph.independent=true"])[1] == {"propagation-graph": {"independent": True}}


def test_groups_of_sites_that_do_not_exist_are_refused_with_a_sentence():
    with pytest.raises(ScenarioError, match="group 'a' names 'h99', which is not a host of the network"):
        chosen("groups", {"groups": "a:h1,h99"})
