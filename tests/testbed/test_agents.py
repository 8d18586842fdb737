"""The agents of a run as the testbed sees them: real ones, on loopback addresses of this machine."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostagent.runtime.agent import Setting
from hostagent.runtime.control import AtDoor, SetClock
from testbed.running import agents as module
from testbed.running.agents import Agents
from topologies import clusters

pytestmark = pytest.mark.root


@pytest.fixture
def agents(tmp_path):
    """The agents of two hosts."""
    network = clusters(2, 1, "line")
    plan = SimpleNamespace(network=network, namespace_path=lambda _: Path("/proc/self/ns/net"))
    (tmp_path / "events").mkdir()
    setting = Setting(
        run=1,
        protocol="basic",
        parameters={},
        seed=1,
        port=47_110,
        addresses={host: f"127.0.77.{number}" for number, host in enumerate(network.hosts, start=1)},
        events=str(tmp_path / "events"),
        private=str(tmp_path),
    )
    found = Agents(plan, setting)
    yield found
    found.kill()


@pytest.fixture
def _no_patience(monkeypatch):
    """Who waits for ever is stopped."""
    monkeypatch.setattr(module, "PATIENCE_S", float("inf"))

    def too_long(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_no_patience")
def test_an_agent_confirms_the_faults_that_it_does_to_itself(agents):
    """One that stands still does not, and one that has died is not waited for."""
    for request in (SetClock(1_000_000_000, 1.5, 0), AtDoor("Copy", 1, copies=0)):
        agents.ask("h2", request)
    while not agents.has_confirmed("h2"):
        agents.notice(wait_s=0.01)
    agents.broadcast("h2", b"broadcasts are not confirmed")
    assert agents.has_confirmed("h2")
    agents.signal("h2", signal.SIGSTOP)
    while not agents.is_paused("h2"):
        agents.notice(wait_s=0.01)
    agents.ask("h2", SetClock(0, 1.0, 0))
    assert not agents.has_confirmed("h2")
    agents.signal("h2", signal.SIGKILL)
    assert agents.has_confirmed("h2")
    agents.ask("h2", SetClock(0, 1.0, 0))
    assert agents.has_confirmed("h2")


@pytest.mark.usefixtures("_no_patience")
def test_requests_that_find_a_full_socket_go_on_as_soon_as_there_is_room(agents):
    """The kernel keeps eleven datagrams for an agent, with up to 32 messages each."""
    agents.signal("h1", signal.SIGSTOP)
    while not agents.is_paused("h1"):
        agents.notice(wait_s=0.01)
    for _ in range(600):
        agents.broadcast("h1", b"as fast as possible")
    assert len(agents._offers["h1"]) > 500
    assert agents.have_caught_up, "nobody waits for a host that is paused"
    agents.signal("h1", signal.SIGCONT)
    assert not agents.have_caught_up
    while not agents.have_caught_up:
        agents.notice(wait_s=1.0)
    assert agents.counters()["h1"]["broadcast"] == 600


@pytest.mark.usefixtures("_no_patience")
def test_an_agent_that_fails_at_its_restart_is_noticed_at_once(agents):
    """Its storage cannot be opened. Nobody waits for it, and the run knows."""
    agents.signal("h2", signal.SIGKILL)
    assert agents.running == ("h1",)
    storage = agents.setting.storage("h2")
    storage.unlink(missing_ok=True)
    storage.mkdir()
    agents.restart("h2", keep_storage=True)
    assert agents.running == ("h1",)
    (death,) = agents.deaths
    assert death.startswith("the agent of h2 died with status 1; its last line was: ")
    assert str(storage) in death
    storage.rmdir()
    agents.restart("h2", keep_storage=True)
    assert set(agents.running) == {"h1", "h2"}
