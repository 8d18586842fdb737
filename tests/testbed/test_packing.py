"""Packing on a real network: a stream costs a fraction of the packets, and the books still balance."""

import json

import pyarrow.parquet as pq
import pytest

from hostagent.contract.wire import PACK
from tests.testbed.conftest import castbed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]

MESSAGES = 400


def test_a_stream_with_a_wait_costs_a_fraction_of_a_packet_for_each_remote_host(tmp_path):
    """Two clusters of three hosts, 200 messages a second: some five of them every 25 ms to each of three remote hosts."""
    network = ("--set", "k=2", "--set", "size=3", "--set", "shape=line")
    workload = ("--set", f"messages={MESSAGES}", "--set", "interval=5ms", "--set", "settle=1s")
    words = ("--protocol", "best-effort", "--set", "best-effort.links=none", "--pack", "25ms", "--out", str(tmp_path / "out"))
    done = castbed("run", "clusters", *network, *workload, *words)
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "out" / "best-effort"
    summary = json.loads((directory / "summary.json").read_text())
    assert 0 < summary["cost"]["expensive_data_packets_per_message"] < 0.3 * 3
    assert (summary["delivered_share"], summary["balanced"], summary["differences"]) == (1.0, True, [])
    assert (summary["messages"], summary["verdict"], summary["pack_ms"]) == (MESSAGES, "holds", 25.0)
    assert summary["messages_per_datagram"] > 1 / 0.3
    assert json.loads((directory / "run.json").read_text())["pack_ms"] == 25.0
    counters = json.loads((directory / "counters.json").read_text())["hosts"]["h1"]
    assert counters["messages"] == 5 * MESSAGES
    rows = pq.read_table(directory / "tables" / "packets.parquet").to_pylist()
    assert counters["sent"] == len({row["packet"] for row in rows if row["source"] == "h1"})
    assert {row["purpose"] for row in rows if row["kind"] == PACK} == {"data"}
