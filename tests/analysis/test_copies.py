"""Books of simulated runs on a network that multicasts, from simulation to balance: they balance whatever goes wrong, and only then."""

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis.books import Fates, Forks, LinkCost, balance
from analysis.tables import journeys, scan
from analysis.tables.fates import facts_of
from hostagent.contract.wire import PORT
from hostagent.protocols import PROTOCOLS
from runfiles.format import CROSSINGS, RunRecord
from runfiles.format import write as write_file
from runfiles.reading import load
from scenarios import Broadcast, Scenario, Workload
from scenarios.faults import (
    ControllerStart,
    ControllerStop,
    Crash,
    Join,
    Leave,
    LinkChange,
    LinkDown,
    LinkUp,
    Restart,
    SwitchStart,
    SwitchStop,
)
from scenarios.groups import Group, random_groups
from scenarios.scenario import dump as dump_scenario
from simulator import results
from simulator.engine import simulate
from tests.hostagent.managed import Managed
from topologies import clusters, find, grid
from topologies.files import dump as dump_network

MESSAGES = 60


def recorded(directory, scenario, core, seed=1, **parameters):
    """A simulated run on a network that multicasts, as its directory."""
    (directory / "events").mkdir(parents=True)
    outcome = simulate(scenario, core, core.Parameters(**parameters), seed, crossings=True, multicasts=True)
    drops = results.write(outcome, directory)
    dump_network(scenario.network, directory / "network.json")
    dump_scenario(scenario, directory / "scenario.json")
    record = RunRecord(
        run=0, scenario="copies", protocol=core.name, engine="simulator", seed=seed, settings={}, parameters=parameters, udp_port=PORT,
        promise=core.promise(core.Parameters(**parameters), len(scenario.network.hosts)), medium="multicast", started_ns=0,
        ended_ns=outcome.ended_ns, versions={}, datapath="", shaping="", captures=(), link_drops=drops,
    )  # fmt: skip
    write_file(directory / "run.json", record)
    return directory


def booked(directory, table=None):
    """The books of a simulated run, and the costs of its messages."""
    run, table = load(directory), pq.read_table(directory / CROSSINGS) if table is None else table
    packets = scan.batch_of(scan.PACKETS, table.num_rows, {name: table[name].combine_chunks() for name in table.column_names})
    facts = facts_of(run)
    fates, costs, forks = journeys.journeys(pa.Table.from_batches([packets]), facts)
    link_costs = pa.Table.from_batches([scan._costs(0, packets)]).select(scan.LINK_COSTS.names)
    books = balance(
        run,
        msgspec.convert(link_costs.to_pylist(), list[LinkCost]),
        msgspec.convert(journeys._fates(fates, facts).to_pylist(), list[Fates]),
        (),
        msgspec.convert(journeys._forks(forks, facts).to_pylist(), list[Forks]),
    )
    return books, journeys._message_costs(costs, facts).to_pylist()


def streamed(network, *faults, groups=(), settle=300.0):
    workload = Workload(messages=MESSAGES, interval=5.0, settle=settle)
    return Scenario(network=network, faults=faults, groups=groups, sources=network.hosts[:3], workload=workload)


PROTOCOL = {"best-effort": {"links": "none"}, "basic": {}}


@pytest.mark.parametrize("protocol", PROTOCOL)
def test_without_faults_a_message_costs_one_packet_and_k_minus_1_crossings(tmp_path, protocol):
    network = grid(3, 3, 2)
    run = recorded(tmp_path / "run", streamed(network), PROTOCOLS[protocol], **PROTOCOL[protocol])
    books, costs = booked(run)
    assert books.differences == ()
    data = [(row["packets"], row["crossings"]) for row in costs if row["purpose"] == "data"]
    assert data == [(1, network.lower_bound)] * MESSAGES


LOSSY = {"loss": 0.02}
TROUBLES = {
    "loss": (LOSSY, ()),
    "link": (LOSSY, (LinkDown(at_ms=60, link="s1-s2"), LinkUp(at_ms=150, link="s1-s2"))),
    "duplicates": ({"duplicate": 0.05}, ()),
    "duplicates begin": ({}, (LinkChange(at_ms=100, link="s1-s2", duplicate=0.5),)),
    "crash": (LOSSY, (Crash(at_ms=60, host="h4"), Restart(at_ms=160, host="h4"))),
    "switch": ({}, (SwitchStop(at_ms=60, switch="s2"), SwitchStart(at_ms=150, switch="s2"))),
    "controller": (
        {},
        (ControllerStop(at_ms=30), LinkDown(at_ms=60, link="s1-s2"), ControllerStart(at_ms=120), LinkUp(at_ms=200, link="s1-s2")),
    ),
}


@pytest.mark.parametrize("protocol", PROTOCOL)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_books_balance_copy_by_copy_whatever_goes_wrong(tmp_path, trouble, protocol):
    properties, faults = TROUBLES[trouble]
    for seed, network in enumerate((grid(2, 3, **properties), clusters(4, 3, "ring", **properties))):
        scenario = streamed(network, *faults, groups=random_groups(network.hosts, 3, 4, seed) if seed else ())
        books, _ = booked(recorded(tmp_path / str(seed), scenario, PROTOCOLS[protocol], seed, **PROTOCOL[protocol]))
        assert books.differences == ()
        assert books.packets > MESSAGES
        assert books.vanished > 0 or trouble.startswith("duplicates")


def test_a_loss_that_no_fault_explains_is_found_beside_those_that_one_explains(tmp_path):
    """The sighting of a copy on its way into a host is taken out of the table, long after the link failed."""
    scenario = Scenario(
        network=grid(2, 3),
        faults=(LinkDown(at_ms=10, link="s1-s2"), LinkUp(at_ms=30, link="s1-s2")),
        script=tuple(Broadcast(at_ms=at_ms, source="h1") for at_ms in (0, 11, 4000)),
    )
    run = recorded(tmp_path / "run", scenario, PROTOCOLS["best-effort"], links="none")
    books, table = booked(run)[0], pq.read_table(run / CROSSINGS)
    assert books.balanced
    assert books.vanished_link_down > 0
    into_h6 = pc.and_(pc.equal(table["target"], "h6"), pc.equal(table["sequence"], 3))
    differences = booked(run, table.filter(pc.invert(into_h6)))[0].differences
    assert (
        "1 packet was last seen at s6, where 0 were dropped, packet 3 of h1 to group 0 (the copy for h6) for one" in differences
    )


def test_trees_follow_hosts_that_join_and_leave(tmp_path):
    """Messages of h1 before, during and after a join of h3 and a leave of h2."""
    faults = Join(at_ms=1500, host="h3", group="alpha"), Leave(at_ms=4000, host="h2", group="alpha")
    script = tuple(Broadcast(at_ms=at_ms, source="h1", to="alpha") for at_ms in (0, 1500, 1510, 3000, 4000, 4010, 6000))
    network = find("clusters:k=3,size=1,shape=ring,delay=5ms")
    scenario = Scenario(
        network=network, faults=faults, script=script, groups=(Group("alpha", ("h1", "h2")),), workload=Workload(settle=2000.0)
    )
    run = recorded(tmp_path / "run", scenario, Managed)
    books, _ = booked(run)
    assert books.differences == ()
    table = pq.read_table(run / CROSSINGS)
    to_alpha = table.filter(pc.equal(table["destination"], "group 1"))
    reached = {
        (row["sequence"], row["target"])
        for row in to_alpha.to_pylist()
        if row["sender"] == "h1" and row["target"] in network.hosts
    }
    assert {(1, "h2"), (4, "h2"), (4, "h3"), (7, "h3")} <= reached
    assert not {(1, "h3"), (7, "h2")} & reached
    # Without a record of the join, its copies are for a stranger.
    (run / "faults.jsonl").write_bytes(b"")
    assert any("on the way to no member of its group" in sentence for sentence in booked(run)[0].differences)
