"""A program that speaks Maelstrom's JSON lines runs on every host over real datagrams, and is judged like any protocol."""

import json
import shutil
from pathlib import Path

import pytest

from runfiles import archives
from tests.testbed.conftest import castbed

NODE = Path(__file__).parents[1] / "hostagent" / "programs" / "flood-node"
SMALL = ("--set", "k=2", "--set", "size=2", "--set", "messages=20", "--set", "settle=8s")
FAULTS = [
    {"fault": "link-down", "at_ms": 100, "link": "s1-s2"},
    {"fault": "link-up", "at_ms": 600, "link": "s1-s2"},
    {"fault": "pause", "at_ms": 200, "host": "h2"},
    {"fault": "resume", "at_ms": 700, "host": "h2"},
    {"fault": "crash", "host": "h4", "when": {"event": "deliver", "host": "h4", "nth": 3}},
    {"fault": "restart", "at_ms": 1500, "host": "h4"},
]
NAMED = ("--protocol", "maelstrom:./my-node")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A directory of a user, with a program."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(NODE, tmp_path / "my-node")
    return tmp_path


@pytest.mark.root
def test_an_unmodified_program_holds_under_faults_and_is_repeated_from_an_archive(here, nothing_left_behind):  # noqa: ARG001 - watches
    (here / "faults.json").write_text(json.dumps(FAULTS))
    given = ("--set", "loss=5%", "--faults", "faults.json", "--pack", "off")
    done = castbed("run", "clusters", *SMALL, *given, *NAMED, "--out", "made", "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["protocol"], run["verdict"], run["messages"], run["delivered_share"]) == ("my-node", "holds", 20, 1.0)
    assert {name: found["verdict"] for name, found in run["checks"].items()} == dict.fromkeys(
        ("no creation", "no duplication", "convergence", "progress"), "holds"
    )
    assert run["balanced"]
    assert run["cost"]["expensive_data_packets_per_message"] >= 1.0
    (here / "my-node").unlink()
    archives.pack(here / "made", here / "moved.zip", lambda *_: None)
    refused = castbed("replay", "moved.zip", "--out", "again")
    assert "moved/my-node/protocol/my-node came with the run, and a replay would execute it" in refused.stderr
    assert castbed("replay", "moved.zip", "--out", "again", "--trust", "--json").returncode == 0


@pytest.mark.root
@pytest.mark.parametrize(("option", "verdict", "status"), [("--deliver", "holds", 0), ("--swap", "violated", 1)])
def test_the_order_of_reported_deliveries_is_judged(option, verdict, status):
    words = ("--set", "my-node.deliveries=reported", "--set", "my-node.order=single-source", "--set", "my-node.topology=total")
    done = castbed("run", "clusters", *SMALL, "--protocol", f"maelstrom:./my-node {option}", *words, "--out", "made", "--json")
    assert done.returncode == status, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["checks"]["single-source order (strict)"]["verdict"] == verdict


@pytest.mark.root
def test_a_program_that_ends_ends_the_run_with_its_last_words(here, nothing_left_behind):  # noqa: ARG001 - watches
    done = castbed("run", "clusters", *SMALL, "--protocol", "maelstrom:./my-node --die-at 12", "--out", "made")
    assert done.returncode == 2
    told = done.stderr[done.stderr.index("castbed: protocol") :]
    assert (
        "my-node failed at ./my-node: ProgramEnded: the program ended with status 1; its last words were: cannot stand 12" in told
    )
    assert told.rstrip().endswith("when its program ended")
    assert not (here / "made").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("run", "clusters", "--on", "simulator", *NAMED),
            "my-node is a program, which does not run in virtual time: run it --on mininet",
        ),
        (("campaign", *NAMED), "protocol my-node is a program, which does not run in virtual time"),
        (("campaign", "--protocol", "maelstrom:./nothing"), "protocol nothing cannot be read: No such file or directory"),
        (("campaign", "--protocol", "maelstrom:"), "protocol 'maelstrom:': write maelstrom:./my-node"),
        (("campaign", "--protocol", "maelstrom:./readme"), "is not a program: make it executable with chmod +x ./readme"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(here, words, sentence):
    (here / "readme").write_text("read me")
    done = castbed(*words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
