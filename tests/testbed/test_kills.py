"""kill -9 of everything that a run stands on: it is noticed, named in a verdict that says unknown, and leaves nothing behind."""

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from testbed.live import remote
from tests.testbed.apart import Apart
from tests.testbed.conftest import wait_for

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    made = Apart(tmp_path_factory.mktemp("apart") / "log")
    yield made
    made.close()


class Victims:
    """The processes of a run in there, by what they are."""

    def __init__(self, apart, runner):
        self._parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                self._parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
        self.launcher = self._child(runner.pid, "hostagent.runtime.launcher")
        self.controller = self._child(runner.pid, "controller\0")
        self.tcpdump = self._child(runner.pid, "captures/h1-s1.pcap")
        (namespace,) = (apart.run / "netns").glob("*-h2")
        inode = namespace.stat().st_ino
        (self.agent,) = (pid for pid in self._children(self.launcher) if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode)

    def _children(self, parent):
        return [pid for pid, its in self._parents.items() if its == parent]

    def _child(self, parent, word):
        (child,) = (pid for pid in self._children(parent) if word in Path(f"/proc/{pid}/cmdline").read_text())
        return child


def kill(*pids):
    """Kill processes, and wait until whoever started them has taken notice."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(Path("/proc", str(pid)).exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


OF_AGENT = "the agent of h2 died with status -9"
OF_TCPDUMP = "the tcpdump of captures/h1-s1.pcap died with status -9"
OF_CONTROLLER = "the controller died with status -9"
OF_DAEMON = "Open vSwitch's daemon died"
OF_LAUNCHER = "the agents' launcher died, and every agent with it"


def verdict_on(process, results):
    """Wait for the end of a run; why nobody knows what it showed."""
    shown, said = process.communicate(timeout=300)
    assert process.returncode == 2, said
    assert "Traceback" not in said
    summary = json.loads((results / "summary.json").read_text())
    assert summary["verdict"] == "unknown"
    assert not summary["books"]["balanced"]
    assert all(reason in shown for reason in summary["verdict_reasons"])
    return summary["verdict_reasons"]


def told(reasons, sentence):
    """How many of the reasons begin like this."""
    return sum(reason.startswith(sentence) for reason in reasons)


def test_a_run_survives_what_dies_under_it_and_names_it_all(apart, tmp_path):
    """Without agents, it does not wait for the rest of its settling time. Open vSwitch is still dead when all is unmade."""
    before = apart.holds()
    shape = ("--set", "k=2", "--set", "size=2", "--set", "settle=1000s")
    process = apart.castbed("run", "clusters", "--protocol", "basic", "--out", str(tmp_path / "out"), *shape)
    wait_for(process, "broadcasting")
    victims = Victims(apart, process)
    kill(victims.agent, victims.tcpdump, victims.controller)
    kill(apart.daemon)
    kill(victims.launcher)
    reasons = verdict_on(process, tmp_path / "out" / "basic")
    for sentence in (OF_AGENT, OF_TCPDUMP, OF_CONTROLLER, OF_DAEMON, OF_LAUNCHER):
        assert told(reasons, sentence) == 1, reasons
    assert not apart.becomes(before)
    apart.start_daemon()
    assert not apart.becomes(before)


def test_a_live_network_tells_of_each_death_at_once_and_in_the_end(apart, tmp_path):
    """Open vSwitch's daemon is started again by its monitor after a crash, and shapes no link then."""
    before = apart.holds()
    out = tmp_path / "out"
    process = apart.castbed("up", "clusters:k=2,size=2,shape=ring", "--for", "1000s", "--out", str(out))
    wait_for(process, "is up for")
    victims = Victims(apart, process)

    (directory,) = (apart.run / "castbed").iterdir()

    def problems():
        return remote.snapshot(directory).problems

    def wait_until_told(sentence):
        deadline = time.monotonic() + 60
        while not told(now := problems(), sentence):
            assert time.monotonic() < deadline, now
            time.sleep(0.05)

    assert not problems()
    for victim, sentence in ((victims.agent, OF_AGENT), (victims.tcpdump, OF_TCPDUMP), (victims.controller, OF_CONTROLLER)):
        kill(victim)
        wait_until_told(sentence)
    # It would write its memory into the root directory.
    resource.prlimit(apart.daemon, resource.RLIMIT_CORE, (0, 0))
    os.kill(apart.daemon, signal.SIGSEGV)
    wait_until_told(OF_DAEMON)
    kill(victims.launcher)
    reasons = verdict_on(process, out / "cluster-tree")
    for sentence in (OF_AGENT, OF_TCPDUMP, OF_CONTROLLER, OF_DAEMON, OF_LAUNCHER):
        assert told(reasons, sentence) == 1, reasons
    assert any("at the end of the run: link s1-s2" in reason for reason in reasons)
    assert not apart.becomes(before)


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (("run", "clusters", "--protocol", "basic", "--set", "messages=5", "--set", "settle=1000s"), "letting it settle"),
        (("up", "clusters:k=2,size=2,shape=ring", "--for", "1000s"), "is up for"),
    ],
)
def test_clean_after_the_death_of_the_runner_leaves_the_machine_as_it_was(apart, tmp_path, words, stage):
    """Also while Open vSwitch's daemon is dead; and it leaves a bridge of somebody else alone."""
    apart.read("ovs-vsctl", "add-br", "foreign", "--", "set", "bridge", "foreign", "datapath_type=netdev")
    before = apart.holds()
    process = apart.castbed(*words, "--out", str(tmp_path / "out"))
    wait_for(process, stage)
    process.kill()
    process.communicate()
    kill(apart.daemon)
    assert apart.holds() > before
    cleaning = apart.castbed("clean")
    shown, said = cleaning.communicate()
    assert cleaning.returncode == 0, said
    assert "cleaned up after" in shown
    assert not apart.becomes(before)
    apart.start_daemon()
    apart.read("ovs-vsctl", "del-br", "foreign")
