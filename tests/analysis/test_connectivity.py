"""Who could have had a message, and from when: networks in which links, switches, the controller and hosts come and go."""

import pytest

from analysis.judging.connectivity import Connectivity
from analysis.judging.fault_windows import windows
from analysis.judging.history import BroadcastEvent
from hostagent.contract.promises import Carrier
from runfiles.format import FaultRecord
from tests.analysis.stage import SECOND, promise, star
from topologies.network import Link, Network

RING = Network(
    name="ring",
    hosts=("h1", "h2", "h3", "h4"),
    switches=("s1", "s2", "s3", "s4"),
    links=(
        *(Link(f"h{n}", f"s{n}") for n in range(1, 5)),
        Link("s1", "s2"),
        Link("s2", "s3"),
        Link("s1", "s3"),
        Link("s3", "s4"),
    ),
)
"""s1, s2 and s3 in a triangle, s4 at the end of a line from s3."""


def fault(what: str, target: str, at_s: float, applied_s: float | None = None, **details: object) -> FaultRecord:
    applied_s = at_s if applied_s is None else applied_s
    return FaultRecord(
        fault=what, target=target, asked_ns=round(at_s * SECOND), applied_ns=round(applied_s * SECOND), details=details
    )


def connectivity(*faults: FaultRecord, network: Network = RING, ended_s: int = 100) -> Connectivity:
    return Connectivity(network, faults, ended_s * SECOND)


def parts(network: Connectivity, at_s: float) -> set[frozenset[str]]:
    """The hosts that are connected with each other at a time."""
    interval = next(i for i in network.intervals if i.start_ns <= at_s * SECOND < i.end_ns)
    found: dict[int, set[str]] = {}
    for host, part in interval.part_of.items():
        found.setdefault(part, set()).add(host)
    return set(map(frozenset, found.values()))


def apart(*groups: str) -> set[frozenset[str]]:
    return {frozenset(f"h{n}" for n in group) for group in groups}


ALL = apart("1234")


def reached(network: Connectivity, carrier=Carrier.ORIGIN, patience_s: float = 5, at_s: float = 0) -> dict[str, float]:
    """By when the hosts have a message of h1, in seconds."""
    reach = network.could_reach(BroadcastEvent(round(at_s * SECOND), "h1", 1), carrier, round(patience_s * SECOND))
    return {host: at_ns / SECOND for host, at_ns in reach.by_ns.items()}


def test_without_faults_everybody_is_reached_within_the_patience():
    network = connectivity()
    assert parts(network, 0) == ALL
    assert reached(network, at_s=3) == dict.fromkeys(RING.hosts, 8)
    assert network.is_whole
    assert network.correct == set(RING.hosts)


def test_a_link_that_the_controller_knows_to_be_down_is_routed_around():
    network = connectivity(fault("link-down", "s1-s2", 10), fault("link-down", "s4-s3", 20), fault("link-up", "s4-s3", 30, 31))
    assert [parts(network, at_s) for at_s in (5, 15, 20, 30.5, 31)] == [ALL, ALL, apart("123", "4"), apart("123", "4"), ALL]


def test_what_breaks_counts_from_when_it_was_asked_for():
    network = connectivity(fault("link-down", "s3-s4", 10, 11))
    assert parts(network, 10) == apart("123", "4")


def test_heal_mends_links_and_losses():
    network = connectivity(fault("link-down", "s3-s4", 10), fault("link-change", "s1-s2", 10, loss=1.0), fault("heal", "", 20))
    assert [parts(network, at_s) for at_s in (10, 20)] == [apart("1", "2", "3", "4"), ALL]


def test_the_controller_routes_into_a_link_that_loses_everything_so_its_whole_cycle_says_nothing():
    network = connectivity(fault("link-change", "s1-s2", 10, loss=1.0))
    assert parts(network, 10) == apart("1", "2", "34")


@pytest.mark.parametrize(("loss", "carries"), [(0.5, True), (0.51, False), (1.0, False)])
def test_a_link_that_loses_more_than_half_in_one_direction_does_not_count_as_a_way(loss, carries):
    network = connectivity(fault("link-change", "s3-s4", 10, towards="s4", loss=loss), fault("link-change", "s3-s4", 20, loss=0))
    assert parts(network, 10) == (ALL if carries else apart("123", "4"))
    assert parts(network, 20) == ALL


def test_a_change_of_delay_cuts_nothing():
    assert len(connectivity(fault("link-change", "s3-s4", 10, delay_ms=500.0)).intervals) == 1


def test_a_network_built_with_a_link_that_loses_nearly_everything():
    lossy = Network("lossy", ("h1", "h2"), ("s1", "s2"), (Link("h1", "s1"), Link("h2", "s2"), Link("s1", "s2", loss=0.9)))
    assert parts(Connectivity(lossy), 0) == apart("1", "2")


def test_a_stopped_switch_cuts_off_its_hosts():
    network = connectivity(fault("switch-stop", "s3", 10), fault("switch-start", "s3", 20))
    assert [parts(network, at_s) for at_s in (10, 20)] == [apart("12", "3", "4"), ALL]


def test_without_a_controller_nobody_routes_around_a_link_that_goes_down():
    stopped = fault("controller-stop", "", 10)
    network = connectivity(stopped, fault("link-down", "s1-s2", 20), fault("controller-start", "", 30))
    assert [parts(network, at_s) for at_s in (10, 20, 30)] == [ALL, apart("1", "2", "34"), ALL]


def test_without_a_controller_a_link_that_comes_up_is_not_used():
    down = fault("link-down", "s3-s4", 5)
    network = connectivity(
        down, fault("controller-stop", "", 10), fault("link-up", "s3-s4", 20), fault("controller-start", "", 30)
    )
    assert [parts(network, at_s) for at_s in (20, 30)] == [apart("123", "4"), ALL]


def test_a_crashed_or_paused_host_is_not_there_until_it_is_back():
    network = connectivity(
        *(fault("crash", "h2", 10), fault("restart", "h2", 20, 21, storage="kept")),
        *(fault("pause", "h3", 10), fault("resume", "h3", 20)),
    )
    assert [parts(network, at_s) for at_s in (10, 20, 21)] == [apart("14"), apart("134"), ALL]
    assert network.correct == set(RING.hosts)


def test_a_host_that_stays_down_is_not_correct_and_one_without_its_storage_does_not_take_part():
    network = connectivity(fault("crash", "h2", 10), fault("crash", "h3", 10), fault("restart", "h3", 20, storage="lost"))
    assert parts(network, 50) == apart("14")
    assert network.correct == {"h1", "h4"}
    assert [network.life("h3", at_s * SECOND) for at_s in (5, 19, 20, 50)] == [0, 0, 1, 1]


def test_a_host_is_not_there_before_it_arrives_and_after_it_departs_whatever_is_injected_meanwhile():
    network = connectivity(
        *(fault("late", "h2", 0), fault("crash", "h2", 5), fault("restart", "h2", 6), fault("arrive", "h2", 10, 11)),
        *(fault("depart", "h3", 20), fault("restart", "h3", 30, storage="lost"), fault("late", "h4", 0)),
    )
    assert [parts(network, at_s) for at_s in (0, 7, 10, 11, 20, 40)] == [apart("13")] * 3 + [apart("123")] + [apart("12")] * 2
    assert network.correct == {"h1", "h2"}
    assert reached(network, at_s=1) == {"h1": 6, "h2": 16, "h3": 6}


def test_how_long_hosts_were_away_is_shown_and_trees_are_not():
    away = (fault("late", "h2", 0), fault("arrive", "h2", 10), fault("depart", "h3", 20), fault("tree", "group 1", 30))
    assert [(window.label, window.start_ns // SECOND, window.end_ns // SECOND) for window in windows(away, 100 * SECOND)] == [
        ("late h2", 0, 10),
        ("depart h3", 20, 100),
    ]


def test_a_restart_of_a_host_that_runs_loses_nothing():
    network = connectivity(fault("restart", "h3", 20, storage="lost"))
    assert network.correct == set(RING.hosts)
    assert network.life("h3", 50 * SECOND) == 0


def test_a_way_must_be_open_for_the_patience_without_interruption():
    flaps = [fault(what, "s3-s4", at_s) for what, at_s in (("link-down", 2), ("link-up", 4), ("link-down", 8), ("link-up", 20))]
    assert reached(connectivity(*flaps), patience_s=4) == {"h1": 4, "h2": 4, "h3": 4, "h4": 8}
    assert reached(connectivity(*flaps), patience_s=5) == {"h1": 5, "h2": 5, "h3": 5, "h4": 25}


def test_changes_elsewhere_do_not_interrupt_a_way():
    network = connectivity(fault("link-down", "s3-s4", 2), fault("crash", "h3", 3), fault("link-down", "s1-s2", 4))
    assert reached(network) == {"h1": 5, "h2": 5}


def test_a_way_that_is_still_open_at_the_end_but_not_for_long_enough_is_too_soon():
    network = connectivity(fault("link-down", "s3-s4", 1), fault("link-up", "s3-s4", 97))
    reach = network.could_reach(BroadcastEvent(0, "h1", 1), Carrier.ORIGIN, 5 * SECOND)
    assert (set(reach.by_ns), reach.too_soon) == ({"h1", "h2", "h3"}, {"h4"})
    late = network.could_reach(BroadcastEvent(98 * SECOND, "h1", 1), Carrier.ANYONE, 5 * SECOND)
    assert (set(late.by_ns), late.too_soon) == (set(), set(RING.hosts))


def test_hosts_pass_a_message_on_over_ways_that_are_open_one_after_another():
    """h1 meets only h2, then h2 meets only h3: time flows one way."""
    star4 = star(4)
    down = [fault("link-down", f"s0-s{n}", 0) for n in (3, 4)]
    swap = [fault("link-down", "s0-s1", 10), fault("link-up", "s0-s3", 10)]
    network = connectivity(*down, *swap, network=star4)
    assert reached(network, Carrier.ORIGIN) == {"h1": 5, "h2": 5}
    assert reached(network, Carrier.ANYONE) == {"h1": 5, "h2": 5, "h3": 15}
    backwards = network.reach({"h3": 0}, Carrier.ANYONE, 5 * SECOND)
    assert set(backwards.by_ns) == {"h3", "h2"}


def test_what_a_host_that_crashes_had_passed_on_goes_on():
    network = connectivity(fault("crash", "h1", 6), fault("link-down", "s3-s4", 2), fault("link-up", "s3-s4", 50))
    assert reached(network, Carrier.ORIGIN) == {"h1": 5, "h2": 5, "h3": 5}
    assert reached(network, Carrier.ANYONE) == {"h1": 5, "h2": 5, "h3": 5, "h4": 55}


def test_a_slow_clock_makes_patience_longer_and_a_fast_one_not_shorter():
    slow = connectivity(fault("clock", "h2", 1, offset_ms=5.0, drift_ppm=-200_000.0))
    fast = connectivity(fault("clock", "h2", 1, drift_ppm=200_000.0))
    assert slow.patience_ns(promise(patience_ms=1000)) == 1_250_000_000
    assert fast.patience_ns(promise(patience_ms=1000)) == 1_000_000_000
    assert slow.last_fault_ns == SECOND


def test_who_a_host_was_connected_with_when_it_crashed():
    network = connectivity(fault("link-down", "s3-s4", 1), fault("crash", "h2", 2))
    assert network.connected_with("h2", 2 * SECOND) == ("h1", "h3")
    assert network.connected_with("h4", 2 * SECOND) == ()


def test_faults_at_the_same_instant_and_after_the_end():
    network = connectivity(fault("link-down", "s3-s4", 10), fault("link-up", "s3-s4", 10), fault("link-down", "s3-s4", 200))
    assert {frozenset(parts(network, at_s)) for at_s in (0, 10, 99)} == {frozenset(ALL)}
    assert network.is_whole
