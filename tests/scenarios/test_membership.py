"""Joins, leaves, arrivals and departures that make no sense are refused in a sentence, before anything is made."""

import pytest

from scenarios import Broadcast, Scenario, ScenarioError, Workload
from scenarios.faults import Arrive, Depart, FaultError, Join, Leave, Trigger
from scenarios.groups import Group
from scenarios.membership import check_known
from topologies import find

NETWORK = find("clusters:k=4,size=1,shape=ring")
GROUPS = (Group("alpha", ("h1", "h2")), Group("solo", ("h3",)))
LATER = Trigger("deliver")


def scenario(*faults, script=(), **options):
    broadcasts = tuple(Broadcast(at_ms=at_ms, source=source) for at_ms, source in script)
    return Scenario(network=NETWORK, groups=GROUPS, faults=faults, script=broadcasts or None, **options)


def join(host, at_ms=None, group="alpha"):
    return Join(host=host, group=group, at_ms=at_ms, when=None if at_ms is not None else LATER)


def leave(host, at_ms=None, group="alpha"):
    return Leave(host=host, group=group, at_ms=at_ms, when=None if at_ms is not None else LATER)


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        ([join("h2", 100)], "fault join h2: h2 is in group 'alpha' already"),
        ([join("h3", 100), join("h3", 200)], "fault join h3: h3 is in group 'alpha' already"),
        ([join("h4", 0, "everybody")], "fault join h4: h4 is in group 'everybody' already"),
        ([join("h3", 200), leave("h3", 100)], "fault leave h3: h3 is not in group 'alpha'"),
        ([leave("h3", 100, "solo")], "fault leave h3: h3 is the last member of group 'solo', which must not be empty"),
        ([leave("h1", 100), leave("h2", 200)], "fault leave h2: h2 is the last member of group 'alpha'"),
        ([join("h1", 100, "beta")], "fault join h1: there is no group 'beta'; choose from everybody, alpha, solo"),
        ([join("h9", 100)], "a fault names host 'h9', which network"),
        ([join("h1")], "fault join h1: h1 is in group 'alpha' already"),
        ([leave("h3")], "fault leave h3: h3 is not in group 'alpha'"),
        ([leave("h3", None, "solo")], "fault leave h3: h3 is the last member of group 'solo'"),
        ([Arrive(at_ms=1, host="h3"), Arrive(at_ms=2, host="h3")], "h3 arrives twice: a host comes once"),
        ([Depart(at_ms=1, host="h3"), Depart(when=LATER, host="h3")], "h3 departs twice"),
        ([Depart(at_ms=1, host="h3"), Arrive(at_ms=2, host="h3")], "fault depart h3 at 1 ms: h3 arrives only at 2 ms"),
        ([Arrive(at_ms=300, host="h3"), join("h3", 200)], "fault join h3 at 200 ms: h3 arrives only at 300 ms"),
        (
            [Depart(at_ms=100, host="h2"), leave("h2", 200)],
            "fault leave h2 at 200 ms: h2 departs at 100 ms and does not come back",
        ),
    ],
)
def test_what_is_certainly_wrong_is_refused(faults, sentence):
    with pytest.raises(ScenarioError) as refusal:
        scenario(*faults, sources=("h1",))
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "faults",
    [
        [join("h3", 100), leave("h3", 200), join("h3", 300)],
        [leave("h3", 200), join("h3", 100)],
        [leave("h1", 100), join("h3", 150), leave("h2", 200)],
        # Triggers may fire in between.
        [leave("h2"), join("h2", 100)],
        [join("h3"), leave("h3", 100)],
        [leave("h1", 100), leave("h2", 200), join("h4")],
        [Leave(host="", group="alpha", when=LATER), join("h1", 100)],
        [Arrive(at_ms=100, host="h3"), join("h3", 100), Depart(at_ms=200, host="h3")],
        [Arrive(when=LATER, host="h3"), join("h3", 100)],
    ],
)
def test_what_may_be_right_is_accepted(faults):
    assert scenario(*faults, sources=("h1",)).faults == tuple(faults)


def test_nobody_broadcasts_before_its_arrival_or_after_its_departure():
    late, leaving = Arrive(at_ms=100, host="h3"), Depart(at_ms=200, host="h3")
    assert scenario(late, leaving, script=((100, "h3"), (200, "h3")))
    with pytest.raises(ScenarioError, match="a broadcast of h3 at 99 ms: h3 arrives only at 100 ms"):
        scenario(late, script=((99, "h3"),))
    with pytest.raises(ScenarioError, match="a broadcast of h3 at 201 ms: h3 departs at 200 ms and does not come back"):
        scenario(leaving, script=((201, "h3"),))


def test_the_stream_of_a_workload_is_checked_too():
    late = Arrive(at_ms=50, host="h2")
    assert scenario(late, sources=("h1", "h2"))
    with pytest.raises(ScenarioError, match="a broadcast of h2 at 50 ms: h2 arrives only at 51 ms"):
        scenario(Arrive(at_ms=51, host="h2"), sources=("h1", "h2"))
    with pytest.raises(
        ScenarioError, match=r"fault arrive h2: h2 broadcasts at random times, .*; use arrivals=steady, or another"
    ):
        scenario(late, sources=("h1", "h2"), workload=Workload(arrivals="poisson"))
    assert scenario(late, sources=("h1",), workload=Workload(arrivals="poisson"))


def test_a_protocol_without_membership_has_late_hosts_but_no_joins():
    check_known([Arrive(at_ms=0, host="h3"), Depart(at_ms=9, host="h4")], "basic", knows_membership=False)
    check_known([join("h3", 0)], "managed", knows_membership=True)
    sentence = "fault join h3: protocol basic knows no membership, so no host can join or leave a group"
    with pytest.raises(FaultError, match=sentence):
        check_known([join("h3", 0)], "basic", knows_membership=False)
