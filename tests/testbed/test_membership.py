"""Membership and triggers with real packets: what `tests/simulator/test_membership.py` shows in virtual time."""

import json
from pathlib import Path

import pytest

from analysis.judging.check_run import connectivity_of, history_of
from hostagent.protocols import PROTOCOLS
from runfiles.reading import load
from scenarios import Broadcast, Scenario, Workload
from scenarios.faults import Arrive, Crash, CutOff, Depart, Heal, Join, Leave, Pause, Resume, Trigger
from scenarios.groups import Group
from testbed.running import agents, runner
from testbed.running.tasks import Task
from tests.hostagent import managed
from tests.testbed.conftest import ROOT
from topologies import clusters

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]
ALPHA = Group("alpha", ("h1", "h2"))
EVERY = Group("every", ("h1", "h2", "h3"))
FAST = {"retry_ms": 100.0, "longest_retry_ms": 200.0}


@pytest.fixture
def play(machine, tmp_path, monkeypatch):
    """Runs a protocol of the tests on three clusters in a ring, one host each, on the multicast medium."""
    for core in (managed.Managed, managed.Marking):
        monkeypatch.setitem(PROTOCOLS, core.name, core)
    monkeypatch.setattr(agents, "LAUNCHER", (str(Path(managed.__file__)),))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*faults, protocol, script, groups, settle, parameters=None, size=1):
        broadcasts = tuple(Broadcast(at_ms=at_ms, source=source, to=to, payload=64) for at_ms, source, to in script)
        scenario = Scenario(
            network=clusters(3, size, "ring"), faults=faults, script=broadcasts, groups=groups, workload=Workload(settle=settle)
        )
        task = Task("test", scenario, {}, protocol, parameters or {}, 1, tmp_path / "run", medium="multicast")
        runner.run(task, machine, lambda *_: None)
        return load(tmp_path / "run")

    return run


def injected(run):
    return [(fault.fault, fault.target, fault.observed) for fault in run.faults]


def events(run, host, *names):
    lines = (run.directory / "events" / f"{host}.jsonl").read_text().splitlines()
    return [event["event"] for event in map(json.loads, lines) if event["event"] in names]


def test_hosts_join_leave_arrive_and_depart_on_a_network_that_multicasts(play):
    run = play(
        *(Arrive(at_ms=100, host="h3"), Join(at_ms=200, host="h3", group="alpha")),
        *(Leave(when=Trigger("view", host="h3", details={"view": 1}), host="h2", group="alpha"), Depart(at_ms=1200, host="h2")),
        protocol="managed",
        script=((0, "h1", "alpha"), (1000, "h1", "alpha"), (1000, "h3", "alpha")),
        groups=(ALPHA,),
        settle=1000.0,
        parameters=FAST,
    )
    assert run.run.problems == ()
    assert injected(run) == [
        ("late", "h3", ""),
        ("arrive", "h3", "h3 up"),
        ("join", "h3", "h3 asks to join alpha"),
        ("leave", "h2", "h2 asks to leave alpha"),
        ("depart", "h2", "h2 down"),
    ]
    history = history_of(run)
    assert {(view.host, view.view, view.members) for view in history.views} == {
        (host, number, members) for host in ("h1", "h2", "h3") for number, members in ((1, ("h1", "h2", "h3")), (2, ("h1", "h3")))
    }
    assert {(delivery.host, *delivery.message) for delivery in history.deliveries} == {
        *(("h1", "h1", 1), ("h2", "h1", 1)),
        *(("h1", "h1", 2), ("h3", "h1", 2), ("h1", "h3", 1), ("h3", "h3", 1)),
    }
    assert connectivity_of(run).correct == {"h1", "h3"}
    assert events(run, "h2", "start", "stop") == ["start", "stop"]
    # The tree has been changed twice: when h3 joined, and when h2 had left.
    lines = map(json.loads, (run.directory / "controller.jsonl").read_text().splitlines())
    assert sum(line.get("cause") == "groups_changed" for line in lines) == 2


def test_any_mark_triggers_a_fault_and_the_token_holder_can_be_cut_off_and_crash(play):
    marks = ("receive", "deliver", "take-back", "commit", "token")
    run = play(
        *(Pause(host="h2", when=Trigger(mark, host="h3", origin="h1", sequence=1)) for mark in marks),
        Resume(at_ms=600, host="h2"),
        CutOff(host="", when=Trigger("token", origin="h1", sequence=2, details={"group": 1}, nth=2)),
        Heal(at_ms=1200),
        Crash(host="", when=Trigger("commit", sequence=3, last="token")),
        protocol="marking",
        script=((0, "h1", "every"), (700, "h1", "every"), (1500, "h1", "every")),
        groups=(EVERY,),
        settle=700.0,
    )
    assert run.run.problems == ()
    assert [(fault, target) for fault, target, _ in injected(run)] == [
        *[("pause", "h2")] * len(marks),
        ("resume", "h2"),
        *(("link-down", "s2-s3"), ("link-down", "s3-s1"), ("heal", "")),
        ("crash", "h3"),
    ]
    assert events(run, "h3", "commit") == ["commit"] * 3
    assert events(run, "h3", "stop") == []
