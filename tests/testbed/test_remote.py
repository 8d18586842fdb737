"""A network in a virtual machine, which no socket reaches, is asked by files in the directory that both kernels share."""

from types import SimpleNamespace

import pytest

from testbed.errors import CannotRun
from testbed.live import remote
from testbed.network import record, vm


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """The directory of a run on this machine that is a virtual machine."""
    monkeypatch.setattr(record, "STATE", tmp_path / "state")
    monkeypatch.setattr(vm, "is_guest", lambda: True)
    with record.claim() as directory:
        monkeypatch.setattr(vm, "SHARED", directory)
        yield directory


def do(line):
    if line == "fail s9":
        raise CannotRun("there is no s9")
    return f"did {line}"


def test_verbs_from_outside_reach_a_network_in_a_guest_and_answers_come_back(shared, tmp_path):
    private = tmp_path / "private of the guest"
    private.mkdir()
    with remote.serve(SimpleNamespace(name="lab", do=do), private):
        assert remote.running() == {"lab": shared}
        assert remote.ask(remote.find("lab"), "fail s1 s2").text == "did fail s1 s2"
        with pytest.raises(CannotRun, match="there is no s9"):
            remote.ask(shared, "fail s9")
        before = set(shared.iterdir())
    assert {path.name for path in before} == {"lock", remote.NAME}
    with pytest.raises(CannotRun, match="no network is up"):
        remote.find("lab")
    with pytest.raises(remote.Ended):
        remote.ask(shared, "status")


def test_a_virtual_machine_that_ends_while_it_is_asked_gives_no_answer(shared):
    """It was killed: its name is still there, and nobody answers."""
    (shared / remote.NAME).write_text("lab")
    (shared / "lock").unlink()
    with pytest.raises(remote.Ended, match="the network has ended"):
        remote.ask(shared, "status")
