"""Groups in scenarios: how they are written, drawn, refused and used."""

import pytest

from scenarios import Broadcast, Group, Scenario, ScenarioError, Workload
from scenarios.catalogue import find
from scenarios.groups import random_groups, read_groups
from scenarios.scenario import dump, load
from testbed.errors import CannotRun
from testbed.running.settings import choose
from topologies import clusters

NETWORK = clusters(2, 2, "line")
ALPHA, BETA = Group("alpha", ("h1", "h2")), Group("beta", ("h2", "h3", "h4"))


def destinations(scenario: Scenario, seed: int = 1) -> list[int | tuple[str, ...]]:
    return [sending.to for sending in scenario.broadcasts(seed)]


def test_without_groups_every_message_is_for_everybody():
    scenario = Scenario(network=NETWORK, workload=Workload(messages=2))
    assert destinations(scenario) == [0, 0]
    assert not scenario.knows_groups


def test_a_steady_stream_goes_to_each_group_in_turn():
    scenario = Scenario(network=NETWORK, groups=(ALPHA, BETA), workload=Workload(messages=3))
    assert destinations(scenario) == [1, 2, 1]
    assert scenario.knows_groups


def test_messages_at_random_times_go_to_random_groups_that_follow_from_the_seed():
    scenario = Scenario(network=NETWORK, groups=(ALPHA, BETA), workload=Workload(messages=40, arrivals="poisson"))
    assert set(destinations(scenario)) == {1, 2}
    assert destinations(scenario, seed=2) == destinations(scenario, seed=2) != destinations(scenario, seed=3)


def test_one_message_may_be_for_hosts_that_are_no_group():
    scenario = Scenario(
        network=NETWORK, script=(Broadcast(at_ms=0, source="h1", to=("h2", "h4")), Broadcast(at_ms=1, source="h1"))
    )
    assert destinations(scenario) == [("h2", "h4"), 0]
    assert scenario.knows_groups


def test_groups_are_kept_with_a_run(tmp_path):
    script = (Broadcast(at_ms=0, source="h1", to="beta"), Broadcast(at_ms=1, source="h2", to=("h3",)))
    scenario = Scenario(network=NETWORK, groups=(ALPHA, BETA), script=script)
    dump(scenario, tmp_path / "scenario.json")
    assert load(tmp_path / "scenario.json", NETWORK) == scenario


def test_groups_can_be_written_in_a_setting():
    assert read_groups("alpha:h1,h2;beta:h2,h3,h4", NETWORK.hosts) == (ALPHA, BETA)
    (variant, _) = find("grid").build({"groups": "random:groups=3,size=2,seed=5"})
    assert variant.scenario.groups == random_groups(variant.scenario.network.hosts, 3, 2, 5)


def test_random_groups_have_their_size_and_follow_from_the_seed():
    hosts = tuple(f"h{number}" for number in range(50))
    groups = random_groups(hosts, 20, 5, seed=7)
    assert [group.name for group in groups] == [f"g{number}" for number in range(1, 21)]
    assert all(len(set(group.members)) == 5 and list(group.members) == sorted(group.members, key=hosts.index) for group in groups)
    assert groups == random_groups(hosts, 20, 5, seed=7) != random_groups(hosts, 20, 5, seed=8)


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("alpha:h1,h9999", "group 'alpha' names 'h9999', which is not a host"),
        ("alpha:", "group 'alpha' is empty: name at least one host"),
        ("alpha:h1;alpha:h2", "group 'alpha' is named twice"),
        ("alpha:h1,h1", "group 'alpha' names h1 twice"),
        ("everybody:h1", "a group cannot be called 'everybody'"),
        ("[red]:h1", "a group cannot be called '\\[red\\]'"),
        ("alpha", "write NAME:HOST,HOST;NAME:HOST,HOST"),
        ("random:size=4", "write random:groups=10,size=4,seed=7"),
        ("random:groups=ten,size=4", "with whole numbers"),
        ("random:groups=3,size=1000", "random groups of 1000 hosts: there are 18 hosts"),
        ("random:groups=70000,size=1", "70000 groups are too many: there are addresses for 65534"),
    ],
)
def test_groups_that_make_no_sense_are_refused_with_a_sentence(groups, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        find("grid").build({"groups": groups})


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ((), "a broadcast of h1 is empty: name at least one host"),
        (("h9",), "a broadcast of h1 names 'h9', which is not a host"),
        ("gamma", "a broadcast of h1 is to group 'gamma': choose from everybody, alpha"),
    ],
)
def test_a_message_to_nobody_or_to_strangers_is_refused(to, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        Scenario(network=NETWORK, groups=(ALPHA,), script=(Broadcast(at_ms=0, source="h1", to=to),))


def test_a_protocol_that_knows_no_groups_is_refused_with_a_sentence():
    variants = find("grid").build({"groups": "alpha:h1,h2"})
    with pytest.raises(
        CannotRun,
        match="protocol cluster-tree sends every message to everybody and knows no groups: choose from best-effort, basic",
    ):
        choose(variants, (), {})
