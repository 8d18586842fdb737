"""The datagrams between hosts, from a packets table made by hand and from a simulation."""

from types import SimpleNamespace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.judging.history import MembershipRequest, Transit
from analysis.tables.scan import PACKETS, batch_of
from analysis.tables.transits import recorded, transits
from hostagent.contract.promises import Guarantee, Promise, TimeBound, Timing
from hostagent.protocols.best_effort import BestEffort
from scenarios import Scenario, Workload
from scenarios.groups import Group
from simulator.cases import Case, run
from simulator.engine import CROSSING, simulate
from simulator.transits import TransitRecorder
from tests.analysis.stage import star
from topologies import find

RUN = SimpleNamespace(network=star(4), members={0: ("h1", "h2", "h3", "h4"), 1: ("h1", "h2", "h3")})


def seen(source, target, at_ns, destination="h2", packet=1, purpose="data", sequence=1, sender="h1"):
    told = {"sender": sender, "destination": destination, "packet": packet, "purpose": purpose, "kind": 0}
    return told | {"source": source, "target": target, "at_ns": at_ns, "origin": "h1", "sequence": sequence}


def written(path, rows):
    columns = {name: [row.get(name) for row in rows] for name in PACKETS.names}
    pq.write_table(pa.Table.from_batches([batch_of(PACKETS, len(rows), columns)]), path)
    return path


def found(tmp_path, *rows, requests=()):
    return transits(RUN, written(tmp_path / "packets.parquet", rows), requests)


def transit(left_ns, arrived_ns, to="h2", sequence=1, carries=True, shared=False):
    return Transit(left_ns, arrived_ns, "h1", to, "h1", sequence, 0, carries, shared)


def copy(left_ns, arrived_ns, to="h2"):
    return transit(left_ns, arrived_ns, to, shared=True)


def test_a_datagram_leaves_once_and_arrives_or_is_lost(tmp_path):
    rows = (
        *(seen("h1", "s1", 5), seen("s1", "s0", 6), seen("s0", "s2", 7), seen("s2", "h2", 9)),
        *(seen("h1", "s1", 2, packet=2, destination="h3", purpose="control"), seen("s1", "s0", 3, packet=2, destination="h3")),
        {"source": "h1", "target": "s1", "at_ns": 1, "sender": "h1"},
    )
    assert found(tmp_path, *rows) == (transit(2, None, "h3", carries=False), transit(5, 9))


def test_a_duplicate_that_the_network_made_is_not_another_datagram(tmp_path):
    rows = seen("h1", "s1", 5), seen("h1", "s1", 6), seen("s2", "h2", 9), seen("s2", "h2", 8)
    assert found(tmp_path, *rows) == (transit(5, 8),)


def test_a_datagram_to_a_group_is_a_transit_for_each_other_member_and_for_whoever_gets_it(tmp_path):
    rows = [seen("h1", "s1", 5, "group 1"), seen("s2", "h2", 8, "group 1")]
    assert found(tmp_path, *rows) == (copy(5, 8), copy(5, None, "h3"))
    asked = (MembershipRequest(1, "h3", 1, joins=False),)
    assert found(tmp_path, *rows, requests=asked) == (copy(5, 8),)
    rows.append(seen("s4", "h4", 9, "group 1"))
    assert found(tmp_path, *rows, requests=asked) == (copy(5, 8), copy(5, 9, "h4"))


def test_a_copy_that_comes_back_to_its_sender_is_no_transit(tmp_path):
    rows = seen("h1", "s1", 5, "group 1"), seen("s1", "h1", 6, "group 1"), seen("s2", "h2", 8, "group 1")
    assert found(tmp_path, *rows) == (copy(5, 8), copy(5, None, "h3"))


def test_without_packets_there_are_no_transits(tmp_path):
    assert found(tmp_path) == ()


@pytest.mark.parametrize("multicasts", [False, True])
def test_the_simulator_records_what_the_table_of_its_packets_says(tmp_path, multicasts):
    network = find("grid:rows=2,cols=2,loss=5%,delay=10ms")
    scenario = Scenario(
        network=network,
        sources=network.hosts[:2],
        groups=(Group(name="alpha", members=network.hosts[:3]),),
        workload=Workload(messages=20, interval=10, settle=200),
    )
    recorder = TransitRecorder()
    parameters = BestEffort.Parameters()
    asked = {"pack_ms": None, "multicasts": multicasts}
    simulated = simulate(scenario, BestEffort, parameters, 1, on_transmit=recorder.left, on_crossing=recorder.crossed, **asked)
    kept = simulate(scenario, BestEffort, parameters, 1, crossings=True, **asked)
    rows = [dict(zip(CROSSING, row, strict=True)) for row in kept.crossings]
    run_input = SimpleNamespace(network=network, members={0: network.hosts, **scenario.members})
    told = transits(run_input, written(tmp_path / "packets.parquet", rows), ())
    in_time = [one for one in told if one.left_ns < simulated.ended_ns - 100_000_000]
    assert len(in_time) > 30
    assert any(one.arrived_ns is None for one in in_time)
    assert sorted(in_time, key=repr) == sorted(recorder.transits(simulated.world, ())[: len(in_time)], key=repr)


class Bounded(BestEffort):
    """Best effort with a bound that it keeps where nothing is lost."""

    @classmethod
    def promise(cls, parameters, hosts) -> Promise:
        bound = TimeBound(timing=Timing.P2, bound_ms=25, process_ms=0, network_ms=20)
        made = msgspec.structs.replace(super().promise(parameters, hosts), time_bounds=(bound,))
        return msgspec.structs.replace(made, guarantees=(*made.guarantees, Guarantee.GENUINE))


def test_a_campaign_judges_promises_about_datagrams():
    case = Case(protocol="best-effort", seed=1, topology="grid:rows=2,cols=2,delay=5ms", heal_for_ms=1000, sources=("h1",))
    findings = run(case, Bounded).judgement.findings
    assert (findings["P2 within 25 ms"].verdict, findings["genuine"].verdict) == ("holds", "not tested")
    assert findings["P2 within 25 ms"].longest_ms > 9


def test_only_runs_whose_promise_is_about_datagrams_are_read(tmp_path):
    promised = msgspec.structs.replace(Bounded.promise(BestEffort.Parameters(), 4), guarantees=())
    (tmp_path / "tables").mkdir()
    analysed = SimpleNamespace(
        directory=tmp_path, run=SimpleNamespace(promise=promised), network=RUN.network, members=RUN.members
    )
    assert recorded(analysed) is None
    written(tmp_path / "tables" / "packets.parquet", [seen("h1", "s1", 5)])
    assert recorded(analysed) == (transit(5, None),)
    analysed.run.promise = msgspec.structs.replace(promised, time_bounds=())
    assert recorded(analysed) is None
