"""The page about an afternoon is true: its edits apply to what `castbed new` writes, a campaign finds the bug, and the fix holds."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.testbed.conftest import castbed

PAGE = (Path(__file__).parents[1] / "docs" / "afternoon.md").read_text()
EDIT, FIX = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of a user, with a new protocol."""
    monkeypatch.chdir(tmp_path)
    assert castbed("new", "protocol", "gossip").returncode == 0
    return tmp_path


def edited(*patches):
    for patch in patches:
        subprocess.run(["git", "apply"], input=patch, text=True, check=True, cwd=Path.cwd())


def campaign(schedules):
    done = castbed("campaign", "--protocol", "gossip.py", "--schedules", str(schedules), "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("here")
def test_a_campaign_finds_the_bug_of_the_edit():
    edited(EDIT)
    (seed,) = set(re.findall(r"--replay (\d+)$", PAGE, re.MULTILINE))
    replayed = castbed("campaign", "--protocol", "gossip.py", "--replay", seed)
    assert replayed.returncode == 1
    told = re.findall(rf"seed {seed}: (.*)", PAGE)
    assert told
    assert all(sentence in " ".join(replayed.stdout.split()) for sentence in told)


@pytest.mark.usefixtures("here")
def test_the_fix_holds_where_the_edit_failed_and_in_a_short_campaign():
    edited(EDIT, FIX)
    (seed,) = set(re.findall(r"--replay (\d+)$", PAGE, re.MULTILINE))
    assert castbed("campaign", "--protocol", "gossip.py", "--replay", seed).returncode == 0
    status, tally = campaign(40)
    assert (status, tally["failures"]) == (0, [])
    assert tally["tested"]["agreement"]
