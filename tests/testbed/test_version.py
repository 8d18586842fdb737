"""A run says which Castbed made it."""

import re
import subprocess

from testbed.running.tasks import versions
from testbed.version import ROOT, _commit, castbed_version


def test_the_versions_of_a_run_name_the_commit():
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    found = re.fullmatch(r"[0-9.]+, commit ([0-9a-f]{12})(, changed)?", castbed_version())
    assert found
    assert commit.startswith(found[1])
    assert versions()["castbed"] == castbed_version()


def test_without_a_clone_there_is_no_commit(tmp_path):
    assert _commit(tmp_path) == []


def test_changed_files_are_told(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    assert len(_commit(tmp_path)) == 1
    (tmp_path / "file").write_text("two")
    assert _commit(tmp_path)[1:] == ["changed"]
