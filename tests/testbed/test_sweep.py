"""Sweeps: every point of the grid, what is done stays done, and what cannot be made is kept and listed."""

import dataclasses
import json
import shutil

import pytest

from scenarios import ScenarioError, catalogue
from testbed.errors import CannotRun
from testbed.running import simulated, sweep
from testbed.running.tasks import result_directory
from tests.testbed.conftest import castbed, start_castbed

SWEEP = ("sweep", "clusters", "--over", "protocol=best-effort,basic", "--over", "k=2,3", "--repeat", "2", "--on", "simulator")
SMALL = ("--set", "size=1", "--set", "shape=line", "--set", "messages=2", "--set", "settle=1s")


def plan(**changes):
    asked = {
        "scenario": "clusters",
        "engine": "simulator",
        "axes": {"protocol": ("basic",)},
        "fixed": (),
        "protocols": (),
        "seed": 1,
        "repeat": 1,
        "pack_ms": 0.0,
    }
    return sweep.SweepPlan(**asked | changes)


def made(out):
    return {path.parent.relative_to(out): path.stat().st_mtime_ns for path in out.rglob("run.json")}


def test_every_point_is_made_once_for_each_seed(tmp_path):
    axes = {"protocol": ("basic", "cluster-tree"), "loss": ("0%", "5%"), "basic.retry_ms": ("100", "200")}
    tasks = sweep.tasks(plan(axes=axes, repeat=3), tmp_path)
    assert len(tasks) == 2 * 2 * 2 * 3
    assert len({task.output for task in tasks}) == len(tasks)
    assert {task.scenario.network.link("s1", "s2").loss for task in tasks} == {0.0, 0.05}
    assert {task.parameters.get("retry_ms") for task in tasks if task.protocol == "basic"} == {100.0, 200.0}
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)
    assert tasks[-1].output == tmp_path / "cluster-tree-loss-5pct-basic.retry_ms-200" / "3"


def test_a_sweep_can_be_over_media(tmp_path):
    tasks = sweep.tasks(plan(axes={"medium": ("unicast", "multicast")}, protocols=("basic",)), tmp_path)
    assert [(task.medium, task.label, task.settings) for task in tasks] == [
        ("unicast", "basic-medium-unicast", {}),
        ("multicast", "basic-medium-multicast", {}),
    ]
    assert [task.medium for task in sweep.tasks(plan(medium="multicast"), tmp_path)] == ["multicast"]


@pytest.mark.parametrize("words", [["loss"], ["loss="], ["loss=1%,"], ["loss=1%", "loss=2%"]])
def test_axes_that_make_no_sense_are_refused(words):
    with pytest.raises(CannotRun, match="--over loss"):
        sweep.read_axes(words)


def test_another_sweep_in_the_same_place_is_refused(tmp_path):
    sweep.begin(plan(), tmp_path / "out")
    sweep.begin(plan(), tmp_path / "out")
    with pytest.raises(CannotRun, match="holds another sweep"):
        sweep.begin(plan(seed=2), tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(CannotRun, match="holds no sweep"):
        sweep.begin(plan(), tmp_path / "full")


def test_a_run_that_breaks_off_leaves_nothing_that_looks_complete(tmp_path):
    (task,) = sweep.tasks(plan(), tmp_path)

    def breaks_off(inside):
        inside.output.mkdir(parents=True)
        (inside.output / "run.json").touch()
        raise CannotRun("the machine is on fire")

    assert sweep.make(task, breaks_off) == "the machine is on fire"
    assert made(tmp_path) == {}


def shortest(scenario, out):
    """A sweep of a scenario with as few broadcasts as it admits."""
    asked = {"scenario": scenario, "axes": {"settle": ("1ms", "2ms")}}
    try:
        return sweep.tasks(plan(**asked, fixed=("messages=1",)), out)
    except ScenarioError:
        # Each of its broadcasts has its own time.
        return sweep.tasks(plan(**asked), out)


@pytest.mark.parametrize("scenario", catalogue.names())
def test_every_scenario_can_be_swept_and_what_was_made_counts_as_made(scenario, tmp_path):
    """One run is simulated; of the others only what is asked of them is written, as that is what they are known by."""
    first, *others = shortest(scenario, tmp_path)
    assert others
    assert not sweep.is_made(first)
    assert sweep.make(first, lambda inside: simulated.run(inside, lambda *_: None)) == ""
    for task in others:
        with result_directory(task):
            (task.output / "run.json").touch()
    assert all(sweep.is_made(task) for task in (first, *others))


def test_a_run_of_what_a_scenario_was_before_it_changed_is_refused(tmp_path):
    (task,) = sweep.tasks(plan(axes={"settle": ("1ms",)}, protocols=("basic",)), tmp_path)
    sweep.make(task, lambda inside: simulated.run(inside, lambda *_: None))
    changed = dataclasses.replace(task, scenario=dataclasses.replace(task.scenario, sources=("h2",)))
    with pytest.raises(CannotRun, match="is a run of an earlier version of"):
        sweep.is_made(changed)


def test_a_sweep_that_is_killed_goes_on_without_repeating_what_was_done(tmp_path):
    out = tmp_path / "sweep"
    words = (*SWEEP, *SMALL, "--out", str(out), "--json")
    with start_castbed(*words) as first:
        for line in first.stderr:
            if "simulating: 4 of 8" in line:
                first.kill()
                break
    before = made(out)
    assert len(before) >= 4
    # Were it all done before the kill, this makes sure that something is left to do.
    gone = max(before, key=before.get)
    shutil.rmtree(out / gone)
    del before[gone]
    second = castbed(*words)
    assert second.returncode == 0, second.stderr
    after = made(out)
    assert len(after) == 8
    assert {run: after[run] for run in before} == before
    told = json.loads(second.stdout)
    assert len(told["runs"]) == 8
    assert told["failures"] == []
    assert {run["verdict"] for run in told["runs"]} == {"holds"}


@pytest.mark.root
def test_on_mininet_what_cannot_be_made_is_listed_and_the_rest_is_done(tmp_path):
    """A queue that is too long for a userspace switch, or on other kernels for nobody."""
    out = tmp_path / "sweep"
    queues = ("--over", "queue=10,251")
    words = ("sweep", "clusters", "--protocol", "best-effort", *queues, "--set", "k=2", *SMALL, "--out", str(out), "--json")
    done = castbed(*words)
    told = json.loads(done.stdout)
    if told["failures"]:
        assert done.returncode == 2
        assert [failure["run"] for failure in told["failures"]] == ["best-effort-queue-251/1"]
        assert "too long for switches in userspace" in (out / "failures.jsonl").read_text()
    assert len(told["runs"]) + len(told["failures"]) == 2


def test_a_sweep_over_media_is_refused_where_the_scenario_has_them(tmp_path):
    with pytest.raises(
        CannotRun, match="the medium of propagation-graph belongs to the scenario table_4_2: leave it out of --over"
    ):
        sweep.tasks(plan(scenario="table_4_2", axes={"medium": ("unicast", "multicast")}), tmp_path)
