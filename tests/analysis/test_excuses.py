"""What a fault explains, and that it explains nothing else.

ring:  s1 - s2 - s3 - s1, one host h1, h2, h3 at each; from s1 to s3 and back there is the direct link.
line:  s1 - s2, one host at each.
"""

import pytest

from analysis.excuses import FOR_EVER, REROUTING_NS, SLACK_NS, Excuse, excuses, group_routings
from runfiles.controller_log import ControllerEvent, read_controller_log
from runfiles.format import FaultRecord
from topologies import clusters

SECOND = 10**9
RING, LINE = clusters(3, 1, "ring"), clusters(2, 1, "line")


def fault(what: str, target: str, at_s: float, **details) -> FaultRecord:
    at_ns = round(at_s * SECOND)
    return FaultRecord(fault=what, target=target, asked_ns=at_ns, applied_ns=at_ns, details=details)


def explained(found, at_s, node, destination="", source="", certain=None) -> bool:
    """Whether a packet that was last seen then at a switch, going to the hosts of another, is explained."""
    return any(
        excuse.start_ns <= at_s * SECOND <= excuse.end_ns
        and (node in excuse.nodes or (node, destination) in excuse.places or (source, node) in excuse.over)
        and certain in {None, excuse.certain}
        for excuse in found
    )


def test_a_link_that_fails_explains_what_was_to_cross_it_and_nothing_beyond():
    found = excuses(RING, [fault("link-down", "s1-s2", 10)])
    for at_s in (9.6, 10, 11.4):
        assert explained(found, at_s, "s1", "s2")
        assert explained(found, at_s, "s2", "s1")
        assert explained(found, at_s, "s2", "s3", source="s1"), "on the link when it failed"
        assert not explained(found, at_s, "s1", "s3")
        assert not explained(found, at_s, "s3", "s3")
    # The way from s1 to s2 is over s3 now, where flows change one after the other.
    assert explained(found, 10.1, "s3", "s2")
    for at_s in (9.3, 11.6):
        assert not explained(found, at_s, "s1", "s2")


def test_routes_are_changing_until_the_log_of_the_controller_says_that_they_have_changed():
    ports = RING.ports
    log = [
        ControllerEvent(at_ns=10 * SECOND + 10**7, event="rerouted", switch="s1", ports=(ports["s1"]["s2"],)),
        ControllerEvent(at_ns=10 * SECOND + 2 * 10**7, event="rerouted", switch="s2", ports=(ports["s2"]["s1"],)),
    ]
    found = excuses(RING, [fault("link-down", "s1-s2", 10)], log)
    assert max(excuse.end_ns for excuse in found) == 10 * SECOND + 2 * 10**7 + SLACK_NS
    late = [
        ControllerEvent(at_ns=event.at_ns + 5 * SECOND, event=event.event, switch=event.switch, ports=event.ports)
        for event in log
    ]
    assert max(excuse.end_ns for excuse in excuses(RING, [fault("link-down", "s1-s2", 10)], late)) > 15 * SECOND
    # Where there is a log, and it does not tell, routes take as long as they ever do.
    silent = [ControllerEvent(at_ns=0, event="listening")]
    ends = {excuse.end_ns for excuse in excuses(RING, [fault("link-down", "s1-s2", 10)], silent)}
    assert ends == {10 * SECOND + REROUTING_NS + SLACK_NS}


def test_what_waited_long_for_a_narrow_link_is_lost_with_it():
    """A hundred frames of 1,514 bytes take 1.2 s on a link of 1 Mbit/s."""
    narrow = clusters(2, 1, "line", bandwidth_mbit=1.0)
    assert explained(excuses(narrow, [fault("link-down", "s1-s2", 10)]), 8.4, "s1", "s2")
    assert not explained(excuses(LINE, [fault("link-down", "s1-s2", 10)]), 8.4, "s1", "s2")
    changed = [fault("link-change", "s2-s1", 5, bandwidth_mbit=1.0), fault("link-down", "s1-s2", 10)]
    assert explained(excuses(LINE, changed), 8.4, "s1", "s2")


def test_where_no_way_is_left_a_packet_can_only_vanish():
    failed = [fault("link-down", "s1-s2", 10), fault("link-down", "s2-s3", 15), fault("link-up", "s1-s2", 20)]
    found = excuses(RING, failed)
    assert explained(found, 17, "s1", "s2", certain=True)
    assert not explained(found, 17, "s1", "s2", certain=False)
    assert not explained(found, 17, "s1", "s3")
    assert not explained(found, 22, "s1", "s2")
    assert explained(excuses(LINE, [fault("link-down", "s1-s2", 10)]), 10**9, "s1", "s2", certain=True)


def test_while_nobody_reroutes_everything_that_is_sent_to_a_failed_link_is_lost():
    failed = [fault("controller-stop", "", 5), fault("link-down", "s1-s2", 10), fault("controller-start", "", 20)]
    found = excuses(RING, failed, [ControllerEvent(at_ns=0, event="listening")])
    assert not explained(found, 7, "s1", "s2")
    assert explained(found, 15, "s1", "s2", certain=True)
    assert not explained(found, 15, "s1", "s3")
    assert not explained(found, 15, "s3", "s2")
    assert explained(found, 20.1, "s3", "s2"), "a controller that starts gives every switch all its flows anew"
    assert not explained(found, 22, "s1", "s2")


@pytest.mark.parametrize("log", [(), (ControllerEvent(at_ns=0, event="listening"),)], ids=["simulated", "emulated"])
def test_a_stopped_switch_explains_what_reached_it_until_it_has_its_flows_again(log):
    ready = (ControllerEvent(at_ns=24 * SECOND, event="switch_ready", switch="s2", took_ms=20.0),) if log else ()
    found = excuses(RING, [fault("switch-stop", "s2", 10), fault("switch-start", "s2", 20)], (*log, *ready))
    assert explained(found, 9.6, "s2", "s3")
    assert explained(found, 15, "s2", "s3", certain=True)
    assert explained(found, 24.2 if log else 21.2, "s2", "s3"), "longer than a second after its start, if the log says so"
    assert not explained(found, 25, "s2", "s3")
    assert not explained(found, 15, "s1", "s3")


def test_a_switch_that_connects_again_has_no_flows_for_a_moment_whatever_the_cause():
    found = excuses(RING, [], [ControllerEvent(at_ns=10 * SECOND, event="switch_ready", switch="s3", took_ms=2000.0)])
    assert explained(found, 8.1, "s3", "s1")
    assert not explained(found, 8.1, "s1", "s3")
    assert not explained(found, 11, "s3", "s1")


@pytest.mark.parametrize(
    ("what", "target", "details"),
    [
        ("clock", "h1", {}),
        ("drop-message", "h1", {}),
        ("crash", "h1", {}),
        ("restart", "h1", {}),
        ("pause", "h1", {}),
        ("resume", "h1", {}),
        ("controller-stop", "", {}),
        ("heal", "", {}),
        ("link-up", "s1-s2", {}),
        ("link-change", "s1-s2", {"loss": 1.0}),
        ("link-change", "s1-s2", {"bandwidth_mbit": 0.1}),
    ],
)
def test_a_fault_that_takes_no_packet_away_uncounted_explains_nothing(what, target, details):
    assert excuses(RING, [fault(what, target, 10, **details)]) == ()


def test_a_link_that_begins_to_duplicate_explains_what_waited_for_it():
    found = excuses(RING, [fault("link-change", "s1-s2", 10, duplicate=0.1)])
    assert explained(found, 10, "s1", "s2")
    assert not explained(found, 10, "s1", "s3")
    assert not explained(found, 10.6, "s1", "s2")


def test_links_that_flap_touch_only_their_own_destinations():
    flaps = [fault("link-down" if at % 2 else "link-up", "s1-s2", at) for at in range(1, 21)]
    found = excuses(RING, flaps)
    assert explained(found, 10.5, "s1", "s2")
    assert not any(explained(found, at, "s1", "s3") or explained(found, at, "s3", "s3") for at in range(21))


GROUPS = {1: ("h1", "h2"), 2: ("h1", "h3"), 3: ("h3",)}


def test_a_link_that_fails_touches_the_trees_of_groups_that_used_it():
    found = excuses(RING, [fault("link-down", "s1-s2", 10)], groups=GROUPS)
    assert explained(found, 10, "s1", (1, "s2"))
    assert explained(found, 10, "s3", (1, "s2")), "the new way of the tree"
    assert not explained(found, 10, "s1", (3, "s3"))
    assert not explained(found, 12, "s1", (1, "s2"))
    before, after = group_routings(RING, [fault("link-down", "s1-s2", 10)], (), GROUPS)
    assert (before.trees[1, "s2"]["s1"], after.trees[1, "s2"]["s1"]) == ("s2", "s3")
    assert after.since_ns == 10 * SECOND


def test_where_the_tree_of_a_group_leads_no_more_copies_can_only_vanish():
    found = excuses(LINE, [fault("link-down", "s1-s2", 10)], groups={1: ("h1", "h2")})
    assert explained(found, 10**6, "s1", (1, "s2"), certain=True)
    assert not explained(found, 10**6, "s1", (1, "s1"))


def test_every_end_is_after_its_start_and_the_last_state_has_none():
    found = excuses(LINE, [fault("link-down", "s1-s2", 1), fault("switch-stop", "s2", 3)])
    assert all(isinstance(excuse, Excuse) and excuse.start_ns < excuse.end_ns for excuse in found)
    assert max(excuse.end_ns for excuse in found) == FOR_EVER


def test_a_log_whose_controller_was_killed_is_read_up_to_there(tmp_path):
    assert read_controller_log(tmp_path) == ()
    (tmp_path / "controller.jsonl").write_text(
        '{"at_ns": 5, "event": "switch_ready", "switch": "s1", "flows": 3}\n{"at_ns": 6, "ev'
    )
    assert read_controller_log(tmp_path) == (ControllerEvent(at_ns=5, event="switch_ready", switch="s1"),)


def test_while_a_tree_changes_only_members_before_and_after_are_expected_and_any_copy_is_excused():
    """h3 joins group 1 at 1 s and is in the tree 20 ms later; h2 leaves it at 5 s."""

    def regrouped(at_ns, *members):
        details = {"group": 1, "members": list(members)}
        return FaultRecord(fault="tree", target="group 1", asked_ns=at_ns, applied_ns=at_ns + 20_000_000, details=details)

    network, groups = clusters(3, 1, "ring"), {1: ("h1", "h2")}
    faults = [regrouped(1_000_000_000, "h1", "h2", "h3"), regrouped(5_000_000_000, "h1", "h3")]
    routings = group_routings(network, faults, (), groups)
    assert [(routing.since_ns, routing.members[1]) for routing in routings[1:]] == [
        (1_000_000_000 - SLACK_NS, ("h1", "h2")),
        (1_020_000_000 + SLACK_NS, ("h1", "h2", "h3")),
        (5_000_000_000 - SLACK_NS, ("h1", "h3")),
    ]
    found = excuses(network, faults, (), groups)
    first = [excuse for excuse in found if excuse.start_ns < 2_000_000_000 and ("s2", (1, "s3")) in excuse.places]
    assert [excuse.start_ns for excuse in first] == [1_000_000_000 - SLACK_NS]
    assert not any(excuse.certain or excuse.nodes for excuse in found)


def test_without_a_controller_a_tree_stays_as_it_is():
    def fault(name, at_ns, **details):
        return FaultRecord(fault=name, target="", asked_ns=at_ns, applied_ns=at_ns, details=details)

    network, groups = clusters(3, 1, "ring"), {1: ("h1", "h2")}
    faults = [fault("controller-stop", 10**9), fault("tree", 2 * 10**9, group=1, members=["h1", "h2", "h3"])]
    assert {routing.members[1] for routing in group_routings(network, faults, (), groups)} == {("h1", "h2")}
    again = fault("controller-start", 3 * 10**9)
    assert group_routings(network, [*faults, again], (), groups)[-1].members[1] == ("h1", "h2", "h3")
