"""A recorded run can be run again as it was asked for, on either engine."""

import json
import logging
import re
from argparse import Namespace

import pyarrow.parquet as pq
import pytest

from runfiles import archives
from runfiles.errors import ResultsError
from runfiles.reading import load as load_run
from scenarios import Broadcast, Scenario, ScenarioError, Workload
from scenarios.catalogue import find
from scenarios.faults import Crash, Flap, LinkChange, LinkDown, LinkUp, Restart, Trigger
from scenarios.scenario import dump, load
from testbed.commands import run as run_commands
from testbed.errors import CannotRun
from testbed.running import simulated
from testbed.running.tasks import Task
from tests.testbed.conftest import castbed
from topologies import clusters

SCRIPT = (
    Broadcast(at_ms=0.5, source="h3", payload=17),
    Broadcast(at_ms=33.25, source="h1", payload=0),
    Broadcast(at_ms=33.25, source="h3", payload=1200),
    Broadcast(at_ms=1100.0, source="h2", payload=64),
)
FAULTS = (
    LinkChange(at_ms=0.0, link="s1-s2", loss=0.2, towards="s1"),
    Crash(when=Trigger("deliver", host="h4", nth=2), host="h4"),
    Flap(at_ms=200.0, link="s1-s2", times=2, down_ms=101.5, up_ms=50.0),
    Restart(at_ms=900.0, host="h4"),
)
SCENARIO = Scenario(network=clusters(2, 2, "line"), faults=FAULTS, script=SCRIPT, workload=Workload(settle=2000.0))


def record(
    out, scenario=SCENARIO, name="mine", label="slow", protocol="basic", seed=5, pack_ms=3.0, medium="unicast", **parameters
):
    """A run in virtual time, without its analysis."""
    simulated.run(Task(name, scenario, {}, protocol, parameters, seed, out, label, pack_ms, medium), lambda *_: None)
    return out


def logs(directory):
    return {path.name: path.read_bytes() for path in (directory / "events").iterdir()}


def faults(directory):
    lines = map(json.loads, (directory / "faults.jsonl").read_text().splitlines())
    return [(line["fault"], line["target"], line["details"]) for line in lines]


def messages(table):
    """Every message that was on a link, by origin and number, with the sizes of its packets."""
    found = {}
    for row in pq.read_table(table).to_pylist():
        if row["purpose"] != "control":
            found.setdefault((row["origin"], row["sequence"]), set()).add(row["bytes"])
    return found


def replay(run, out, **options):
    """The command in this process, where Spark is started once for all tests."""
    arguments = {
        "on": None,
        "seed": None,
        "medium": None,
        "protocol": None,
        "set": [],
        "trust": False,
        "full_packets": False,
        "json": True,
        "spark_master": "local[2]",
    }
    try:
        return run_commands.replay(Namespace(run=run, out=out, **(arguments | options)))
    finally:
        logging.disable(logging.NOTSET)


def test_a_script_is_what_is_broadcast():
    assert [(at_ms, source, len(payload)) for at_ms, source, payload, *_ in SCENARIO.broadcasts(1)] == [
        (broadcast.at_ms, broadcast.source, broadcast.payload) for broadcast in SCRIPT
    ]
    assert SCENARIO.sources == ("h3", "h1", "h2")
    assert SCENARIO.ends_ms(1) == 1100.0 + 2000.0
    silent = Scenario(network=SCENARIO.network, script=(), faults=FAULTS, workload=Workload(settle=10.0))
    assert list(silent.broadcasts(1)) == []
    assert silent.ends_ms(1) == 900.0 + 10.0


@pytest.mark.parametrize("script", [None, (), SCRIPT])
def test_what_was_asked_is_read_back_as_it_was_written(script, tmp_path):
    asked = Scenario(network=SCENARIO.network, sources=("h2", "h4"), faults=FAULTS, script=script)
    dump(asked, tmp_path / "scenario.json")
    assert load(tmp_path / "scenario.json", asked.network) == asked


@pytest.mark.usefixtures("spark")
def test_a_replay_in_virtual_time_gives_the_same_events_byte_by_byte(tmp_path, capfd):
    """Here from an archive, as somebody else would have it."""
    for number in (1, 2):
        record(tmp_path / "recorded" / "slow" / str(number), seed=4 + number, retry_ms=90.0, medium="multicast")
    archives.pack(tmp_path / "recorded", tmp_path / "sent.zip", lambda *_: None)
    replay(tmp_path / "sent.zip", tmp_path / "again")
    printed = json.loads(capfd.readouterr().out)
    assert [(run["label"], run["seed"], run["engine"], run["medium"]) for run in printed["runs"]] == [
        ("slow", 5, "simulator", "multicast"),
        ("slow", 6, "simulator", "multicast"),
    ]
    assert printed["claims"] == []
    for number in ("1", "2"):
        recorded, again = tmp_path / "recorded" / "slow" / number, tmp_path / "again" / "slow" / number
        assert logs(again) == logs(recorded)
        for name in ("scenario.json", "network.json", "run.json", "faults.jsonl", "counters.json", "crossings.parquet"):
            assert (again / name).read_bytes() == (recorded / name).read_bytes()
    assert logs(tmp_path / "recorded" / "slow" / "1") != logs(tmp_path / "recorded" / "slow" / "2")


@pytest.mark.usefixtures("spark")
def test_the_claims_of_a_scenario_in_the_catalogue_are_evaluated_again(tmp_path, capfd):
    variant = find("sender_dies_halfway").build({})[1]
    label = variant.label
    record(tmp_path / "recorded", variant.scenario, "sender_dies_halfway", label, variant.protocol, **variant.parameters)
    assert replay(tmp_path / "recorded", tmp_path / "again", seed=77) == 0
    printed = json.loads(capfd.readouterr().out)
    assert [(run["label"], run["seed"]) for run in printed["runs"]] == [(label, 77)]
    assert [claim["holds"] for claim in printed["claims"]] == [True, True]
    assert (tmp_path / "again" / label / "run.json").exists()
    assert json.loads((tmp_path / "again" / "claims.json").read_text())["claims"] == printed["claims"]


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left_behind")
def test_a_run_recorded_in_virtual_time_is_replayed_with_real_packets(tmp_path):
    timed = (LinkDown(at_ms=200.0, link="s1-s2"), LinkUp(at_ms=600.0, link="s1-s2"), Restart(at_ms=900.0, host="h4"))
    scenario = Scenario(network=SCENARIO.network, faults=(FAULTS[1], *timed), script=SCRIPT, workload=Workload(settle=1500.0))
    recorded = record(tmp_path / "recorded", scenario, pack_ms=None, retry_ms=90.0)
    done = castbed("replay", str(recorded), "--on", "mininet", "--out", str(tmp_path / "again"), "--json")
    assert done.returncode == 0, done.stderr
    again = tmp_path / "again" / "slow"
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["engine"], run["seed"], run["balanced"], run["delivered_share"]) == ("mininet", 5, True, 1.0)
    assert (again / "scenario.json").read_bytes() == (recorded / "scenario.json").read_bytes()
    assert faults(again) == faults(recorded)
    assert [name for name, _, _ in faults(again)] == ["crash", "link-down", "link-up", "restart"]
    sent = messages(again / "tables" / "packets.parquet")
    assert sent == messages(recorded / "crossings.parquet")
    assert set(sent) == {("h3", 1), ("h1", 1), ("h3", 2), ("h2", 1)}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda run: (run / "scenario.json").unlink(),
            "has no scenario.json, as it was recorded by an early version: run the scenario again with ./castbed run mine",
        ),
        (lambda run: (run / "scenario.json").write_text("{"), "scenario.json is not what a run writes"),
        (
            lambda run: alter(run / "scenario.json", '"payload": 17', '"payload": 1201'),
            "payload=1201: a message has 0 to 1200 bytes",
        ),
        (lambda run: alter(run / "scenario.json", '"source": "h2"', '"source": "h9"'), "source 'h9' is not a host"),
        (lambda run: alter(run / "scenario.json", '"at_ms": 0.5', '"at_ms": -1'), "give the milliseconds since the start"),
        (lambda run: alter(run / "run.json", '"label": "slow"', '"label": "../slow"'), "cannot be the label of a run"),
        (lambda run: alter(run / "run.json", '"protocol": "basic"', '"protocol": "magic"'), "there is no protocol 'magic'"),
        (lambda run: alter(run / "run.json", '"retry_ms"', '"retry"'), "protocol basic has no parameter 'retry'"),
        (lambda run: record(run.parent / "other", name="another"), "holds runs of several scenarios (another, mine)"),
    ],
)
def test_what_cannot_be_replayed_is_a_sentence(spoil, sentence, tmp_path):
    spoil(record(tmp_path / "runs" / "one"))
    with pytest.raises((CannotRun, ResultsError, ScenarioError), match=re.escape(sentence)):
        replay(tmp_path / "runs", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def alter(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_an_old_run_is_refused_with_one_sentence_and_status_two(tmp_path):
    (record(tmp_path / "old") / "scenario.json").unlink()
    done = castbed("replay", str(tmp_path / "old"))
    assert done.returncode == 2
    assert "run the scenario again with ./castbed run mine" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_stream_of_a_script_cannot_be_set(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from scenarios import Broadcast, Scenario\nfrom topologies import clusters\n"
        "def scenario():\n    return Scenario(network=clusters(2, 1, 'line'), script=(Broadcast(at_ms=1, source='h2'),))\n"
    )
    assert find(str(mine)).build({"settle": "1s"})[0].scenario.workload.settle == 1000.0
    with pytest.raises(
        ScenarioError, match="messages cannot be set: each broadcast of this scenario has its own source, time and size"
    ):
        find(str(mine)).build({"settle": "1s", "messages": "3"})


@pytest.mark.usefixtures("spark")
def test_another_protocol_goes_through_the_same_accident(tmp_path, capfd):
    for number in (1, 2):
        record(tmp_path / "recorded" / "basic" / str(number), label="basic", seed=4 + number)
    replay(tmp_path / "recorded", tmp_path / "again", protocol=["cluster-tree", "uniform"], set=["uniform.retry_ms=90"])
    printed = json.loads(capfd.readouterr().out)
    assert [(run["label"], run["seed"]) for run in printed["runs"]] == [
        *(("cluster-tree", 5), ("cluster-tree", 6), ("uniform", 5), ("uniform", 6))
    ]
    assert {run["parameters"]["retry_ms"] for run in printed["runs"][2:]} == {90.0}
    recorded, again = tmp_path / "recorded" / "basic" / "1", tmp_path / "again" / "uniform" / "1"
    for name in ("scenario.json", "network.json"):
        assert (again / name).read_bytes() == (recorded / name).read_bytes()
    assert [row[:2] for row in faults(again)] == [row[:2] for row in faults(recorded)]


def test_a_label_of_its_own_stays_a_part_of_the_new_one(tmp_path):
    recorded = load_run(record(tmp_path / "recorded" / "slow" / "3", retry_ms=90.0))
    asked = Namespace(medium=None, trust=False, full_packets=False)
    place, out = tmp_path / "recorded", tmp_path / "again"
    other = run_commands._again(recorded, place, out, 0, asked, "uniform")
    assert (other.label, other.output, other.parameters) == ("slow-uniform", out / "slow-uniform" / "3", {})
    same = run_commands._again(recorded, place, out, 0, asked, "basic")
    assert (same.label, same.output, same.parameters["retry_ms"]) == ("slow", out / "slow" / "3", 90.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"protocol": ["nope"]}, "there is no protocol 'nope'"),
        ({"set": ["basic.retry_ms=9"]}, "a replay is as it was recorded"),
        ({"protocol": ["basic"], "set": ["messages=9"]}, "a replay is as it was recorded"),
    ],
)
def test_a_wrong_protocol_or_setting_is_a_sentence(options, sentence, tmp_path):
    record(tmp_path / "recorded")
    with pytest.raises(CannotRun, match=sentence):
        replay(tmp_path / "recorded", tmp_path / "again", **options)
