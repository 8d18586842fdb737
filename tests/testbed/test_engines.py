"""The two engines agree where they must."""

import json

import pytest

from tests.testbed.conftest import castbed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]


def data_packets_by_link(summary):
    """Data packets on each direction of each link."""
    rows = (row for row in summary["link_costs"] if row["purpose"] == "data")
    return {(row["source"], row["target"]): row["packets"] for row in rows}


def test_a_lossless_grid_has_the_same_data_packets_on_every_link_on_both_engines(tmp_path):
    """The same cores, the same routes: with no loss, every count is equal, link by link and direction by direction."""
    counts = {}
    for engine in ("mininet", "simulator"):
        words = ("--set", "messages=10", "--set", "interval=30ms", "--set", "settle=1s", "--pack", "off", "--json")
        protocols = ("--protocol", "best-effort", "--protocol", "basic")
        done = castbed("run", "grid", "--on", engine, "--out", str(tmp_path / engine), *protocols, *words)
        assert done.returncode == 0, done.stderr
        counts[engine] = {summary["protocol"]: data_packets_by_link(summary) for summary in json.loads(done.stdout)["runs"]}
    assert counts["mininet"] == counts["simulator"]
    assert len(counts["mininet"]["basic"]) > 18


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
