"""Every word of the vocabulary does in virtual time what it says."""

import pytest

from analysis.judging.connectivity import Connectivity
from runfiles.format import LATE, FaultRecord
from scenarios import faults as vocabulary
from scenarios.faults import (
    Clock,
    ControllerStart,
    ControllerStop,
    Crash,
    DropMessage,
    DuplicateMessage,
    Flap,
    Heal,
    LinkChange,
    LinkDown,
    LinkUp,
    Partition,
    Pause,
    Restart,
    Resume,
    SwitchStart,
    SwitchStop,
    Trigger,
    trunks,
)
from simulator.faults import Healing
from tests.hostagent.managed import Managed
from tests.simulator.conftest import MS

RING = "clusters:k=3,size=1,shape=ring,delay=10ms"


def every_50_ms(stage, script="send h2", host="h1", until_ms=1000):
    """Have a host do the same every 50 ms; when each of its messages is sent."""
    for number in range(until_ms // 50):
        stage.tell(host, script, at_ms=number * 50)


def arrived(stage, host="h2"):
    """When the messages were sent that have reached a host, by their numbers."""
    return [(sequence - 1) * 50 for _, sequence in stage.received(host)]


def injected(stage):
    return [(record.applied_ns / MS, record.fault, record.target) for record in stage.player.records]


def test_a_link_is_down_from_its_fall_to_its_rise(started):
    stage = started(
        "clusters:k=2,size=1,shape=line",
        faults=[LinkDown(at_ms=90, link="s1-s2"), LinkUp(at_ms=240, link="s2-s1")],
    )
    every_50_ms(stage)
    stage.run(2000)
    # Plugged in at 240 ms, and routed over again 20 ms later.
    assert arrived(stage) == [0, 50, *range(300, 1000, 50)]


def test_a_link_loses_in_one_direction_only(started):
    stage = started("clusters:k=2,size=1,shape=line", faults=[LinkChange(at_ms=0, link="s1-s2", towards="s2", loss=1.0)])
    stage.tell("h1", "send h2")
    stage.tell("h2", "send h1")
    stage.run(1000)
    assert (stage.received("h1"), stage.received("h2")) == ([("h2", 1)], [])


def test_a_changed_link_keeps_what_is_not_changed_until_it_is_healed(started):
    stage = started(faults=[LinkChange(at_ms=0, link="s1-s2", loss=0.5, bandwidth_mbit=2.0), Heal(at_ms=10)])
    pipe = stage.world.pipes["s2", "s1"]
    stage.run(5)
    assert (pipe.properties.loss, pipe.properties.bandwidth_mbit, pipe.properties.delay_ms) == (0.5, 2.0, 10.0)
    stage.run(20)
    assert pipe.properties == stage.world.network.link("s1", "s2")


def test_healing_plugs_in_every_link(started):
    stage = started(RING, faults=[Partition(at_ms=0, sides=(("s1",), ("s2",))), Heal(at_ms=100)])
    stage.run(50)
    assert not any(stage.world.pipes[pair].up for pair in (("s1", "s2"), ("s2", "s3"), ("s3", "s1")))
    stage.run(150)
    assert all(pipe.up for pipe in stage.world.pipes.values())


def test_healing_leaves_a_stopped_switch_stopped(started):
    stage = started(RING, faults=[SwitchStop(at_ms=0, switch="s2"), Heal(at_ms=10)])
    stage.run(50)
    assert not stage.world.pipes["s1", "s2"].up
    assert stage.world.pipes["s1", "s3"].up


def test_a_link_between_a_stopped_switch_and_another_stays_down_until_both_are_well(started):
    faults = [
        *(LinkDown(at_ms=0, link="s1-s2"), SwitchStop(at_ms=0, switch="s1"), SwitchStop(at_ms=0, switch="s2")),
        *(SwitchStart(at_ms=10, switch="s1"), LinkUp(at_ms=20, link="s1-s2"), SwitchStart(at_ms=30, switch="s2")),
    ]
    stage = started(RING, faults=faults)
    seen = []
    for at_ms in (5, 15, 25, 35):
        stage.run(at_ms)
        seen.append(stage.world.pipes["s1", "s2"].up)
    assert seen == [False, False, False, True]


def test_a_flap_goes_down_and_up_as_often_as_it_says(started):
    stage = started(faults=[Flap(at_ms=100, link="s1-s2", times=2, down_ms=30, up_ms=70)])
    stage.run(1000)
    assert injected(stage) == [
        (100, "link-down", "s1-s2"),
        (130, "link-up", "s1-s2"),
        (200, "link-down", "s1-s2"),
        (230, "link-up", "s1-s2"),
    ]


def test_a_partition_pulls_the_links_between_sides_and_the_unnamed_are_one_side(started):
    stage = started("grid:rows=2,cols=3", faults=[Partition(at_ms=0, sides=(("s1", "s4"), ("s2",)))])
    stage.run(10)
    down = {frozenset(pair) for pair, pipe in stage.world.pipes.items() if not pipe.up}
    assert down == {frozenset(pair) for pair in (("s1", "s2"), ("s2", "s3"), ("s2", "s5"), ("s4", "s5"))}


def test_a_stopped_switch_takes_its_hosts_off_and_others_go_round_it(started):
    stage = started(RING, faults=[SwitchStop(at_ms=0, switch="s2")])
    stage.tell("h1", "send h2\nsend h3", at_ms=100)
    stage.tell("h2", "send h1", at_ms=100)
    stage.run(1000)
    assert stage.received("h3") == [("h1", 1)]
    assert not stage.received("h1") + stage.received("h2")


def test_a_switch_that_starts_has_no_flows_until_the_controller_gives_it_some(started):
    faults = [
        *(ControllerStop(at_ms=0), SwitchStop(at_ms=0, switch="s2"), SwitchStart(at_ms=10, switch="s2")),
        ControllerStart(at_ms=500),
    ]
    stage = started(RING, faults=faults)
    every_50_ms(stage)
    stage.run(2000)
    # Starting takes the controller 20 ms, and at 510 ms the packet sent at 500 ms is at the switch.
    assert arrived(stage) == [*range(550, 1000, 50)]


def test_starting_a_switch_that_runs_changes_nothing(started):
    stage = started(RING, faults=[ControllerStop(at_ms=0), SwitchStart(at_ms=0, switch="s2")])
    stage.tell("h1", "send h2", at_ms=10)
    stage.run(100)
    assert stage.received("h2")


def test_nobody_routes_anew_while_the_controller_is_stopped(started):
    faults = [ControllerStop(at_ms=0), LinkDown(at_ms=10, link="s1-s2"), ControllerStart(at_ms=420)]
    stage = started(RING, faults=faults)
    every_50_ms(stage)
    stage.run(2000)
    # The first packet is on the link for 10 ms, and just gets through.
    assert arrived(stage)[-1:] == [950]
    assert arrived(stage)[-11:] == [*range(450, 1000, 50)]


def test_a_host_crashes_and_comes_back_with_its_storage_or_without(started):
    faults = [
        *(Crash(at_ms=10, host="h1"), Restart(at_ms=20, host="h1")),
        *(Crash(at_ms=30, host="h1"), Restart(at_ms=40, host="h1", storage="lost")),
    ]
    stage = started(faults=faults)
    stage.tell("h1", "store a 1")
    stage.run(100)
    assert stage.details("h1", "started") == [{"keys": []}, {"keys": ["a"]}, {"keys": []}]


def test_a_running_host_that_is_told_to_restart_keeps_its_storage(started):
    stage = started(faults=[Restart(at_ms=10, host="h1", storage="lost")])
    stage.tell("h1", "store a 1")
    stage.run(100)
    assert stage.world.hosts["h1"].stored["core/a"] == 1
    assert stage.world.hosts["h1"].incarnation == 1


def test_a_paused_host_does_nothing_until_it_goes_on(started):
    stage = started(faults=[Pause(at_ms=10, host="h2"), Resume(at_ms=70, host="h2")])
    stage.tell("h1", "send h2", at_ms=50)
    stage.run(100)
    assert stage.events("h2", "message") == [(70 * MS, "message")]


def test_a_clock_is_put_off_and_drifts(started):
    stage = started(faults=[Clock(at_ms=1000, host="h1", offset_ms=-200, drift_ppm=100_000)])
    stage.run(2000)
    assert stage.world.hosts["h1"].clock.now() == pytest.approx(1.9)
    assert stage.world.hosts["h2"].clock.now() == 2.0


@pytest.mark.parametrize("nth", [1, 3])
def test_the_nth_message_of_a_kind_is_dropped_at_the_door(started, nth):
    stage = started(
        faults=[DropMessage(at_ms=0, host="h2", kind="Copy", nth=nth), DropMessage(at_ms=0, host="h2", kind="Letter")]
    )
    every_50_ms(stage, until_ms=250)
    stage.run(1000)
    assert [sequence for _, sequence in stage.received("h2")] == [n for n in range(1, 6) if n != nth]
    counters = stage.world.hosts["h2"].counters
    assert (counters["received"], counters["refused_injected"]) == (4, 1)


def test_the_nth_message_of_a_kind_is_received_twice_and_counted_once(started):
    stage = started(faults=[DuplicateMessage(at_ms=0, host="h2", kind="Copy", nth=2)])
    every_50_ms(stage, until_ms=150)
    stage.run(1000)
    assert [sequence for _, sequence in stage.received("h2")] == [1, 2, 2, 3]
    assert stage.world.hosts["h2"].counters["received"] == 3


def test_each_fault_at_the_door_counts_every_message(started):
    faults = [DropMessage(at_ms=0, host="h2", kind="Copy"), DuplicateMessage(at_ms=0, host="h2", kind="Copy", nth=2)]
    stage = started(faults=faults)
    every_50_ms(stage, until_ms=150)
    stage.run(1000)
    assert [sequence for _, sequence in stage.received("h2")] == [2, 2, 3]


def test_a_fault_waits_for_the_nth_event_that_fits(started):
    when = Trigger("broadcast", host="h1", nth=3)
    stage = started(faults=[Crash(host="h2", when=when)])
    every_50_ms(stage, until_ms=200)
    every_50_ms(stage, "", "h3", until_ms=200)
    stage.run(1000)
    assert injected(stage) == [(100, "crash", "h2")]


def test_a_fault_waits_for_its_time_after_the_event(started):
    stage = started(faults=[Crash(host="h2", when=Trigger("broadcast", origin="h1", sequence=2, after_ms=30))])
    every_50_ms(stage)
    stage.run(1000)
    assert injected(stage) == [(80, "crash", "h2")]


def test_one_event_may_set_off_several_faults(started):
    when = Trigger("broadcast")
    stage = started(faults=[Crash(host="h1", when=when), Restart(host="h1", when=when), Pause(host="h3", when=when)])
    stage.tell("h1")
    stage.run(100)
    assert [fault for _, fault, _ in injected(stage)] == ["crash", "restart", "pause"]


def test_a_fault_whose_trigger_never_came_is_listed(started):
    never = Crash(host="h2", when=Trigger("leader"))
    stage = started(faults=[never, Crash(host="h1", when=Trigger("broadcast"))])
    stage.tell("h1")
    stage.run(100)
    assert stage.player.unfired == [never]


def test_a_fault_that_was_not_due_before_the_end_is_listed(started):
    late = Crash(host="h2", when=Trigger("broadcast", after_ms=5000))
    stage = started(faults=[late])
    stage.tell("h1")
    stage.run(100)
    assert stage.player.unfired == [late]


def test_after_everything_is_healed_nothing_goes_wrong_any_more(started):
    faults = [
        *(Flap(at_ms=0, link="s1-s2", times=9, down_ms=100, up_ms=100), ControllerStop(at_ms=0), Pause(at_ms=0, host="h2")),
        *(SwitchStop(at_ms=0, switch="s3"), Crash(at_ms=0, host="h1"), DropMessage(at_ms=0, host="h1", kind="Copy")),
        *(Crash(host="h3", when=Trigger("broadcast")), Crash(host="h3", when=Trigger("start", after_ms=1000))),
    ]
    stage = started(RING + ",loss=100%", faults=faults)
    stage.run(150)
    stage.player.heal(Healing(3000))
    before = len(stage.player.records)
    stage.tell("h3", "send h1", at_ms=300)
    stage.run(3000)
    assert stage.received("h1") == [("h3", 1)]
    assert len(stage.player.records) == before
    assert all(pipe.up for pipe in stage.world.pipes.values())
    assert all(host.alive and not host.paused for host in stage.world.hosts.values())


def test_healing_leaves_hosts_dead_and_switches_cut_off(started):
    """Whatever became of a host until then: h1 is up, h2 stands still, h3 is down already."""
    stage = started(RING, faults=[Pause(at_ms=0, host="h2"), Crash(at_ms=0, host="h3"), LinkDown(at_ms=0, link="s1-s2")])
    stage.run(100)
    stage.player.heal(Healing(3000, dead=("h1", "h2", "h3"), cut_off=("s1",)))
    stage.run(1000)
    assert {name for name, host in stage.world.hosts.items() if not host.alive} == {"h1", "h2", "h3"}
    down = {link.name for link in stage.world.network.links if not stage.world.pipes[link.a, link.b].up}
    assert down == {link.name for link in trunks(stage.world.network) if "s1" in {link.a, link.b}}
    connectivity = Connectivity(stage.world.network, stage.player.records, 1000 * MS)
    assert connectivity.correct.isdisjoint({"h1", "h2", "h3"})
    assert not connectivity.is_whole


def test_records_say_what_was_done_when_and_how(started):
    stage = started(faults=[LinkChange(at_ms=7, link="s1-s2", towards="s1", loss=0.5)])
    stage.run(10)
    details = {"towards": "s1", "loss": 0.5}
    assert stage.player.records == [
        FaultRecord(fault="link-change", target="s1-s2", asked_ns=7 * MS, applied_ns=7 * MS, details=details)
    ]


def test_every_word_of_the_vocabulary_is_played(started):
    targets = {"link": "s1-s2", "switch": "s1", "host": "h1", "kind": "Copy", "sides": (("s1",),), "group": "everybody"}
    for kind in vocabulary.FAULTS.values():
        needed = {name: value for name, value in targets.items() if name in kind.__struct_fields__}
        fault = kind(at_ms=1, **needed)
        stage = started(RING, core=Managed, faults=[fault])
        stage.run(2000)
        played = [record.fault for record in stage.player.records if record.fault != LATE]
        assert played == [type(step).__struct_config__.tag for _, step in vocabulary.steps(fault, stage.world.network)]


def test_a_controller_that_is_started_again_while_it_runs_changes_nothing(started):
    """On Mininet too: a switch without flows waits for the controller to notice it, not for a second start."""
    stage = started(RING, faults=[ControllerStart(at_ms=15)])
    stage.world.blank.add("s2")
    stage.run(200)
    assert stage.world.blank == {"s2"}


def test_faults_at_the_door_end_with_the_agent_and_do_not_wait_for_one_that_is_down(started):
    faults = [
        *(DropMessage(at_ms=0, host="h2", kind="Copy"), Crash(at_ms=1, host="h2")),
        *(DuplicateMessage(at_ms=2, host="h2", kind="Copy"), Restart(at_ms=3, host="h2")),
    ]
    stage = started(faults=faults)
    stage.tell("h1", "send h2", at_ms=10)
    stage.run(100)
    assert stage.received("h2") == [("h1", 1)]


def test_a_crash_that_waits_for_an_event_counts_anew_in_each_life_and_happens_once(started):
    faults = [
        Crash(host="h1", when=Trigger("broadcast", host="h1", nth=3)),
        *(Crash(at_ms=60, host="h1"), Restart(at_ms=70, host="h1"), Restart(at_ms=300, host="h1")),
    ]
    stage = started(faults=faults)
    every_50_ms(stage, "", until_ms=600)
    stage.run(1000)
    assert [at_ms for at_ms, fault, _ in injected(stage) if fault == "crash"] == [60, 200]
