"""The two engines agree where they must."""

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from hostagent.contract.wire import COST_DSCP
from runfiles.reading import load
from scenarios.scenario import load as load_scenario
from testbed.running import simulated
from testbed.running.tasks import Task
from tests.simulator.test_multicast import is_marked
from tests.testbed.conftest import castbed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]


MESSAGES = 10


def data_packets(directory):
    """The rows of all data packets on all links."""
    table = directory / "tables" / "packets.parquet" if (directory / "captures").exists() else directory / "crossings.parquet"
    return [row for row in pq.read_table(table).to_pylist() if row["purpose"] == "data"]


def by_link(rows):
    """Packets on each direction of each link."""
    return Counter((row["source"], row["target"]) for row in rows)


def simulate_again(run, output):
    """The same run in virtual time, without its analysis."""
    scenario, record = load_scenario(run.directory / "scenario.json", run.network), run.run
    about = (record.scenario, scenario, record.settings, record.protocol, record.parameters, record.seed, output, record.label)
    simulated.run(Task(*about, record.pack_ms, record.medium), lambda *_: None)


@pytest.mark.parametrize("medium", ["unicast", "multicast"])
def test_a_lossless_grid_has_the_same_data_packets_on_every_link_on_both_engines(medium, tmp_path):
    """The same cores, the same routes: with no loss, every count is equal, link by link and direction by direction.

    On multicast a message is one datagram, which crosses k - 1 expensive links.
    """
    words = ("--set", f"messages={MESSAGES}", "--set", "interval=30ms", "--set", "settle=1s", "--pack", "off", "--json")
    protocols = ("--protocol", "best-effort", "--set", "best-effort.links=none", "--protocol", "basic")
    done = castbed("run", "grid", "--medium", medium, "--out", str(tmp_path / "mininet"), *protocols, *words)
    assert done.returncode == 0, done.stderr
    for protocol in ("best-effort", "basic"):
        run = load(tmp_path / "mininet" / protocol)
        rows = data_packets(run.directory)
        simulate_again(run, tmp_path / protocol)
        assert by_link(rows) == by_link(data_packets(tmp_path / protocol))
        assert [row for row in rows if (row["dscp"] == COST_DSCP) != is_marked(run.network, row)] == []
        others = len(run.network.hosts) - 1
        assert sum(counted["sent_data"] for counted in run.counters.values()) == MESSAGES * (
            1 if medium == "multicast" else others
        )
        if medium == "multicast":
            assert sum(row["expensive"] for row in rows) == MESSAGES * run.network.lower_bound


def test_the_simulator_needs_no_root_and_gives_the_same_run_for_the_same_seed(tmp_path):
    words = ("run", "clusters", "--on", "simulator", "--protocol", "basic", "--set", "loss=20%", "--set", "delay=20ms", "--json")
    outputs = [castbed(*words, "--out", str(tmp_path / name), "--seed", "5") for name in ("one", "two")]
    one, two = (json.loads(done.stdout)["runs"][0] for done in outputs)
    assert one == two
    assert one["engine"] == "simulator"
    assert one["cost"]["expensive_repair_packets_per_message"] > 0


def test_a_schedule_file_is_injected_and_a_trigger_that_never_fires_makes_the_run_unknown(tmp_path):
    schedule = tmp_path / "schedule.json"
    schedule.write_text('[{"fault": "crash", "host": "h2", "when": {"event": "leader"}}]')
    words = ("--on", "simulator", "--protocol", "basic", "--faults", str(schedule), "--json", "--out", str(tmp_path / "out"))
    done = castbed("run", "clusters", *words)
    assert done.returncode == 2
    (summary,) = json.loads(done.stdout)["runs"]
    assert summary["verdict"] == "unknown"
    assert "the fault crash h2 never happened: its trigger did not fire" in summary["verdict_reasons"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[{", "schedule"),
        ('[{"fault": "earthquake", "at_ms": 1}]', "the faults are link-down"),
        ('[{"fault": "link-down", "at_ms": 1, "link": "s1-s9"}]', "no link between 's1' and 's9'"),
        ('[{"fault": "link-down", "link": "s1-s2"}]', "give it either a time (at_ms) or a trigger (when)"),
        ('[{"fault": "crash", "at_ms": 1, "host": "h99"}]', "host 'h99'"),
    ],
)
def test_a_bad_schedule_is_answered_with_a_sentence(text, sentence, tmp_path):
    schedule = tmp_path / "schedule.json"
    schedule.write_text(text)
    done = castbed("run", "clusters", "--on", "simulator", "--faults", str(schedule), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
