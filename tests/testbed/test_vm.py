"""A command in a virtual machine: a run that only netem can make, and ends of every kind that leave nothing behind."""

import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from testbed.network import doctor
from tests.testbed.conftest import castbed, start_castbed, wait_for

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not doctor.has_vm(), reason="user-mode-linux is not installed"),
    pytest.mark.usefixtures("nothing_left_behind"),
]
SMALL = ("clusters", "--protocol", "basic", "--set", "k=2", "--set", "size=2", "--set", "shape=line", "--set", "messages=100")


def children(process: int, name: str = ".") -> list[int]:
    listed = subprocess.run(["pgrep", "--parent", str(process), name], capture_output=True, text=True, check=False)
    return [int(child) for child in listed.stdout.split()]


def guest_of(process: int) -> tuple[int, set[int]]:
    """The guest that a command has started, and all its processes."""
    (launcher,) = children(process, "unshare")
    (guest,) = children(launcher)
    return guest, {launcher, guest, *descendants(guest)}


def descendants(process: int) -> set[int]:
    return {pid for child in children(process) for pid in (child, *descendants(child))}


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_death(processes: set[int]) -> None:
    """The kernel may take a moment to end them all."""
    deadline = time.monotonic() + 10
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_delays_duplicates_and_overtaking_are_what_was_asked_for_and_the_books_balance(tmp_path):
    out = tmp_path / "out"
    done = castbed(
        *("vm", "run", *SMALL, "--pack", "off", "--set", "delay=20ms", "--set", "loss=5%", "--set", "duplicate=20%"),
        # Long enough for an acknowledgement that is lost three times.
        *("--set", "settle=6s", "--set", "basic.retry_ms=300"),
        *("--set", "reorder=20%", "--out", str(out), "--json"),
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["verdict"], run["differences"], run["delivered_share"]) == ("holds", [], 1.0)
    books = run["books"]
    assert books["sent"] + books["duplicated"] - books["dropped_loss"] == books["seen_arriving"] == books["received"]
    record = json.loads((out / "basic" / "run.json").read_text())
    assert (record["datapath"], record["shaping"]) == ("kernel", "tbf, netem, bpf loss")
    # Within five standard deviations, of what came to the link between the switches and was not lost.
    crossed = sum(cost["packets"] for cost in run["link_costs"] if cost["link"] == "s1-s2") - books["duplicated"]
    assert abs(books["duplicated"] - 0.2 * crossed) < 5 * (crossed * 0.2 * 0.8) ** 0.5
    assert abs(books["dropped_loss"] - 0.05 / 0.95 * crossed) < 5 * (crossed * 0.05) ** 0.5
    # Most of what goes to the other cluster is delayed, and what is not overtakes.
    tables = out / "basic" / "tables"
    delays = pq.read_table(tables / "deliveries.parquet").to_pylist()
    afar = [row["delay_ms"] for row in delays if row["host"] in {"h3", "h4"}]
    assert len(afar) == 200
    assert sum(delay >= 20 for delay in afar) > 100
    packets = sorted(pq.read_table(tables / "packets.parquet").to_pylist(), key=lambda row: row["at_ns"])
    numbers = [row["packet"] for row in packets if (row["source"], row["target"], row["sender"]) == ("s1", "s2", "h1")]
    assert sum(earlier > later for earlier, later in pairwise(numbers)) > 0


def test_an_interrupted_command_ends_as_it_would_here(tmp_path):
    process = start_castbed("vm", "run", *SMALL, "--out", str(tmp_path / "out"))
    wait_for(process, "making the switches")
    _, started = guest_of(process.pid)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "castbed: interrupted; nothing is left running"
    await_death(started)
    assert not (tmp_path / "out").exists()


def test_a_guest_that_is_killed_leaves_nothing_behind(tmp_path):
    process = start_castbed("vm", "run", *SMALL, "--out", str(tmp_path / "out"))
    wait_for(process, "making the switches")
    assert (tmp_path / "out").exists()
    guest, started = guest_of(process.pid)
    os.kill(guest, signal.SIGKILL)
    said = process.communicate()[1]
    assert process.returncode == 2
    assert said.splitlines()[-1].startswith("castbed: the virtual machine ended before the command did")
    await_death(started)
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_is_said_before_a_guest_starts(tmp_path):
    done = castbed("vm", "run", "clusters", "--set", "colour=blue", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "virtual machine" not in done.stderr
    assert castbed("vm", "vm", "list").stderr == "castbed: a virtual machine in a virtual machine: leave one vm out\n"


def test_a_network_in_a_guest_is_seen_and_broken_from_outside(tmp_path):
    name = f"guest-{os.getpid()}"
    process = start_castbed(
        *("vm", "up", "clusters:k=2,size=1,shape=ring", "--name", name, "--for", "1000s", "--out", str(tmp_path / "out"))
    )
    wait_for(process, "is up for")
    assert castbed("fault", "--name", name, "fail", "s1", "s2").stdout == "link-down s1-s2: s1 down; s2 down\n"
    (seen,) = json.loads(castbed("status", "--name", name, "--json").stdout)
    assert seen["name"] == name
    with start_castbed("watch", "--name", name, "--every", "100ms") as watch:
        assert f"{name}: " in watch.stdout.readline()
        assert castbed("fault", "--name", name, "heal", "s1", "s2").returncode == 0
        assert any("fault: heal s1-s2" in line for line in watch.stdout)
        watch.terminate()
    # The first is for the command inside, the second for the guest.
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert f"no network {name!r} is up" in (said := castbed("status", "--name", name).stderr) or "no network is up" in said
