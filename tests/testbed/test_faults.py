"""Every fault of the vocabulary on a real network, in runs as short as they can be."""

import json
from collections import Counter

import pytest

from scenarios import Scenario, Workload
from scenarios import faults as vocabulary
from scenarios.faults import Trigger
from testbed.errors import CannotRun
from testbed.network.doctor import Machine
from testbed.running import runner
from testbed.running.faults import refuse_impossible
from testbed.running.tasks import Task
from topologies import clusters

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]


class Finished:
    """The result directory of a run."""

    def __init__(self, directory):
        self.directory = directory
        self.record = json.loads((directory / "run.json").read_text())
        self.counters = json.loads((directory / "counters.json").read_text())["hosts"]
        self.faults = [json.loads(line) for line in (directory / "faults.jsonl").read_text().splitlines()]
        self.log = [json.loads(line) for line in (directory / "controller.jsonl").read_text().splitlines()]

    def events(self, host, name):
        lines = (self.directory / "events" / f"{host}.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def delivered(self, host):
        return [event["sequence"] for event in self.events(host, "deliver")]


@pytest.fixture
def play(machine, tmp_path):
    """Runs messages from h1 among three clusters in a ring, two hosts each, with faults."""

    def run(*faults, protocol="basic", messages=5, interval=50.0, settle=1500.0, network=None, medium="unicast"):
        workload = Workload(messages=messages, interval=interval, settle=settle, payload=64)
        scenario = Scenario(network=network or clusters(3, 2, "ring"), faults=faults, workload=workload)
        parameters = {"retry_ms": 100.0, "longest_retry_ms": 200.0} if protocol == "basic" else {"links": "none"}
        # Not packed: on a busy machine messages would share datagrams, and datagrams are counted.
        task = Task("test", scenario, {}, protocol, parameters, 1, tmp_path / "run", pack_ms=None, medium=medium)
        runner.run(task, machine, lambda *_: None)
        return Finished(tmp_path / "run")

    return run


def test_a_host_that_dies_between_two_datagrams_has_reached_exactly_the_hosts_before(play):
    """The sender crashes after its third datagram: a strict subset has the message, chosen by trigger and not by luck."""
    run = play(
        vocabulary.Crash(when=Trigger("send", host="h1", nth=3), host="h1"), protocol="best-effort", messages=1, settle=300
    )
    assert [len(run.delivered(host)) for host in ("h2", "h3", "h4", "h5", "h6")] == [1, 1, 1, 0, 0]
    assert run.record["problems"] == []
    assert run.counters["h1"]["sent"] == 3


def test_a_crashed_host_comes_back_with_its_storage_and_delivers_nothing_twice(play):
    run = play(
        vocabulary.Crash(when=Trigger("deliver", host="h3", sequence=2), host="h3"),
        vocabulary.Restart(at_ms=2000, host="h3"),
        vocabulary.Pause(at_ms=100, host="h5"),
        vocabulary.Resume(at_ms=500, host="h5"),
        settle=3500,
    )
    # Repeated messages may arrive in any order.
    assert sorted(run.delivered("h3")) == [1, 2, 3, 4, 5]
    assert [event["details"]["incarnation"] for event in run.events("h3", "start")] == [1, 2]
    assert sorted(run.delivered("h5")) == [1, 2, 3, 4, 5]
    assert {fault["fault"] for fault in run.faults} == {"pause", "crash", "resume", "restart"}
    assert run.record["problems"] == []


def test_a_source_that_stands_still_broadcasts_everything_when_it_goes_on(play):
    """A stopped process takes about ten requests; the others wait for it, and keep nothing else from happening."""
    run = play(
        vocabulary.Pause(at_ms=0, host="h1"),
        vocabulary.Crash(at_ms=400, host="h5"),
        vocabulary.Resume(at_ms=1000, host="h1"),
        messages=40,
        interval=20,
        settle=3000,
    )
    assert [fault["fault"] for fault in run.faults] == ["pause", "crash", "resume"]
    assert run.delivered("h1") == list(range(1, 41))
    assert sorted(run.delivered("h3")) == list(range(1, 41))
    assert run.record["problems"] == []


def test_what_a_killed_agent_leaves_unread_is_counted_and_so_is_what_comes_later(play):
    run = play(
        vocabulary.Pause(at_ms=0, host="h3"),
        vocabulary.Crash(at_ms=450, host="h3"),
        protocol="best-effort",
        messages=8,
        interval=100,
        settle=300,
        medium="multicast",
    )
    assert run.delivered("h3") == []
    counted = run.counters["h3"]
    assert counted["refused_unread"] >= 1
    assert counted["unreachable"] >= 1
    assert counted["refused_unread"] + counted["unreachable"] == 8


def test_a_host_that_lost_its_storage_delivers_again_and_its_log_tells(play):
    run = play(
        vocabulary.Crash(at_ms=150, host="h3"),
        vocabulary.Restart(at_ms=300, host="h3", storage="lost"),
        vocabulary.Crash(at_ms=160, host="h1"),
        vocabulary.Restart(at_ms=400, host="h1"),
        interval=10,
    )
    assert [event["details"]["incarnation"] for event in run.events("h3", "start")] == [1, 2]
    assert set(run.delivered("h3")) == {1, 2, 3, 4, 5}


def test_messages_at_the_door_are_dropped_and_duplicated(play):
    run = play(
        vocabulary.DropMessage(at_ms=0, host="h4", kind="Copy", nth=2),
        vocabulary.DuplicateMessage(at_ms=0, host="h5", kind="Copy", nth=1),
        vocabulary.Clock(at_ms=0, host="h6", offset_ms=5000, drift_ppm=100_000),
        protocol="best-effort",
        settle=300,
    )
    assert [fault["observed"] for fault in run.faults] == [
        "h4 drops Copy number 2 from now on",
        "h5 receives Copy number 1 from now on twice",
        "h6 has set its clock",
    ]
    assert run.record["problems"] == []
    assert run.counters["h4"]["refused_injected"] == 1
    assert len(run.delivered("h4")) == 4
    assert run.delivered("h5") == [1, 2, 3, 4, 5]
    assert run.counters["h5"]["received"] == 5


def test_one_way_loss_hits_one_way_and_is_counted_and_healed(play):
    """The way from h1 to h3 crosses s1-s2; its acknowledgements come back the same way."""
    run = play(
        vocabulary.LinkChange(at_ms=0, link="s1-s2", towards="s2", loss=1.0),
        vocabulary.Heal(at_ms=450),
    )
    drops = {(drop["source"], drop["target"]): drop["loss"] for drop in run.record["link_drops"]}
    assert drops["s1", "s2"] > 0
    assert Counter(drops.values())[0] == len(drops) - 1
    healed = next(fault["asked_ns"] for fault in run.faults if fault["fault"] == "heal")
    assert sorted(run.delivered("h3")) == [1, 2, 3, 4, 5]
    assert min(event["at_ns"] for event in run.events("h3", "deliver")) > healed


def test_links_flap_and_partitions_heal(play):
    run = play(
        vocabulary.Flap(at_ms=20, link="s2-s1", times=2, down_ms=50, up_ms=50),
        vocabulary.Partition(at_ms=300, sides=(("s1",),)),
        vocabulary.Heal(at_ms=900),
        messages=12,
        settle=2500,
    )
    pulled = Counter(fault["target"] for fault in run.faults if fault["fault"] == "link-down")
    assert pulled == {"s2-s1": 2, "s1-s2": 1, "s3-s1": 1}
    assert [fault["fault"] for fault in run.faults].count("link-up") == 2
    assert all(sorted(run.delivered(host)) == list(range(1, 13)) for host in ("h2", "h3", "h5"))


def test_flaps_and_partitions_may_come_some_time_after_their_trigger(play):
    """Each consists of several steps, and each step counts from when the waiting is over."""
    first = Trigger("broadcast", host="h1", sequence=1, after_ms=50)
    run = play(
        vocabulary.Flap(when=first, link="s2-s3", times=2, down_ms=50, up_ms=50),
        vocabulary.Partition(when=first, sides=(("s1",),)),
        vocabulary.Heal(at_ms=500),
        settle=1000,
    )
    assert Counter((fault["fault"], fault["target"]) for fault in run.faults) == {
        ("link-down", "s2-s3"): 2,
        ("link-up", "s2-s3"): 2,
        ("link-down", "s1-s2"): 1,
        ("link-down", "s3-s1"): 1,
        ("heal", ""): 1,
    }
    assert all(fault["observed"] for fault in run.faults)
    (broadcast, *_) = run.events("h1", "broadcast")
    assert min(fault["asked_ns"] for fault in run.faults) >= broadcast["at_ns"] + 50_000_000
    assert run.record["problems"] == []


def test_a_switch_that_stops_takes_its_hosts_off_until_it_is_back(play):
    run = play(vocabulary.SwitchStop(at_ms=0, switch="s2"), vocabulary.SwitchStart(at_ms=700, switch="s2"), settle=3000)
    back = next(fault["asked_ns"] for fault in run.faults if fault["fault"] == "switch-start")
    for host in ("h3", "h4"):
        assert sorted(run.delivered(host)) == [1, 2, 3, 4, 5]
        assert max(event["at_ns"] for event in run.events(host, "deliver")) > back
    assert run.delivered("h5") == [1, 2, 3, 4, 5]


def test_without_a_controller_nobody_reroutes(play):
    run = play(
        vocabulary.ControllerStop(at_ms=0),
        vocabulary.LinkDown(at_ms=50, link="s1-s2"),
        vocabulary.ControllerStart(at_ms=800),
        interval=100,
        settle=12_000,
    )
    started = next(fault["asked_ns"] for fault in run.faults if fault["fault"] == "controller-start")
    pulled = next(fault["applied_ns"] for fault in run.faults if fault["fault"] == "link-down")
    sent_late = {event["sequence"] for event in run.events("h1", "broadcast") if pulled < event["at_ns"] < started}
    late = [event["at_ns"] for event in run.events("h3", "deliver") if event["sequence"] in sent_late]
    assert late
    assert min(late) > started
    assert sorted(run.delivered("h3")) == [1, 2, 3, 4, 5]


def test_a_trigger_that_never_fires_is_a_problem_of_the_run(play):
    run = play(vocabulary.LinkDown(when=Trigger("leader"), link="s1-s2"), messages=1, settle=200)
    assert run.record["problems"] == ["the fault link-down s1-s2 never happened: its trigger did not fire"]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (vocabulary.LinkChange(at_ms=0, link="s1-s2", delay_ms=5), "has no netem"),
        (vocabulary.LinkChange(at_ms=0, link="s1-s2", duplicate=0.1), "run with ./castbed vm"),
        (vocabulary.LinkChange(at_ms=0, link="s1-s2", burst=3), "need --on simulator"),
        (vocabulary.LinkDown(when=Trigger("send", host="h1"), link="s1-s2"), "can wait for a send"),
        (vocabulary.Crash(when=Trigger("send", host="h1"), host="h2"), "can wait for a send"),
    ],
)
def test_what_this_engine_cannot_do_is_refused_by_name(fault, sentence):
    with pytest.raises(CannotRun, match=sentence):
        refuse_impossible((fault,), Machine((), kernel_datapath=False, netem=False))


@pytest.mark.parametrize("back", [(), (vocabulary.SwitchStart(at_ms=900, switch="s1"),)])
def test_drops_are_counted_once_when_their_switch_stops(play, back):
    """Five messages to two hosts are lost on their way out of s1, whose bridge is taken away when they are."""
    run = play(
        vocabulary.LinkChange(at_ms=0, link="s1-s2", towards="s2", loss=1.0),
        vocabulary.SwitchStop(at_ms=600, switch="s1"),
        *back,
        protocol="best-effort",
        interval=20,
    )
    drops = {(drop["source"], drop["target"]): drop["loss"] for drop in run.record["link_drops"]}
    assert drops["s1", "s2"] == 2 * run.counters["h2"]["received"] > 0
    assert run.record["problems"] == []


def test_what_a_failed_link_takes_along_is_not_its_loss(play):
    """Thirty datagrams of some hundred bytes wait for a link of 8 kbit/s that is pulled, and more are sent before routes change."""
    run = play(
        vocabulary.LinkDown(at_ms=500, link="s1-s2"),
        vocabulary.LinkUp(at_ms=900, link="s1-s2"),
        vocabulary.Heal(at_ms=1000),
        protocol="best-effort",
        messages=200,
        interval=2,
        network=clusters(3, 2, "ring", bandwidth_mbit=0.008),
    )
    assert {drop["loss"] for drop in run.record["link_drops"]} == {0}
    assert run.record["problems"] == []


def test_a_late_host_and_a_host_that_departs_leave_no_trace_before_and_after(play):
    """h5 comes late and gets what is still repeated; h6 leaves for good, and a restart does not bring it back."""
    run = play(
        *(vocabulary.Arrive(at_ms=150, host="h5"), vocabulary.Depart(at_ms=125, host="h6")),
        *(vocabulary.Restart(at_ms=140, host="h6"), vocabulary.Crash(at_ms=130, host="h6")),
    )
    assert run.record["problems"] == []
    late, *others = run.faults
    assert (late["fault"], late["target"]) == ("late", "h5")
    assert [(fault["fault"], fault["observed"]) for fault in others] == [
        ("depart", "h6 down"),
        ("crash", "h6 down"),
        ("restart", "h6 down"),
        ("arrive", "h5 up"),
    ]
    (started,) = run.events("h5", "start")
    assert others[-1]["asked_ns"] < started["at_ns"] < others[-1]["applied_ns"]
    assert sorted(run.delivered("h5")) == [1, 2, 3, 4, 5]
    last = json.loads((run.directory / "events" / "h6.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "stop"
    assert run.counters["h5"]["unreachable"] + run.counters["h6"]["unreachable"] > 0
