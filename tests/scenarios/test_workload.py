"""When the broadcasts of a workload are made, and by whom."""

from collections import Counter
from itertools import pairwise
from statistics import mean, pstdev

import pytest

from scenarios import Scenario, Workload
from scenarios.catalogue import find
from topologies import clusters

NETWORK = clusters(2, 2, "line")
MANY = 4000


def made(seed=1, sources=NETWORK.hosts, **workload) -> list[tuple[float, str]]:
    scenario = Scenario(network=NETWORK, sources=sources, workload=Workload(**workload))
    return [(at_ms, source) for at_ms, source, *_ in scenario.broadcasts(seed)]


def test_a_steady_stream_has_equal_intervals_and_its_sources_take_turns():
    assert made(messages=5, interval=20.0, sources=("h1", "h3")) == [(0, "h1"), (20, "h3"), (40, "h1"), (60, "h3"), (80, "h1")]


def test_a_burst_is_made_at_one_moment_by_one_source_and_the_mean_rate_stays():
    assert made(messages=5, interval=20.0, at_once=2) == [(0, "h1"), (0, "h1"), (40, "h2"), (40, "h2"), (80, "h3")]


def test_random_times_of_the_whole_system_have_exponential_gaps_and_random_sources():
    stream = made(messages=MANY, interval=10.0, arrivals="poisson")
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(stream)]
    # The mean of so many exponential gaps has a standard error of 1.6 %; the deviation of one gap is its mean.
    assert mean(gaps) == pytest.approx(10.0, rel=0.08)
    assert pstdev(gaps) == pytest.approx(10.0, rel=0.12)
    assert all(share == pytest.approx(MANY / 4, rel=0.15) for share in Counter(source for _, source in stream).values())
    assert len(Counter(source for _, source in stream)) == 4


def test_random_times_of_each_host_have_exponential_gaps_by_themselves():
    stream = made(messages=MANY, interval=10.0, arrivals="poisson-per-host")
    assert stream == sorted(stream)
    for host in NETWORK.hosts:
        gaps = [later - earlier for earlier, later in pairwise([at_ms for at_ms, source in stream if source == host])]
        assert mean(gaps) == pytest.approx(10.0, rel=0.15)
        assert pstdev(gaps) == pytest.approx(10.0, rel=0.25)


@pytest.mark.parametrize("arrivals", ["poisson", "poisson-per-host"])
def test_random_times_follow_from_the_seed(arrivals):
    assert made(seed=3, arrivals=arrivals) == made(seed=3, arrivals=arrivals)
    assert made(seed=3, arrivals=arrivals) != made(seed=4, arrivals=arrivals)


@pytest.mark.parametrize("arrivals", ["steady", "poisson", "poisson-per-host"])
def test_a_stream_begins_after_the_warm_up_and_is_otherwise_the_same(arrivals):
    later = made(arrivals=arrivals, warm_up=5000.0)
    assert later == [(pytest.approx(5000.0 + at_ms), source) for at_ms, source in made(arrivals=arrivals)]


def test_with_think_time_the_first_broadcasts_alone_wait_for_the_warm_up():
    stream = made(messages=4, sources=("h1", "h2"), interval=30.0, arrivals="think", warm_up=5000.0)
    assert stream == [(5000.0, "h1"), (5000.0, "h2"), (30.0, "h1"), (30.0, "h2")]


def test_a_run_ends_after_the_last_random_broadcast_has_settled():
    scenario = Scenario(network=NETWORK, workload=Workload(arrivals="poisson", settle=500.0))
    assert scenario.ends_ms(7) == max(sending.at_ms for sending in scenario.broadcasts(7)) + 500.0


def test_sources_can_be_set_for_every_scenario():
    everybody, two = (find("grid").build({"sources": text})[0].scenario for text in ("all", "h2,h4"))
    assert everybody.sources == everybody.network.hosts
    assert two.sources == ("h2", "h4")
