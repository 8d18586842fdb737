"""Membership and triggers with real packets: what `tests/simulator/test_membership.py` shows in virtual time."""

import json
import time
from pathlib import Path

import pytest

from analysis.judging.check_run import connectivity_of, history_of
from hostagent.protocols import PROTOCOLS
from runfiles.reading import load
from scenarios import Broadcast, Scenario, Workload
from scenarios.faults import Arrive, Crash, CutOff, Depart, FaultError, Heal, Join, Leave, Pause, Resume, Trigger
from scenarios.groups import Group
from scenarios.scenario import dump
from scenarios.scenario import load as read_scenario
from simulator.engine import simulate
from testbed.live import views
from testbed.live.session import Live
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

    def run(*faults, protocol, script=(), groups=(), settle=0.0, parameters=None, play=None):
        broadcasts = tuple(Broadcast(at_ms=at_ms, source=source, to=to, payload=64) for at_ms, source, to in script)
        scenario = Scenario(
            network=clusters(3, 1, "ring"), faults=faults, script=broadcasts, groups=groups, workload=Workload(settle=settle)
        )
        task = Task("test", scenario, {}, protocol, parameters or {}, 1, tmp_path / "run", medium="multicast")
        runner.run(task, machine, lambda *_: None, play=play)
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
        ("tree", "group 1", ""),
        ("join", "h3", "h3 asks to join alpha"),
        ("leave", "h2", "h2 asks to leave alpha"),
        ("tree", "group 1", ""),
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


def until(live, condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition(live.snapshot()):
        assert time.monotonic() < deadline, live.do("status")
        time.sleep(0.02)


def test_groups_are_made_and_hosts_join_and_leave_in_a_network_that_is_up(play, tmp_path):
    refused = {
        "group alpha h1,h3": "group 'alpha' is named twice",
        "group beta h9": "group 'beta' names 'h9', which is not a host of the network",
        "group gamma": "write group alpha h1,h2",
        "join h1 alpha": "fault join h1: h1 is in group 'alpha' already",
        "join h1 omega": "fault join h1: there is no group 'omega'; choose from everybody, alpha",
        "leave h3 alpha": "fault leave h3: h3 is not in group 'alpha'",
        "multicast h1 omega hello": "there is no group and no host 'omega': the groups are everybody, alpha",
        "multicast h1 h2,h2 hello": "the list of destinations names h2 twice",
        "fault fault=arrive host=h2": "h2 is there already",
    }

    def converse(stage, _):
        live = Live(stage, "lab")
        live.stream(0.0)
        with live:
            assert live.do("group alpha h1,h2") == "group alpha: h1, h2"
            for line, sentence in refused.items():
                with pytest.raises(FaultError, match=sentence):
                    live.do(line)
            live.do("multicast h3 alpha to h1 and h2")
            assert live.do("join h3 alpha") == "join h3: h3 asks to join alpha"
            until(live, lambda now: now.groups == {"alpha": ("h1", "h2", "h3")})
            live.do("crash h2")
            live.do("restart h2")
            until(live, lambda now: all(host.state == "up" and not host.missing for host in now.hosts))
            live.do("multicast h2 alpha to all three")
            until(live, lambda now: sum(host.delivered for host in now.hosts) == 5)
            live.do("leave h2 alpha")
            until(live, lambda now: now.groups == {"alpha": ("h1", "h3")})
            assert "group alpha: h1, h3" in live.do("status")
            assert "groups: alpha h1,h3" in views.line(live.snapshot(), live.snapshot())
            with pytest.raises(FaultError, match="fault join h1: h1 is in group 'alpha' already"):
                live.do("join h1 alpha")
            assert live.do("depart h2") == "depart h2: h2 down"
            with pytest.raises(FaultError, match="h2 has departed, and does not come back"):
                live.do("broadcast h2 hello")
            live.do("multicast h1 h1,h3 listed")
            until(live, lambda now: [host.delivered for host in now.hosts] == [3, 2, 2])
            dump(live.asked(), tmp_path / "asked.json")

    run = play(protocol="managed", settle=1000.0, parameters=FAST, play=converse)
    assert run.run.problems == ()
    again = read_scenario(tmp_path / "asked.json", run.network)
    assert [group.name for group in again.groups] == ["alpha"]
    outcome = simulate(again, managed.Managed, managed.Managed.Parameters(**FAST), 1, multicasts=True)
    expected = {(delivery.host, *delivery.message) for delivery in history_of(run).deliveries}
    assert {(host, e.origin, e.sequence) for host, e in outcome.events if e.event == "deliver"} == expected
