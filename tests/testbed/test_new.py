"""The files that `castbed new` writes work at once, and nothing is overwritten."""

import json

import pytest

from tests.testbed.conftest import castbed


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty directory of a user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(told: str) -> list[list[str]]:
    """The commands that a user is told to try, without `./castbed`."""
    return [line.split()[1:] for line in told.splitlines() if line.startswith("  ./castbed ")]


@pytest.mark.parametrize(
    ("kind", "file"), [("protocol", "my-first.py"), ("scenario", "my-first.py"), ("network", "my-first.json")]
)
def test_a_new_file_works_at_once(here, kind, file):
    made = castbed("new", kind, "my-first")
    assert made.returncode == 0, made.stderr
    assert [path.name for path in here.iterdir()] == [file]
    assert "gossip" not in (here / file).read_text().lower()
    commands = tried(made.stdout)
    assert commands
    for words in commands:
        done = castbed(*words)
        assert done.returncode == 0, (words, done.stderr)


def test_a_new_protocol_is_tested_by_a_campaign():
    assert castbed("new", "protocol", "rumours.py").returncode == 0
    done = castbed("campaign", "--protocol", "rumours.py", "--schedules", "50", "--json")
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    assert tally["failures"] == []
    assert all(tally["tested"][promise] for promise in ("no creation", "no duplication", "quiescence"))


def test_what_is_there_is_not_overwritten(here):
    (here / "mine.py").write_text("work of weeks")
    for kind in ("protocol", "scenario"):
        done = castbed("new", kind, "mine")
        assert (done.returncode, done.stderr) == (2, "castbed: mine.py exists already: choose another name, or remove it\n")
    assert (here / "mine.py").read_text() == "work of weeks"


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("protocol", "basic", "Castbed has a protocol basic already: choose another name"),
        ("scenario", "grid", "Castbed has a scenario grid already: choose another name"),
        ("network", "../mine", "'../mine' cannot be the name of a network"),
        ("protocol", "my.first", "'my.first' cannot be the name of a protocol"),
    ],
)
def test_names_that_will_not_do_are_refused(here, kind, name, sentence):
    done = castbed("new", kind, name)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert list(here.iterdir()) == []
