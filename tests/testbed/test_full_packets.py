"""Whole packets on request: captures have the bodies of messages, which Wireshark shows, also of a user's protocol."""

import json
import struct
import subprocess

import pytest

from tests.hostagent.own_protocol import FLOOD
from tests.testbed.conftest import castbed

SMALL = ("--set", "k=2", "--set", "size=2", "--set", "messages=5", "--set", "settle=1s", "--set", "payload=300")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of a user, with a protocol."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path))
    (tmp_path / "flood.py").write_text(FLOOD)
    return tmp_path


def lengths(capture):
    """For each packet of a capture, its bytes in the file and on the wire."""
    data, at = capture.read_bytes(), 24
    while at < len(data):
        _, _, kept, length = struct.unpack_from("<IIII", data, at)
        yield kept, length
        at += 16 + kept


@pytest.mark.root
def test_whole_packets_are_captured_and_shown_with_names_and_fields(here, nothing_left_behind):  # noqa: ARG001 - watches what the test leaves
    words = ("--protocol", "flood.py", "--pack", "off", "--out", "made", "--json")
    done = castbed("run", "clusters", *SMALL, *words, "--full-packets")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["balanced"], run["verdict"], run["delivered_share"]) == (True, "holds", 1.0)
    captures = sorted((here / "made" / "flood" / "captures").iterdir())
    seen = [packet for capture in captures for packet in lengths(capture)]
    assert seen
    assert all(kept == length > 300 for kept, length in seen)

    (here / "castbed.lua").write_text(castbed("dissector", "made", "--protocol", "flood.py").stdout)
    fields = [word for name in ("message", "sender.name", "body.payload") for word in ("-e", f"castbed.{name}")]
    command = [
        "tshark",
        "-X",
        "lua_script:castbed.lua",
        "-r",
        str(here / "made/flood/captures/s1-s2.pcap"),
        "-T",
        "fields",
        *fields,
    ]
    shown = [line.split("\t") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]
    assert {message for message, _, _ in shown} == {f"Copy h1:{number}" for number in range(1, 6)}
    assert {sender for _, sender, _ in shown} <= {"h1", "h2", "h3", "h4"}
    assert {len(bytes.fromhex(payload)) for _, _, payload in shown} == {300}


def test_a_simulated_run_has_no_captures():
    done = castbed("run", "clusters", "--on", "simulator", "--full-packets")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "castbed: a simulated run has no captures: leave --full-packets out, or run it --on mininet",
    )


def test_a_dissector_is_for_the_hosts_of_one_network(here):
    for size, out in ((2, "one"), (3, "two")):
        words = ("--on", "simulator", "--protocol", "basic", "--out", f"all/{out}", "--json")
        assert castbed("run", "clusters", "--set", "k=2", "--set", f"size={size}", *words).returncode == 0
    assert '[4] = "h4"' in castbed("dissector", "all/one").stdout
    refused = castbed("dissector", "all")
    assert (refused.returncode, refused.stderr) == (2, "castbed: the runs in all have different hosts: name one of them\n")
    assert (here / "all").exists()
