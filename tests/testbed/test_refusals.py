"""Faults that an engine or a protocol does not know are refused in a sentence, before anything is made. Needs no root."""

import inspect
import json
from pathlib import Path

import pytest

from scenarios import Scenario
from scenarios.faults import (
    FAULTS,
    CutOff,
    DropMessage,
    DuplicateMessage,
    Fault,
    FaultError,
    Flap,
    Join,
    Leave,
    Partition,
    name_of,
)
from scenarios.groups import Group
from simulator import cases
from simulator import faults as simulated
from testbed.errors import CannotRun
from testbed.network.doctor import Machine
from testbed.network.memberships import refuse_impossible as refuse_groups
from testbed.running import engines
from testbed.running import faults as emulated
from testbed.running.tasks import Task
from tests.testbed.conftest import castbed
from topologies import clusters


class Meteor(Fault, frozen=True, kw_only=True, tag="meteor"):
    """A fault of a user, that no engine has a line for."""

    host: str


def task(*faults, protocol="basic"):
    scenario = Scenario(network=clusters(2, 1, "line"), faults=faults)
    return Task("test", scenario, {}, protocol, {}, 1, Path("nowhere"))


def test_an_engine_refuses_a_fault_that_it_has_no_line_for(tmp_path):
    asked = task(Meteor(at_ms=0, host="h1"))
    with pytest.raises(FaultError, match="fault meteor h1: the simulator does not know this fault; choose from link-down"):
        engines.find("simulator", tmp_path).refuse_impossible(asked)
    with pytest.raises(FaultError, match="fault meteor h1: Mininet does not know this fault; choose from link-down"):
        emulated.refuse_impossible(asked.scenario.faults, Machine((), kernel_datapath=True, netem=True))


@pytest.mark.parametrize(
    ("known", "lines"), [(simulated.KNOWN, simulated.FaultPlayer._do), (emulated.KNOWN, emulated.Injector._do)]
)
def test_an_engine_has_a_line_for_every_fault_that_it_says_it_knows(known, lines):
    assert known == set(FAULTS.values())
    text = inspect.getsource(lines)
    assert all(f"vocabulary.{kind.__name__}(" in text for kind in known - {Flap, Partition, CutOff})


def test_more_groups_than_a_socket_of_this_kernel_can_join_are_refused():
    refuse_groups(range(100))
    with pytest.raises(CannotRun, match=r"1000000 groups, everybody among them, are too many for this kernel.*--medium unicast"):
        refuse_groups(range(1_000_000))


@pytest.mark.parametrize("kind", [DropMessage, DuplicateMessage])
def test_a_kind_of_message_that_the_protocol_does_not_have_is_refused(kind):
    with pytest.raises(FaultError, match="h2: basic has no messages of kind 'Kopy'; choose from Copy"):
        task(kind(at_ms=0, host="h2", kind="Kopy"))
    assert task(kind(at_ms=0, host="h2", kind="Copy")).scenario.faults


@pytest.mark.parametrize("change", [Join(at_ms=0, host="h2", group="alpha"), Leave(at_ms=0, host="h1", group="alpha")])
def test_joins_and_leaves_are_refused_for_a_protocol_that_knows_no_membership(change):
    members = ("h1",) if isinstance(change, Join) else ("h1", "h2")
    scenario = Scenario(network=clusters(2, 1, "line"), faults=(change,), groups=(Group("alpha", members),))
    sentence = f"fault {name_of(change)} {change.host}: protocol basic knows no membership, so no host can join or leave a group"
    with pytest.raises(FaultError, match=sentence):
        Task("test", scenario, {}, "basic", {}, 1, Path("nowhere"))


def test_a_misspelt_kind_is_refused_in_schedule_files_and_in_replays(tmp_path):
    schedule, case = tmp_path / "faults.json", tmp_path / "case.json"
    fault = {"fault": "drop-message", "at_ms": 0, "host": "h2", "kind": "Kopy"}
    schedule.write_text(json.dumps([fault]))
    done = castbed(
        *("run", "clusters", "--on", "simulator", "--protocol", "basic", "--faults", str(schedule)),
        "--out",
        str(tmp_path / "out"),
    )
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert done.stderr.startswith("castbed: fault drop-message h2: basic has no messages of kind 'Kopy'; choose from Copy")
    recorded = Path(__file__).parents[1] / "simulator" / "cases" / "basic-138.json"
    case.write_text(json.dumps(json.loads(recorded.read_text()) | {"faults": [fault]}))
    with pytest.raises(ValueError, match="no messages of kind 'Kopy'"):
        cases.load(case)
