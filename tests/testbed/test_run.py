"""Whole runs, from the command typed to the figures: real switches, real packets, real Spark."""

import json
import subprocess

import pyarrow.parquet as pq
import pytest

from runfiles.format import RUN_FILES
from scenarios.catalogue import find
from tests.testbed.conftest import castbed, start_castbed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]

# Nothing is sent again however the machine stalls.
PATIENT = ("--set", "basic.retry_ms=10000", "--set", "basic.longest_retry_ms=10000")
QUICK = ("--set", "messages=10", "--set", "interval=20ms", "--set", "settle=1500ms")


def summaries(done):
    """The summaries that a command printed, by protocol."""
    return {summary["protocol"]: summary for summary in json.loads(done.stdout)["runs"]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The network of the demo, four clusters of three hosts, with the protocols whose counts are exact."""
    out = tmp_path_factory.mktemp("demo") / "out"
    # Packing is off, so that counts are exact however the machine stalls: two acknowledgements could leave together.
    protocols = ("--protocol", "best-effort", "--set", "best-effort.links=none", "--protocol", "basic", *PATIENT)
    done = castbed("run", "clusters", "--json", "--out", str(out), "--pack", "off", *protocols, *QUICK)
    assert done.returncode == 0, done.stderr
    return out, summaries(done)


def test_best_effort_sends_one_packet_to_every_remote_host_for_each_message(demo):
    """Nine hosts of twelve are in other clusters than the source."""
    _, by_protocol = demo
    cost = by_protocol["best-effort"]["cost"]
    assert cost["expensive_packets_per_message"] == cost["expensive_data_packets_per_message"] == 9.0
    assert cost["lower_bound"] == 3


def test_basic_sends_exactly_twice_that_with_its_acknowledgements(demo):
    _, by_protocol = demo
    cost = by_protocol["basic"]["cost"]
    assert cost["expensive_packets_per_message"] == 18.0
    assert cost["expensive_data_packets_per_message"] == cost["expensive_control_packets_per_message"] == 9.0


def test_everything_is_delivered_and_the_books_balance(demo):
    _, by_protocol = demo
    assert list(by_protocol) == ["best-effort", "basic"]
    for summary in by_protocol.values():
        assert summary["delivered_share"] == 1.0
        assert (summary["balanced"], summary["differences"], summary["verdict"]) == (True, [], "holds")
        assert (summary["messages"], summary["hosts"], summary["clusters"]) == (10, 12, 4)


def test_every_captured_packet_has_the_right_cost_bit(demo):
    """At its destination, from the captures alone: marked exactly if it was seen on an expensive link."""
    out, _ = demo
    for protocol, packets in (("best-effort", 110), ("basic", 220)):
        rows = pq.read_table(out / protocol / "tables" / "packets.parquet").to_pylist()
        crossed = {(row["sender"], row["packet"]) for row in rows if row["expensive"]}
        arrivals = [row for row in rows if row["target"] == row["destination"]]
        assert len(arrivals) == packets
        assert all((row["dscp"] == 3) == ((row["sender"], row["packet"]) in crossed) for row in arrivals)


def test_a_run_leaves_what_the_architecture_says(demo):
    out, _ = demo
    for protocol in ("best-effort", "basic"):
        names = {path.name for path in (out / protocol).iterdir()}
        assert names == {
            *("run.json", "scenario.json", "network.json", "faults.jsonl", "controller.jsonl", "counters.json", "summary.json"),
            *("events", "captures", "tables", "plots"),
        }
        # Whatever a run leaves is handed on with it.
        assert names <= RUN_FILES
    assert {path.name for path in (out / "plots").iterdir()} >= {"cost.png", "cost.svg", "delays.png", "delays.svg"}
    assert "best-effort" in (out / "report.html").read_text()


def test_a_run_can_be_analysed_again_with_the_same_result(demo):
    out, by_protocol = demo
    done = castbed("analyse", "--json", str(out / "basic"), "--out", str(out / "again"))
    assert done.returncode == 0, done.stderr
    assert summaries(done)["basic"] == by_protocol["basic"]
    assert find("clusters").summary in (out / "again" / "report.html").read_text()


def test_a_spoiled_capture_is_reported_and_makes_the_verdict_unknown(demo, tmp_path):
    out, _ = demo
    copy = tmp_path / "spoiled"
    subprocess.run(["cp", "-r", str(out / "basic"), str(copy)], check=True)
    (copy / "captures" / "s1-s2.pcap").write_bytes(b"garbage")
    done = castbed("analyse", "--json", str(copy))
    assert done.returncode == 2, done.stderr
    summary = summaries(done)["basic"]
    assert (summary["balanced"], summary["verdict"]) == (False, "unknown")
    assert any("s1-s2" in difference for difference in summary["differences"])


def test_a_pulled_link_is_routed_around_and_the_log_says_how_long_it_took(tmp_path):
    """The path from s1 to s3 uses s1-s2; after the pull everything goes round through the second row."""
    out = tmp_path / "out"
    shape = ("--set", "rows=2", "--set", "cols=3", "--set", "hosts=2", "--set", "pull=s1-s2", "--set", "pull_at=100ms")
    done = castbed("run", "grid", "--protocol", "basic", "--json", "--out", str(out), *shape, *QUICK, "--set", "settle=2s")
    assert done.returncode == 0, done.stderr
    assert summaries(done)["basic"]["delivered_share"] == 1.0
    log = [json.loads(line) for line in (out / "basic" / "controller.jsonl").read_text().splitlines()]
    rerouted = [event for event in log if event["event"] == "rerouted" and event["flows_changed"] > 0]
    assert rerouted
    assert all(event["took_ms"] > 0 for event in rerouted)
    fault = json.loads((out / "basic" / "faults.jsonl").read_text())
    assert (fault["fault"], fault["target"]) == ("link-down", "s1-s2")
    after = [
        row
        for row in pq.read_table(out / "basic" / "tables" / "packets.parquet").to_pylist()
        if row["at_ns"] > rerouted[0]["at_ns"]
    ]
    assert after
    assert "s1-s2" not in {row["link"] for row in after}


def test_what_is_lost_before_the_first_broadcast_is_on_the_books(tmp_path):
    """Heartbeats begin with the agents."""
    period = ("--set", "lazy-reliable.period_ms=50", "--set", "loss=30%")
    done = castbed("run", "clusters", "--json", "--out", str(tmp_path / "out"), "--protocol", "lazy-reliable", *period, *QUICK)
    books = summaries(done)["lazy-reliable"]["books"]
    # What the links drop besides is answers to heartbeats that come before an agent listens.
    assert books["differences"] == []
    assert books["dropped_loss"] >= books["vanished"] > 100


def test_two_runs_side_by_side_do_not_collide(tmp_path):
    runs = [
        start_castbed(
            "run", "clusters", "--protocol", "basic", "--json", "--out", str(tmp_path / name), "--set", f"k={k}", *QUICK
        )
        for name, k in (("one", 2), ("two", 3))
    ]
    for process, clusters in zip(runs, (2, 3), strict=True):
        output, said = process.communicate()
        assert process.returncode == 0, said
        (summary,) = json.loads(output)["runs"]
        assert (summary["clusters"], summary["verdict"], summary["balanced"]) == (clusters, "holds", True)


def test_a_source_that_is_offered_too_much_slows_down_loses_nothing_and_says_so(tmp_path):
    """Twenty thousand messages in a fifth of a second: no machine of two cores broadcasts them in time."""
    workload = ("--set", "messages=20000", "--set", "interval=0.01ms", "--set", "payload=64", "--set", "settle=3000ms")
    done = castbed(
        "run", "topology", "--set", "of=lan:hosts=3", "--protocol", "basic", *workload, "--json", "--out", str(tmp_path / "out")
    )
    assert done.returncode == 0, done.stderr
    summary = summaries(done)["basic"]
    assert (summary["delivered_share"], summary["balanced"], summary["verdict"]) == (1.0, True, "holds")
    load = summary["load"]
    assert summary["messages"] + load["held_back"] == 20_000
    assert load["achieved_per_second"] < load["offered_per_second"]
    assert 0 < load["busiest_agent_share"] <= 1.1
    assert any(reason.startswith("the sources fell behind") for reason in summary["verdict_reasons"])
