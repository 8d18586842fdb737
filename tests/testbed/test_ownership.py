"""Results that root writes belong to whoever called sudo, or else to the owner of the directory that they are put in."""

import os
import shutil
import subprocess
import sys

import pytest

from testbed import ownership
from tests.testbed.conftest import environment

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")]
NOBODY = 65534


def castbed(*words, cwd):
    """Run a command to its end, as after sudo."""
    command = [sys.executable, "-m", "testbed", *words]
    caller = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment() | caller)


def owners(directory):
    """The owner of everything below a directory, by relative path."""
    return {str(path.relative_to(directory)): path.lstat().st_uid for path in directory.rglob("*")}


@pytest.fixture
def _after_sudo(monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))


@pytest.mark.usefixtures("_after_sudo")
def test_all_that_is_new_changes_hands_and_nothing_else(tmp_path):
    """New files in old directories, old files that are written to, files that are replaced, and links to elsewhere."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    (out / "old").mkdir(parents=True)
    for path in (out / "old" / "file", out / "old" / "replaced", elsewhere):
        path.write_text("before")
    ownership.hand_over(out)
    (out / "old" / "file").write_text("after")
    (out / "old" / ".replaced").write_text("after")
    (out / "old" / ".replaced").replace(out / "old" / "replaced")
    (out / "new" / "deep").mkdir(parents=True)
    (out / "new" / "deep" / "file").touch()
    (out / "new" / "link").symlink_to(elsewhere)
    (out / "new" / "directory").symlink_to(tmp_path)
    os.link(elsewhere, out / "new" / "second name")
    ownership.settle()
    new = {"old/replaced", "new", "new/deep", "new/deep/file", "new/link", "new/directory"}
    assert {name for name, owner in owners(out).items() if owner == NOBODY} == new
    assert (out.stat().st_uid, elsewhere.stat().st_uid, tmp_path.stat().st_uid) == (0, 0, 0)


@pytest.mark.usefixtures("_after_sudo")
def test_directories_that_are_made_on_the_way_change_hands_too(tmp_path):
    ownership.hand_over(tmp_path / "results" / "run-1")
    (tmp_path / "results" / "run-1").mkdir(parents=True)
    (tmp_path / "results" / "run-2").mkdir()
    ownership.settle()
    assert set(owners(tmp_path).values()) == {NOBODY}


def test_without_sudo_they_belong_to_the_owner_of_the_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(tmp_path, NOBODY, NOBODY)
    ownership.hand_over(tmp_path / "results" / "run")
    (tmp_path / "results" / "run").mkdir(parents=True)
    ownership.settle()
    assert set(owners(tmp_path).values()) == {NOBODY}


def test_whatever_a_command_writes_is_the_callers_also_when_it_fails(tmp_path):
    """The runs are measured and analysed, and then the scenario's claims fail."""
    (tmp_path / "mine.py").write_text("from scenarios.general.clusters import scenario\ndef claims(runs): 1 / 0\n")
    os.chown(tmp_path / "mine.py", NOBODY, NOBODY)
    short = ("--protocol", "cluster-tree", "--set", "messages=2", "--set", "settle=1ms")
    done = castbed("run", "mine.py", "--on", "simulator", *short, cwd=tmp_path)
    assert done.returncode == 2
    assert "claims() of scenario mine fails" in done.stderr
    (place,) = (tmp_path / "results").iterdir()
    assert (place / "cluster-tree" / "summary.json").exists()
    assert set(owners(tmp_path).values()) == {NOBODY}
    for words in (("compare", str(place)), ("export", str(place)), ("tree", str(place))):
        done = castbed(*words, cwd=tmp_path)
        assert done.returncode in {0, 2}, done.stderr
        assert set(owners(tmp_path).values()) == {NOBODY}, words
    shutil.rmtree(place)
    castbed("check", f"{place}.zip", cwd=tmp_path)
    assert (place / "cluster-tree" / "run.json").exists()
    assert set(owners(tmp_path).values()) == {NOBODY}
