"""A user's own protocol, from its file, wherever a protocol is named: on both engines, in workers, and again from the run itself."""

import json
import re
import shutil

import pytest

from hostagent.protocols import PROTOCOLS
from hostagent.protocols.basic import Basic
from runfiles import archives
from testbed.__main__ import main
from testbed.commands import campaign
from tests.hostagent.own_protocol import FLOOD, RAISES
from tests.testbed.conftest import castbed

SMALL = ("--set", "k=2", "--set", "size=2", "--set", "messages=5", "--set", "settle=3s")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of a user, with a protocol."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flood.py").write_text(FLOOD)
    return tmp_path


def logs(run):
    return {path.name: path.read_bytes() for path in (run / "events").iterdir()}


def test_a_run_keeps_the_protocol_and_is_repeated_from_it_when_the_file_is_gone(here):
    done = castbed(
        "run", "clusters", *SMALL, "--on", "simulator", "--protocol", "flood.py", "--set", "flood.times=2", "--out", "made"
    )
    assert done.returncode == 0, done.stderr
    run = here / "made" / "flood"
    assert (run / "protocol" / "flood.py").read_text() == FLOOD
    assert json.loads((run / "run.json").read_text())["parameters"] == {"times": 2}
    (here / "flood.py").unlink()

    asked = castbed("replay", "made", "--out", "again")
    assert asked.returncode == 2
    assert (
        "made/flood/protocol/flood.py came with the run, and a replay would execute it: read it and add --trust" in asked.stderr
    )
    assert castbed("replay", "made", "--out", "again", "--trust", "--json").returncode == 0
    assert logs(here / "again" / "flood") == logs(run)

    archives.pack(here / "made", here / "elsewhere.zip", lambda *_: None)
    shutil.rmtree(here / "made")
    assert castbed("replay", "elsewhere.zip", "--out", "third", "--trust", "--json").returncode == 0
    assert logs(here / "third" / "flood") == logs(here / "again" / "flood")
    assert castbed("compare", "again", "third", "--by", "protocol", "--json").returncode == 0


def test_what_a_paper_says_of_its_protocols_is_not_claimed_of_a_users(here):
    """And a comparison tells each claim once, also of a directory that is named from here."""
    words = ("--protocol", "flood.py", "--protocol", "uniform", "--out", "made", "--json")
    done = castbed("run", "price_of_guarantees", *SMALL, "--on", "simulator", *words)
    claims = json.loads(done.stdout)["claims"]
    assert {claim["text"].split(":")[0] for claim in claims} == {"uniform"}
    compared = castbed("compare", "made", "--out", "page", "--json")
    assert json.loads(compared.stdout)["claims"] == claims
    assert (here / "page" / "report.html").exists()


def test_a_record_that_names_a_file_as_its_protocol_has_nothing_executed(here):
    """Whoever made the run chose the name."""
    done = castbed("run", "clusters", *SMALL, "--on", "simulator", "--protocol", "flood.py", "--out", "made", "--json")
    assert done.returncode == 0, done.stderr
    record = here / "made" / "flood" / "run.json"
    (here / "flood.py").write_text("raise SystemExit('executed')")
    record.write_text(record.read_text().replace('"protocol": "flood"', '"protocol": "flood.py"'))
    asked = castbed("replay", "made", "--out", "again", "--trust")
    assert asked.returncode == 2
    assert asked.stderr.startswith("castbed: there is no protocol 'flood.py': choose from best-effort, basic")


def test_a_run_is_repeated_with_another_protocol(here):
    assert (
        castbed("run", "clusters", *SMALL, "--on", "simulator", "--protocol", "basic", "--out", "made", "--json").returncode == 0
    )
    done = castbed("replay", "made", "--protocol", "flood.py", "--out", "again", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["protocol"] == "flood"
    assert (here / "again" / "flood" / "scenario.json").read_bytes() == (here / "made" / "basic" / "scenario.json").read_bytes()


def test_workers_of_a_sweep_know_the_protocol_and_a_changed_file_is_refused(here):
    words = (
        "sweep",
        "clusters",
        *SMALL,
        "--on",
        "simulator",
        "--over",
        "protocol=flood.py,basic",
        "--repeat",
        "2",
        "--out",
        "made",
    )
    done = castbed(*words, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert (here / "made" / "flood" / "2" / "protocol" / "flood.py").read_text() == FLOOD
    (here / "flood.py").write_text(FLOOD + "\n")
    changed = castbed(*words)
    assert changed.returncode == 2
    assert "made/flood/1 is a run of an earlier version of flood.py: choose another directory with --out" in changed.stderr


def test_a_scenario_names_a_file_too(here):
    text = "from scenarios import Scenario, Workload\nfrom topologies import lan\n\n\ndef scenario():\n"
    text += (
        '    """Nothing much."""\n    return Scenario(network=lan(3), protocols=("flood.py",), workload=Workload(messages=3))\n'
    )
    (here / "mine.py").write_text(text)
    done = castbed("run", "mine.py", "--on", "simulator", "--out", "made", "--json")
    assert done.returncode == 0, done.stderr
    assert (here / "made" / "flood" / "run.json").exists()


@pytest.mark.usefixtures("here")
def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "flood.py").write_text(FLOOD)
    done = castbed("run", "clusters", "--on", "simulator", "--protocol", "flood.py", "--protocol", "new/flood.py")
    assert done.returncode == 2
    assert done.stderr == "castbed: protocols flood.py and new/flood.py have the same name: rename one of the files\n"


@pytest.mark.usefixtures("here")
def test_a_campaign_takes_a_file():
    done = castbed("campaign", "--protocol", "flood.py", "--schedules", "20", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cases"] == 20


def test_a_campaign_that_tests_nothing_says_where_to_look(here):
    hasty = re.sub("patience_ms=[^,]*,", "patience_ms=0.0,", FLOOD)
    assert hasty != FLOOD
    (here / "hasty.py").write_text(hasty)
    done = castbed("campaign", "--protocol", "hasty.py", "--schedules", "5")
    assert done.returncode == 2
    assert "every schedule was beyond them: look at beyond, most_lost and patience_ms of the protocol" in done.stdout


def test_an_exception_ends_a_run_in_virtual_time_at_once_and_leaves_nothing(here):
    (here / "flood.py").write_text(RAISES)
    done = castbed("run", "clusters", *SMALL, "--on", "simulator", "--protocol", "flood.py", "--out", "made")
    assert done.returncode == 2
    *_, first, line, event = done.stderr.splitlines()
    assert first == (
        "castbed: protocol flood failed at flood.py:36, in on_message: AttributeError: 'Flood' object has no attribute 'seen'"
    )
    assert line == "    self.seen[sender] = 1"
    assert event.startswith("  at h3, 0.0")
    assert event.endswith(" s after the start, when Copy h1:2 arrived from h1")
    assert "bug in Castbed" not in done.stderr
    assert not (here / "made").exists()


def test_an_exception_in_a_campaign_names_the_seed_and_how_to_repeat_it(here):
    (here / "flood.py").write_text(RAISES)
    done = castbed("campaign", "--protocol", "flood.py", "--set", "times=2", "--schedules", "40", "--jobs", "2")
    assert done.returncode == 2
    (replay,) = [line for line in done.stderr.splitlines() if line.startswith("  replay: ")]
    *words, seed = replay.split()[2:]
    assert words == ["campaign", "--protocol", "flood.py", "--set", "times=2", "--replay"]
    assert f"seed {seed}: an exception in the protocol ends the campaign" in done.stderr
    again = castbed(*words, seed)
    assert again.returncode == 2
    assert again.stderr.splitlines() == done.stderr.splitlines()[-3:]


@pytest.mark.parametrize(
    "words", [("campaign", "--schedules", "5"), ("run", "clusters", *SMALL, "--on", "simulator")], ids=["campaign", "run"]
)
def test_an_exception_outside_a_run_is_the_users_too(here, words):
    """Here the promise cannot be made for more than three hosts."""
    (here / "flood.py").write_text(FLOOD.replace("        guarantees =", "        assert hosts < 4\n        guarantees ="))
    done = castbed(*words, "--protocol", "flood.py")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "castbed: protocol flood failed at flood.py:28, in promise: AssertionError\n    assert hosts < 4\n"
    )
    assert "bug in Castbed" not in done.stderr


def test_an_exception_in_a_protocol_of_castbed_names_the_seed_and_is_called_a_bug(monkeypatch, capsys):
    class Broken(Basic):
        def on_timer(self, name):
            raise ZeroDivisionError(name)

    monkeypatch.setitem(PROTOCOLS, "basic", Broken)
    monkeypatch.setattr(campaign, "spread", lambda work, seeds, *_: map(work, seeds))
    assert main(["campaign", "--protocol", "basic", "--schedules", "20"]) == 2
    told = capsys.readouterr().err
    (seed,) = re.findall(r"  replay: ./castbed campaign --protocol basic --replay (\d+)\n", told)
    assert f"seed {seed}: an exception in the protocol ends the campaign" in told
    assert re.search(
        r"castbed: protocol basic failed at tests/testbed/test_own_protocols.py:\d+, in on_timer: ZeroDivisionError", told
    )
    assert re.search(r"  at h\d+, [\d.]+ s after the start, when the timer '.*' of its .* expired", told)
    assert "this is a bug in Castbed" in told
    assert main(["campaign", "--protocol", "basic", "--replay", seed]) == 2


@pytest.mark.root
def test_on_mininet_agents_run_the_file(here, nothing_left_behind):  # noqa: ARG001 - watches what the test leaves
    (here / "flood.py").write_text(FLOOD.replace("# here", "print('for debugging')"))
    done = castbed("run", "clusters", *SMALL, "--protocol", "flood.py", "--out", "made", "--json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["protocol"], run["verdict"]) == ("flood", "holds")
    assert (here / "made" / "flood" / "protocol" / "flood.py").exists()


@pytest.mark.root
@pytest.mark.parametrize("words", [("run", "clusters", *SMALL), ("up", "lan:hosts=3", "--for", "60s")], ids=["run", "up"])
def test_on_mininet_an_exception_ends_the_run_at_once(here, words, nothing_left_behind):  # noqa: ARG001 - watches what the test leaves
    (here / "flood.py").write_text(RAISES)
    done = castbed(*words, "--protocol", "flood.py", "--out", "made")
    assert done.returncode == 2
    told = done.stderr[done.stderr.index("castbed: protocol") :].splitlines()
    assert told[0].startswith("castbed: protocol flood failed at flood.py:36, in on_message: AttributeError")
    assert told[1] == "    self.seen[sender] = 1"
    assert told[2].startswith("  at h3, ")
    # Everybody passes messages on, so the copy of another host may be the first to arrive.
    assert re.search(r" s after the start, when Copy h1:2 arrived from h\d$", told[2])
    assert "bug in Castbed" not in done.stderr
    assert not (here / "made").exists()
