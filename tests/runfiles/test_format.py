"""Every file of a run says its format: newer ones are refused with a sentence, and runs from before there was a format are read.

`format_1` holds what the last commit without a format made: a simulated run, and an archive of one on Mininet with a link that fails.
"""

import json
import shutil
import zipfile
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from analysis import job
from analysis.figures.claims import Claim, read_claims, write_claims
from analysis.figures.comparison import compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import read_summary
from analysis.judging.check_run import check_run
from runfiles.archives import pack, unpack
from runfiles.errors import ResultsError
from runfiles.format import FORMAT, encoded
from runfiles.reading import load
from scenarios.scenario import load as load_scenario
from testbed.running import simulated, sweep
from testbed.running.tasks import Task

OLD = Path(__file__).parent / "format_1"
NEWER = f"is of format {FORMAT + 1}, and this Castbed reads formats up to {FORMAT}"


def silent(*_):
    pass


@pytest.fixture
def old(tmp_path):
    """The runs of format 1, in a place of their own."""
    shutil.copytree(OLD / "simulated", tmp_path / "simulated")
    shutil.copy(OLD / "mininet.zip", tmp_path)
    return {"simulated": tmp_path / "simulated", "mininet": unpack(tmp_path / "mininet.zip", silent) / "basic"}


@pytest.fixture
def new(old, tmp_path):
    """A run of today's format, made anew of what was asked of the old one."""
    return again(old["simulated"], tmp_path / "new")


def again(directory: Path, output: Path) -> Path:
    recorded = load(directory)
    asked, run = load_scenario(directory / "scenario.json", recorded.network), recorded.run
    simulated.run(
        Task(run.scenario, asked, run.settings, run.protocol, dict(run.parameters), run.seed, output, run.label), silent
    )
    return output


@pytest.mark.parametrize("engine", ["simulated", "mininet"])
def test_a_run_of_format_1_is_read_checked_and_run_again(old, engine, tmp_path):
    run = load(old[engine])
    assert run.counters.keys() == set(run.network.hosts)
    assert [fault.fault for fault in run.faults] == (["link-down", "link-up"] if engine == "mininet" else [])
    assert check_run(old[engine]).verdict in {"holds", "not tested"}
    assert read_summary(old[engine]).balanced
    assert load(again(old[engine], tmp_path / "again")).network == run.network


def test_runs_of_format_1_are_analysed_and_compared(old, crew):
    before = {name: read_summary(directory) for name, directory in old.items()}
    after = dict(zip(old, job.analyse(list(old.values()), crew, drawing=False), strict=True))
    measured = [MeasuredRun(load(directory), after[name]) for name, directory in old.items()]
    assert {group.name for group in compared(grouped(measured), "label").groups} == {"basic", "cluster-tree"}
    for name, directory in old.items():
        known = {field: value for field, value in msgspec.structs.asdict(before[name].cost).items() if "crossings" not in field}
        assert known.items() <= msgspec.structs.asdict(after[name].cost).items()
        assert after[name].balanced
        assert MeasuredRun(load(directory), after[name]).table("packets").num_rows > 0
        assert b"castbed_format" in pq.read_schema(directory / "tables" / "deliveries.parquet").metadata
        assert b"castbed_format" in pq.read_schema(next((directory / "tables" / "packets.parquet").iterdir())).metadata


def test_every_json_file_says_its_format(new):
    for name in ("run.json", "scenario.json", "network.json", "counters.json"):
        assert json.loads((new / name).read_bytes())["format"] == FORMAT, name
    assert pq.read_schema(new / "crossings.parquet").metadata[b"castbed_format"] == b"%d" % FORMAT


@pytest.mark.parametrize("name", ["run.json", "network.json", "counters.json", "faults.jsonl", "summary.json", "scenario.json"])
def test_a_file_of_a_newer_format_is_refused_with_a_sentence(new, old, name):
    shutil.copy(old["simulated"] / "summary.json", new)
    path = new / name
    record = (
        {"fault": "crash", "target": "h1", "asked_ns": 1, "applied_ns": 1}
        if name == "faults.jsonl"
        else json.loads(path.read_bytes())
    )
    path.write_text(json.dumps({**record, "format": FORMAT + 1, "something": "that is not known yet"}) + "\n")
    with pytest.raises(ResultsError, match=NEWER):
        load_scenario(path, load(new).network) if name == "scenario.json" else check_run(new)


def test_tables_of_a_newer_format_are_refused(old):
    path = old["simulated"] / "tables" / "deliveries.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"castbed_format": str(FORMAT + 1)}), path)
    run = MeasuredRun(load(old["simulated"]), read_summary(old["simulated"]))
    with pytest.raises(ResultsError, match=NEWER):
        run.table("deliveries")


def test_an_archive_says_its_format_and_a_newer_one_is_refused(new, tmp_path):
    pack(new, tmp_path / "packed.zip", silent)
    with zipfile.ZipFile(tmp_path / "packed.zip", "a") as packed:
        assert packed.comment == b"castbed runs, format %d" % FORMAT
        packed.comment = b"castbed runs, format %d" % (FORMAT + 1)
    with pytest.raises(ResultsError, match=NEWER):
        unpack(tmp_path / "packed.zip", silent)


def test_claims_say_their_format_and_those_of_format_1_are_read(tmp_path):
    claim = Claim("1", "it works", holds=True, figure="42")
    path = tmp_path / "claims.json"
    path.write_bytes(msgspec.json.encode([claim]))
    assert read_claims([tmp_path]) == [claim]
    write_claims([claim], tmp_path)
    assert json.loads(path.read_bytes())["format"] == FORMAT
    assert read_claims([tmp_path]) == [claim]
    path.write_bytes(path.read_bytes().replace(b'"format": %d' % FORMAT, b'"format": %d' % (FORMAT + 1)))
    with pytest.raises(ResultsError, match=NEWER):
        read_claims([tmp_path])


def test_a_sweep_says_its_format_and_a_newer_one_is_refused(tmp_path):
    plan = sweep.SweepPlan(
        scenario="clusters", engine="simulator", axes={"k": ("2",)}, fixed=(), protocols=(), seed=1, repeat=1, pack_ms=0.0
    )
    sweep.begin(plan, tmp_path)
    path = tmp_path / "sweep.json"
    assert json.loads(path.read_bytes())["format"] == FORMAT
    path.write_bytes(encoded(plan).replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1)))
    with pytest.raises(ResultsError, match=NEWER):
        sweep.begin(plan, tmp_path)


def test_a_host_may_be_called_format(new):
    """In files of format 1 the hosts were fields of the whole."""
    counters = json.loads((new / "counters.json").read_bytes())["hosts"]
    (new / "counters.json").write_text(json.dumps({"format": counters["h1"], **counters}))
    assert load(new).counters["format"] == counters["h1"]
