"""Whatever ends a run, the machine is as it was; and clean-up touches nothing that a run did not make."""

import os
import pty
import secrets
import signal
import subprocess
import sys

import pytest

from tests.testbed.conftest import WITH_HANG_UPS, castbed, environment, leftovers, objects, start_castbed, wait_for

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]

STAGES = (
    "results in",
    "making",
    "waiting until every flow is installed",
    "checking that every host reaches",
    "broadcasting",
    "letting it settle",
    "waiting until nothing is in flight",
    "reading packets",
)


def start_run(out):
    return start_castbed("run", "clusters", "--protocol", "basic", "--out", str(out), "--set", "settle=1s")


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_at_every_stage_unmakes_everything(stage, tmp_path):
    process = start_run(tmp_path / "out")
    wait_for(process, stage)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said


def test_a_second_ctrl_c_does_not_stop_the_clean_up(tmp_path):
    process = start_run(tmp_path / "out")
    wait_for(process, "broadcasting")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130


def test_a_hang_up_ends_a_run_like_ctrl_c(tmp_path):
    process = start_run(tmp_path / "out")
    wait_for(process, "broadcasting")
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert not (tmp_path / "out").exists()


def test_a_terminal_that_is_closed_ends_the_network_that_is_up_in_it(tmp_path):
    ours, theirs = pty.openpty()
    command = [*WITH_HANG_UPS, "setsid", "--ctty", sys.executable, "-m", "testbed", "up", "clusters:k=2,size=2,shape=ring"]
    command += ["--name", f"closed-{os.getpid()}", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment()) as process:
        os.close(theirs)
        shown = b""
        while b"castbed> " not in shown:
            shown += os.read(ours, 65536)
        os.close(ours)
    assert process.returncode == 130
    assert not (tmp_path / "out").exists()


@pytest.fixture
def foreigners():
    """A bridge, a namespace and a process that belong to somebody else, with names much like ours."""
    name = f"f{secrets.token_hex(2)}-s1"
    subprocess.run(["ovs-vsctl", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"], check=True)
    subprocess.run(["ip", "netns", "add", name], check=True)
    process = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"])
    yield name, process
    process.kill()
    process.wait()
    subprocess.run(["ovs-vsctl", "del-br", name], check=True)
    subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.parametrize("stage", ["making", "broadcasting"])
def test_clean_removes_what_a_killed_run_left_and_nothing_else(stage, tmp_path, foreigners):
    name, foreign_process = foreigners
    before = leftovers()
    process = start_run(tmp_path / "out")
    wait_for(process, stage)
    process.kill()
    process.communicate()
    killed = leftovers() - before
    assert killed, "a run that was killed leaves at least its record"
    done = castbed("clean")
    assert done.returncode == 0, done.stderr
    assert "cleaned up after" in done.stdout
    assert not leftovers() & killed
    assert name in objects()
    assert foreign_process.poll() is None


def test_clean_leaves_a_living_run_alone(tmp_path):
    process = start_run(tmp_path / "out")
    wait_for(process, "broadcasting")
    assert castbed("clean").returncode == 0
    _, said = process.communicate()
    assert process.returncode == 0, said
