"""Joins, leaves, late hosts and departures, with a protocol that has a manager: the same on every driver."""

from pathlib import Path

import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.judge import CHECKS, Verdict, judge
from hostagent.contract.promises import Guarantee
from hostagent.runtime.control import JoinRequest, LeaveRequest
from scenarios import Broadcast, Scenario, Workload
from scenarios.faults import Arrive, Crash, CutOff, Depart, Heal, Join, Leave, Pause, Restart, Trigger
from scenarios.groups import Group
from scenarios.membership import Trees
from simulator.cases import history_of
from simulator.engine import CROSSING, simulate
from simulator.faults import Healing
from simulator.world import REROUTING_NS
from tests.hostagent.conftest import HOSTS, lan, launch
from tests.hostagent.managed import Managed, Marking
from tests.hostagent.world import World
from topologies import find
from topologies.network import group_name

__all__ = ["lan", "launch"]

ALPHA = Group("alpha", ("h1", "h2"))
PROGRAM = (str(Path(__file__).parents[1] / "hostagent" / "managed.py"),)
# What the manager makes of a join of h3 and a leave of h2.
VIEWS = [(1, ["h1", "h2", "h3"]), (2, ["h1", "h3"])]


def played(*faults, script=(), core=Managed, groups=(ALPHA,), topology="clusters:k=3,size=1,shape=ring,delay=5ms", **options):
    """A simulated run of some broadcasts: their time, source and destination."""
    broadcasts = tuple(Broadcast(at_ms=at_ms, source=source, to=to) for at_ms, source, to in script)
    workload = Workload(settle=options.pop("settle", 1000.0))
    scenario = Scenario(network=find(topology), faults=faults, script=broadcasts, groups=groups, workload=workload)
    return simulate(scenario, core, core.Parameters(), 1, **options)


def judged(outcome):
    network = outcome.world.network
    promise = Managed.promise(Managed.Parameters(), len(network.hosts))
    return judge(history_of(outcome), promise, Connectivity(network, outcome.faults, outcome.ended_ns))


def views(outcome, host):
    return [(e.details["view"], e.details["members"]) for where, e in outcome.events if (where, e.event) == (host, "view")]


def logged(outcome, host, *events):
    return [event.event for where, event in outcome.events if where == host and event.event in events]


def delivered(outcome, host):
    return [(e.origin, e.sequence) for where, e in outcome.events if (where, e.event) == (host, "deliver")]


def test_every_host_installs_the_views_of_a_join_and_a_leave_in_one_order():
    outcome = played(
        *(Join(at_ms=100, host="h3", group="alpha"), Leave(at_ms=200, host="h2", group="alpha")),
        script=((0, "h2", "alpha"), (150, "h2", "alpha"), (300, "h2", "alpha")),
    )
    assert [views(outcome, host) for host in ("h1", "h2", "h3")] == [VIEWS] * 3
    assert logged(outcome, "h3", "join", "view", "leave") == ["join", "view", "view"]
    assert [delivered(outcome, host) for host in ("h1", "h2", "h3")] == [
        [("h2", 1), ("h2", 2), ("h2", 3)],
        [("h2", 1), ("h2", 2)],
        [("h2", 2), ("h2", 3)],
    ]
    assert [(fault.fault, fault.target, fault.details) for fault in outcome.faults] == [
        ("join", "h3", {"group": "alpha"}),
        ("leave", "h2", {"group": "alpha"}),
    ]


def test_the_world_of_the_tests_drives_the_same_protocol():
    world = World(Managed, 3, groups={1: ("h1", "h2")})
    world["h3"].life.join(1)
    world.settle()
    world["h2"].life.leave(1)
    world.settle()
    for host in world.hosts:
        installed = [(details["view"], details["members"]) for event, details in world[host].traced if event == "view"]
        assert installed == VIEWS


@pytest.mark.root
def test_agents_on_real_sockets_drive_the_same_protocol(launch):
    agents = launch("managed", PROGRAM, groups={1: ("h1", "h2")}, retry_ms=100.0)
    agents.start("h1", "h2")
    agents.broadcast("h2", b"hello", 1)
    # h3 comes late, and gets what is sent to it from then on.
    agents.start("h3")
    agents.ask("h3", JoinRequest(1))
    agents.until(lambda: agents.events("h2", "view"))
    agents.ask("h2", LeaveRequest(1))
    agents.until(lambda: all(len(agents.events(host, "view")) == 2 for host in HOSTS))
    for host in HOSTS:
        assert [(event.details["view"], event.details["members"]) for event in agents.events(host, "view")] == VIEWS
    assert [event.details for event in agents.events("h3", "join")] == [{"group": 1}]
    assert [len(agents.delivered(host)) for host in HOSTS] == [1, 1, 0]


def test_a_host_that_crashed_installs_its_view_again_and_then_the_next():
    outcome = played(
        *(Join(at_ms=100, host="h3", group="alpha"), Crash(at_ms=200, host="h3"), Restart(at_ms=300, host="h3")),
        Leave(at_ms=250, host="h2", group="alpha"),
        settle=5000.0,
    )
    assert views(outcome, "h3") == [VIEWS[0], *VIEWS]


def test_a_late_host_is_not_there_before_it_arrives_and_then_gets_what_is_still_repeated():
    outcome = played(
        Arrive(at_ms=500, host="h3"), script=((0, "h1", "everybody"), (600, "h1", "everybody")), settle=30_000.0, crossings=True
    )
    starts = [event.at_ns for host, event in outcome.events if (host, event.event) == ("h3", "start")]
    assert starts == [500_000_000]
    assert sorted(delivered(outcome, "h3")) == [("h1", 1), ("h1", 2)]
    assert [(fault.fault, fault.applied_ns) for fault in outcome.faults] == [("late", 0), ("arrive", 500_000_000)]
    # What came before it is told apart in the counters, so the books balance.
    assert outcome.counters["h3"]["unreachable"] == 1
    assert judged(outcome).verdict == "holds"


def test_nobody_waits_for_a_host_that_has_not_arrived_or_has_departed():
    never = Arrive(when=Trigger("commit"), host="h3")
    gone = Depart(at_ms=100, host="h3")
    for fault in (never, gone):
        outcome = played(fault, script=((200, "h1", "everybody"),), settle=60_000.0)
        assert delivered(outcome, "h2") == [("h1", 1)]
        assert judged(outcome).verdict == "holds"


def test_a_protocol_that_forgets_a_late_host_is_held_to_it():
    class Forgets(Managed):
        def on_multicast(self, to, sequence, payload):
            super().on_multicast(to._replace(hosts=("h1", "h2")), sequence, payload)

    outcome = played(Arrive(at_ms=500, host="h3"), script=((0, "h1", "everybody"),), settle=60_000.0, core=Forgets)
    assert judged(outcome).reasons[0].startswith("h3 never delivered message 1 of h1")


def test_a_host_departs_cleanly_once_and_neither_a_restart_nor_healing_brings_it_back():
    outcome = played(
        *(Pause(at_ms=90, host="h3"), Depart(at_ms=100, host="h3"), Crash(at_ms=110, host="h3"), Restart(at_ms=120, host="h3")),
        Arrive(when=Trigger("never"), host="h2"),
        script=((0, "h1", "everybody"),),
        healing=Healing(5000.0),
    )
    assert logged(outcome, "h3", "start", "stop") == ["start", "stop"]
    assert not outcome.world.hosts["h3"].alive
    assert logged(outcome, "h2", "start") == []
    assert delivered(outcome, "h1") == [("h1", 1), ("h1", 2)]


def test_a_host_that_has_crashed_asks_for_nothing():
    outcome = played(Crash(at_ms=0, host="h3"), Join(at_ms=10, host="h3", group="alpha"))
    assert logged(outcome, "h3", "join") == []
    assert views(outcome, "h1") == []


# All members of the group of `marking` get each message of h1; h3 is the last one.
EVERY = Group("every", ("h1", "h2", "h3"))


@pytest.mark.parametrize("event", ["receive", "deliver", "take-back", "commit", "token"])
def test_any_mark_and_any_trace_about_a_message_triggers_a_fault(event):
    crash = Crash(host="h2", when=Trigger(event, host="h3", origin="h1", sequence=2))
    outcome = played(crash, script=[(at_ms, "h1", "every") for at_ms in (0, 100, 200)], core=Marking, groups=(EVERY,))
    ((fault, at_ns),) = ((fault.target, fault.applied_ns) for fault in outcome.faults)
    assert fault == "h2"
    assert 100_000_000 < at_ns < 200_000_000
    assert logged(outcome, "h2", "receive") == ["receive"] * 2
    assert outcome.unfired == []


def test_a_host_crashes_itself_at_a_mark_with_these_details():
    """At the very moment: h3 has traced the token of the message, and has committed nothing."""
    own = Crash(host="h3", when=Trigger("token", host="h3", details={"group": 2}))
    groups = (EVERY, Group("other", ("h1", "h3")))
    outcome = played(own, script=((0, "h1", "every"), (100, "h1", "other"), (200, "h1", "every")), core=Marking, groups=groups)
    assert [(fault.fault, fault.target) for fault in outcome.faults] == [("crash", "h3")]
    assert logged(outcome, "h3", "token") == ["token"] * 2
    assert logged(outcome, "h2", "commit") == ["commit"] * 2


def test_a_fault_without_a_host_happens_where_its_trigger_fires():
    """Crash the token holder when it commits message 2: h2 commits message 2 first, but h3 had the token last."""
    crash = Crash(host="", when=Trigger("commit", sequence=2, last="token"))
    script = [(at_ms, "h1", "every") for at_ms in (0, 100, 200)]
    outcome = played(crash, script=script, core=Marking, groups=(EVERY,))
    assert [(fault.fault, fault.target) for fault in outcome.faults] == [("crash", "h3")]
    assert logged(outcome, "h2", "commit") == ["commit"] * 3
    assert logged(outcome, "h3", "commit") == ["commit"] * 2


def test_the_switch_of_a_host_is_cut_off_until_its_links_are_healed():
    cut = CutOff(host="", when=Trigger("token", details={"group": 1}, origin="h1", sequence=1, nth=2))
    outcome = played(
        *(cut, Heal(at_ms=150)),
        script=[(at_ms, "h1", "every") for at_ms in (0, 100, 200)],
        core=Marking,
        groups=(EVERY,),
    )
    assert [(fault.fault, fault.target) for fault in outcome.faults] == [
        ("link-down", "s2-s3"),
        ("link-down", "s3-s1"),
        ("heal", ""),
    ]
    assert [len(logged(outcome, host, "receive")) for host in ("h2", "h3")] == [3, 2]


def seen_by(outcome, host, at_ms):
    """How many packets to the group alpha a host got from this time on, and before the next second."""
    rows = [dict(zip(CROSSING, row, strict=True)) for row in outcome.crossings]
    start_ns = at_ms * 1_000_000
    return sum(
        row["target"] == host and row["destination"] == group_name(1) and start_ns <= row["at_ns"] < start_ns + 1_000_000_000
        for row in rows
    )


def test_the_tree_of_a_group_leads_to_a_host_from_before_its_join_until_after_its_leave():
    """On multicast: h3 joins when the tree leads there, and h2 leaves the tree when it has installed a view without itself."""
    outcome = played(
        *(Join(at_ms=1000, host="h3", group="alpha"), Leave(at_ms=2000, host="h2", group="alpha")),
        script=((0, "h1", "alpha"), (1010, "h1", "alpha"), (1500, "h1", "alpha"), (2001, "h1", "alpha"), (3000, "h1", "alpha")),
        multicasts=True,
        crossings=True,
    )
    joined = [event.at_ns for host, event in outcome.events if (host, event.event) == ("h3", "join")]
    assert joined == [1_000_000_000 + REROUTING_NS]
    assert [views(outcome, host) for host in ("h1", "h2", "h3")] == [VIEWS] * 3
    # The message at 1010 ms does not find h3 in the tree yet; that at 2001 ms finds h2 there, which is about to leave.
    assert [[seen_by(outcome, host, at_ms) for at_ms in (0, 1000, 2000, 3000)] for host in ("h2", "h3")] == [
        [1, 2, 1, 0],
        [0, 1, 1, 1],
    ]
    assert [delivered(outcome, host) for host in ("h2", "h3")] == [
        [("h1", 1), ("h1", 2), ("h1", 3), ("h1", 4)],
        [("h1", 3), ("h1", 4), ("h1", 5)],
    ]


def test_a_host_that_joins_again_before_it_has_left_stays_in_the_tree():
    changed = []
    trees = Trees({1: ("h1", "h2")}, lambda group, members: changed.append((group, members)))
    without = {"group": 1, "members": ["h1"]}
    trees.notice("h2", "view", 5, without)
    trees.leave(1, "h2", 10)
    # A view from before the leave, and one of another host.
    trees.notice("h2", "view", 9, without)
    trees.notice("h1", "view", 11, without)
    assert trees.is_waiting
    assert not trees.join(1, "h2")
    trees.notice("h2", "view", 12, without)
    assert (changed, trees.is_waiting) == ([], False)
    trees.leave(1, "h2", 20)
    trees.notice("h2", "view", 21, without)
    assert trees.join(1, "h3")
    assert changed == [(1, ("h1",)), (1, ("h1", "h3"))]


def test_checkers_of_views_judge_what_the_manager_makes_of_requests():
    """The manager does not stop messages for a view: one that is under way when h1 installs the next view is delivered there."""
    requests = Join(at_ms=100, host="h3", group="alpha"), Leave(at_ms=200, host="h2", group="alpha")
    promise, found = Managed.promise(Managed.Parameters(), 3), {}
    for last_ms in (300, 203):
        script = (0, "h2", "alpha"), (150, "h2", "alpha"), (last_ms, "h3", "alpha")
        outcome = played(*requests, script=script, settle=30_000.0)
        connectivity = Connectivity(outcome.world.network, outcome.faults, outcome.ended_ns)
        of_views = (Guarantee.SENDING_VIEW, Guarantee.VIEW_AGREEMENT, Guarantee.VIEW_CONVERGENCE)
        found[last_ms] = [CHECKS[one](history_of(outcome), promise, connectivity) for one in of_views]
    assert [(finding.verdict, finding.cases) for finding in found[300]] == [(Verdict.HOLDS, cases) for cases in (7, 4, 2)]
    sent = "h3 delivered message 1 of h3"
    assert [finding.reason for finding in found[203]] == [
        "h1 delivered message 1 of h3 at 0.208 s in view 2 of group 1, but h3 sent it at 0.203 s in view 1",
        f"h3 and h1 both went from view 1 to view 2 of group 1, at 0.210 s and 0.205 s, but only {sent} in between, at 0.203 s",
        "",
    ]
