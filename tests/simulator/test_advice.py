"""Propagation graphs that look at the network, in campaigns and in runs that are repeated: the hosts are told the distances."""

from argparse import Namespace

import pytest

from runfiles.reading import load
from scenarios.catalogue import find
from simulator.campaign import run_seed
from testbed.commands.run import _again
from testbed.running import simulated
from testbed.running.settings import choose
from testbed.running.tasks import Task


@pytest.mark.parametrize("medium", ["unicast", "multicast"])
@pytest.mark.parametrize("graph", ["heuristic-2", "heuristic-3", "minimum-spanning-tree", "shortest-path-tree"])
def test_no_random_case_breaks_a_promise_whatever_the_graph(graph, medium):
    lines = [run_seed("propagation-graph", seed, {"graph": graph}, medium) for seed in range(12)]
    assert [line for line in lines if line.verdict != "holds" and not line.beyond] == []


def test_a_run_that_is_repeated_gets_the_recorded_advice_and_is_the_same_to_the_byte(tmp_path):
    asked = {"propagation-graph": {"graph": "heuristic-3"}}
    (variant,) = choose(find("groups_change").build({"messages": "40"}), (), asked)
    words = "groups_change", variant.scenario, {}, variant.protocol, dict(variant.parameters), 1, tmp_path / "first", "first"
    simulated.run(Task(*words), lambda *_: None)
    recorded = load(tmp_path / "first")
    assert recorded.run.parameters["advice"] == variant.parameters["advice"]
    again = _again(recorded, tmp_path / "first", tmp_path / "again", 0, Namespace(trust=False, medium=None, full_packets=False))
    simulated.run(again, lambda *_: None)
    logs = [
        {path.name: path.read_bytes() for path in (place / "events").iterdir()} for place in (tmp_path / "first", again.output)
    ]
    assert logs[0] == logs[1]
    assert any(b'"view"' in log for log in logs[0].values()), "groups have changed"
