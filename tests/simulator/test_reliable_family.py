"""The second paper's claims about its four broadcasts, in virtual time."""

import itertools
from random import Random

import msgspec
import pytest

from analysis.figures.detection import detection
from analysis.judging.connectivity import Connectivity
from analysis.judging.properties.delivery import agreement, uniform_agreement
from hostagent.protocols import PROTOCOLS
from scenarios import Scenario, Workload
from scenarios.faults import Crash, Heal, Partition, Pause, Resume, Trigger
from simulator.cases import Case, history_of, run
from simulator.engine import simulate
from simulator.swarm import draw_case
from topologies import find

FAMILY = ("best-effort", "eager-reliable", "lazy-reliable", "uniform")
RELIABLE = FAMILY[1:]
NETWORK = find("clusters:k=3,size=2,shape=ring,delay=2ms")
HOSTS = len(NETWORK.hosts)


def simulated(protocol, *faults, settle=60_000.0, messages=1, sources=("h1",), pack_ms=0.0):
    core = PROTOCOLS[protocol]
    workload = Workload(messages=messages, interval=50.0, payload=64, settle=settle)
    scenario = Scenario(network=NETWORK, sources=sources, faults=faults, workload=workload)
    return simulate(scenario, core, core.Parameters(), 1, pack_ms=pack_ms)


def judged(check, protocol, outcome):
    promise = PROTOCOLS[protocol].promise(PROTOCOLS[protocol].Parameters(), HOSTS)
    connectivity = Connectivity(NETWORK, outcome.faults, outcome.ended_ns)
    return check(history_of(outcome), promise, connectivity).verdict


def delivered(outcome, sequence=1):
    return {host for host, event in outcome.events if event.event == "deliver" and event.sequence == sequence}


def sent(outcome, purpose):
    return sum(counters[f"sent_{purpose}"] for counters in outcome.counters.values())


@pytest.mark.parametrize(
    ("protocol", "letters", "packed"),
    [
        ("best-effort", HOSTS - 1, 0),
        ("lazy-reliable", HOSTS - 1, 0),
        ("eager-reliable", HOSTS * (HOSTS - 1), HOSTS - 1),
        ("uniform", HOSTS * (HOSTS - 1), HOSTS - 1),
    ],
)
def test_what_a_message_costs_is_what_the_docstring_says(protocol, letters, packed):
    """Over five messages; heartbeats are counted by a run of the same length with one message less."""
    for pack_ms, shared in ((None, 0), (0.0, packed)):
        five, four = (simulated(protocol, messages=n, settle=1000.0 - 50 * n, pack_ms=pack_ms) for n in (5, 4))
        assert sent(five, "data") == 5 * letters
        assert sent(five, "control") - sent(four, "control") == letters - shared
        assert sent(five, "repair") == 0


@pytest.mark.parametrize(("protocol", "verdict"), [*zip(FAMILY, ("violated", "holds", "holds", "holds"), strict=True)])
@pytest.mark.parametrize("nth", range(1, HOSTS - 1))
def test_a_sender_that_dies_half_way(protocol, verdict, nth):
    """Best effort leaves some without the message, reliable broadcast does not."""
    outcome = simulated(protocol, Crash(host="h1", when=Trigger("send", host="h1", sequence=1, nth=nth)))
    assert judged(agreement.check, protocol, outcome) == verdict
    assert len(delivered(outcome) - {"h1"}) == (nth if protocol == "best-effort" else HOSTS - 1)


@pytest.mark.parametrize(("protocol", "verdict"), [*zip(RELIABLE, ("violated", "violated", "holds"), strict=True)])
def test_a_host_that_delivers_and_dies_before_anything_leaves_it(protocol, verdict):
    """Reliable broadcast lets it deliver what nobody else will know; uniform does not (the replicated database of the paper)."""
    outcome = simulated(protocol, Crash(host="h1", when=Trigger("deliver", host="h1", sequence=2)), messages=2)
    assert judged(uniform_agreement.check, protocol, outcome) == verdict
    assert delivered(outcome, 2) == ({"h1"} if verdict == "violated" else set(NETWORK.hosts))


@pytest.mark.parametrize("protocol", RELIABLE)
def test_wrong_suspicions_do_no_harm_that_lasts(protocol):
    """A partition and a pause, both longer than any time-out: safety holds throughout, and in the end everybody has everything."""
    away = (Pause(at_ms=0, host="h2"), Resume(at_ms=20_000, host="h2"))
    cut = (Partition(at_ms=100, sides=(("s1",),)), Heal(at_ms=20_000))
    outcome = simulated(protocol, *away, *cut, messages=12, sources=("h1", "h3", "h6"))
    deliveries = [(host, event.origin, event.sequence) for host, event in outcome.events if event.event == "deliver"]
    everything = {(host, source, n) for host in NETWORK.hosts for source in ("h1", "h3", "h6") for n in range(1, 5)}
    assert sorted(deliveries) == sorted(everything)


def deaths(protocol, seed):
    """A case in which up to all but one host die for good, most of them while they send."""
    random = Random(f"{protocol}/{seed}")
    links = random.choice(("", ",loss=10%", ",loss=30%", ",delay=20ms", ",duplicate=20%,reorder=30%"))
    topology = f"clusters:k={random.randint(2, 3)},size=2,shape=ring{links}".replace(
        "k=2,size=2,shape=ring", "k=2,size=2,shape=line"
    )
    hosts = find(topology).hosts
    faults = [
        Crash(host=host, when=Trigger(random.choice(("send", "send", "deliver")), host=host, nth=random.randint(1, 30)))
        for host in random.sample(hosts, k=random.randint(1, len(hosts) - 1))
    ]
    return Case(
        protocol=protocol,
        seed=seed,
        topology=topology,
        sources=tuple(random.sample(hosts, k=2)),
        messages=random.randint(1, 6),
        settle_ms=90_000.0,
        heal_for_ms=0.0,
        faults=tuple(faults),
    )


@pytest.mark.parametrize("protocol", FAMILY)
def test_whoever_dies_for_good_and_when_the_others_keep_the_promises(protocol):
    for seed in range(15):
        judgement = run(deaths(protocol, seed)).judgement
        assert judgement.verdict == "holds", (seed, judgement.reasons)


@pytest.mark.parametrize("protocol", FAMILY)
def test_it_keeps_its_promises_in_whatever_it_claims_to_survive(protocol):
    within = (case for seed in itertools.count() if not (case := draw_case(protocol, seed)[0]).beyond)
    judged = {case.seed: run(case).judgement for case in itertools.islice(within, 15)}
    assert {seed: judgement.reasons for seed, judgement in judged.items() if judgement.verdict == "violated"} == {}
    # Of fifteen runs, most tell something.
    assert sum(judgement.verdict == "holds" for judgement in judged.values()) > 7


def test_crashes_are_noticed_in_time_and_a_quiet_network_makes_nobody_suspect():
    parameters = PROTOCOLS["lazy-reliable"].Parameters()
    outcome = simulated("lazy-reliable", Crash(at_ms=5000, host="h4"), settle=20_000.0)
    figures = detection(history_of(outcome), outcome.faults, Connectivity(NETWORK, outcome.faults, outcome.ended_ns))
    (crash,) = figures.crashes
    assert (crash.host, sorted(crash.after_ms)) == ("h4", ["h1", "h2", "h3", "h5", "h6"])
    assert parameters.timeout_ms - parameters.period_ms <= figures.detection_ms_p50 <= figures.detection_ms_max
    assert figures.detection_ms_max <= parameters.timeout_ms + 2 * parameters.period_ms
    assert (figures.false_suspicions, figures.wrongly_suspected_ms) == (0, 0)
    assert msgspec.json.decode(msgspec.json.encode(figures), type=type(figures)) == figures
