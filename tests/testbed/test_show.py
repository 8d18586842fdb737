"""What can be set is shown with its default, unit and meaning; a bare command line helps; shells complete names."""

import json
import subprocess

import pytest

from hostagent.protocols import PROTOCOLS
from scenarios import catalogue
from scenarios.faults import FAULTS
from testbed.commands.names.keys import scenario_keys
from testbed.commands.names.show import described
from tests.testbed.conftest import castbed
from topologies import catalogue as networks


@pytest.mark.parametrize("name", [*catalogue.names(), *PROTOCOLS, *FAULTS, *networks.names(), "topozoo", "topozoo/Arpanet19728"])
def test_every_key_of_everything_has_a_unit_and_a_meaning(name):
    found = list(described(name))
    assert found
    for one in found:
        assert [key.key for key in one.keys if not key.unit or not key.meaning] == []


def test_defaults_are_those_of_the_scenario_itself():
    keys = {key.key: key for key in scenario_keys(catalogue.find("clusters"))}
    assert (keys["messages"].default, keys["k"].default, keys["bandwidth"].default) == ("600", "4", "10mbit")
    assert (keys["settle"].default, keys["settle"].unit) == ("2000ms", "time, such as 20ms")


def test_a_scenario_of_a_user_says_what_its_keys_mean(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        'from scenarios import Scenario\nfrom topologies import lan\n\ndef scenario(n: int = 3) -> Scenario:\n    """A LAN.\n\n'
        '    n: hosts of the LAN\n    """\n    return Scenario(network=lan(n))\n'
    )
    done = castbed("show", str(path), "--json")
    (found,) = json.loads(done.stdout)
    assert found["keys"][0] == {"key": "n", "default": "3", "unit": "whole number", "meaning": "hosts of the LAN"}


def test_a_protocol_of_a_user_is_shown_by_its_file(tmp_path):
    assert castbed("new", "protocol", "gossip", cwd=tmp_path).returncode == 0
    done = castbed("show", "gossip.py", "--json", cwd=tmp_path)
    (found,) = json.loads(done.stdout)
    assert (found["kind"], found["name"]) == ("protocol", "gossip")
    assert all(key["key"].startswith("gossip.") for key in found["keys"])
    assert "--protocol gossip.py --set gossip.PARAMETER=VALUE" in found["usage"]


def test_every_key_of_a_new_scenario_has_a_unit_and_a_meaning(tmp_path):
    assert castbed("new", "scenario", "mine", cwd=tmp_path).returncode == 0
    (found,) = json.loads(castbed("show", "mine.py", "--json", cwd=tmp_path).stdout)
    assert [key["key"] for key in found["keys"] if not key["unit"] or not key["meaning"]] == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nope", "nothing is called 'nope': ./castbed list has all names"),
        ("lab.clab.yml", "lab.clab.yml is the file of a network, which has no keys: ./castbed topology lab.clab.yml shows it"),
        ("corosync", "corosync is a guest: write guest:corosync"),
    ],
)
def test_what_has_no_keys_is_a_sentence(name, sentence):
    done = castbed("show", name)
    assert (done.returncode, done.stderr) == (2, f"castbed: {sentence}\n")


def test_help_after_a_scenario_has_its_keys():
    done = castbed("run", "grid", "--help")
    assert done.returncode == 0
    assert "rows of switches" in done.stdout
    assert "--protocol" in done.stdout


@pytest.mark.parametrize("words", [("show", "nope"), ("run", "nope", "--help")])
def test_what_has_no_name_is_a_sentence(words):
    done = castbed(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("castbed: ")
    assert "Traceback" not in done.stderr


def test_a_bare_command_helps_and_the_version_names_the_commit():
    bare, version = castbed(), castbed("--version")
    assert (bare.returncode, version.returncode) == (0, 0)
    assert bare.stdout.startswith("usage: ./castbed")
    assert version.stdout.startswith("castbed 0.1.0, commit ")


@pytest.mark.parametrize("words", [("-c", "print(1 + 1)"), ("-m", "platform")])
def test_words_after_python_are_those_of_python(words):
    done = castbed("python", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_words_after_test_are_those_of_pytest():
    done = castbed("test", "-m", "not root", "--collect-only", "-q", "tests/test_rooms.py")
    assert (done.returncode, "tests/test_rooms.py" in done.stdout) == (0, True), done.stderr


def test_a_list_has_a_line_for_each_name():
    lines = castbed("list").stdout.splitlines()
    names = [*catalogue.names(), *PROTOCOLS, *FAULTS]
    assert len(lines) < len(names) + 20
    assert {*names} <= {line.split()[0] for line in lines}


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("castbed rep", ["replay"]),
        ("castbed run link", ["link_fails"]),
        ("castbed run grid --set ro", ["rows="]),
        ("castbed run grid --set counter.tr", ["counter.tries="]),
        ("castbed run grid --protocol gu", ["guest:corosync", "guest:pysyncobj", "guest:etcd", "guest:nats"]),
        ("castbed run grid --protocol guest : co", ["corosync"]),
        ("castbed paper co", ["counter_tokens"]),
        ("castbed paper --out count", ["counter_tokens", "counted"]),
        ("castbed fault par", ["partition"]),
    ],
)
def test_bash_completes_commands_names_and_keys(typed, completed, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(castbed("completion", "bash").stdout)
    (tmp_path / "counted").mkdir()
    words = typed.split()
    line = f'source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _castbed; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == completed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_completion_too(shell):
    assert "link_fails" in castbed("completion", shell).stdout
