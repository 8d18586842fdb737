"""What a run that fails or is interrupted takes with it: its own unfinished results, and nothing else."""

import dataclasses
import signal
from pathlib import Path

import pytest

from runfiles.reading import load
from testbed.__main__ import main
from testbed.errors import CannotRun
from testbed.running import simulated, sweep
from testbed.running.tasks import unfinished_removed
from tests.testbed.conftest import start_castbed, wait_for

SMALL = ("run", "clusters", "--on", "simulator", "--protocol", "basic", "--set", "k=2", "--set", "size=2")


def names(directory):
    """Every file below a directory by its name, with its contents."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def interrupted_in_second_run(out, *words):
    process = start_castbed(*SMALL, *words, "--set", "messages=500", "--repeat", "3", "--out", str(out))
    wait_for(process, "seed 2: simulating")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    return said


def test_ctrl_c_in_the_second_run_keeps_the_first_and_says_how_to_analyse_it(tmp_path):
    """Results of another command in the same directory stay too."""
    out = tmp_path / "out"
    (out / "eager-reliable").mkdir(parents=True)
    (out / "eager-reliable" / "run.json").write_text("precious")
    said = interrupted_in_second_run(out)
    assert f"castbed: 1 of 3 runs are finished and kept in {out}; analyse them with ./castbed analyse {out}\n" in said
    assert sorted(path.name for path in (out / "basic").iterdir()) == ["1"]
    assert (out / "eager-reliable" / "run.json").read_text() == "precious"
    assert load(out / "basic" / "1").run.seed == 1


def test_a_failed_run_leaves_nothing_of_itself_and_the_rest_as_it_was(tmp_path, monkeypatch):
    """Also where it is the only one: the directories that were made for it go."""
    asked = sweep.SweepPlan(
        scenario="clusters", engine="simulator", axes={}, fixed=(), protocols=("basic",), seed=1, repeat=1, pack_ms=0.0
    )
    (task,) = sweep.tasks(asked, tmp_path / "out")
    simulated.run(task, lambda *_: None)
    before = names(tmp_path)
    with pytest.raises(CannotRun, match="exists already"):
        simulated.run(task, lambda *_: None)
    # As on a disk that is full when the results are written.
    monkeypatch.setattr(simulated, "write", lambda *_: Path("/dev/full").write_text("results"))
    for output in (tmp_path / "new" / "deep" / "1", tmp_path / "out" / "basic" / "2"):
        with pytest.raises(OSError, match="No space left"):
            simulated.run(dataclasses.replace(task, output=output), lambda *_: None)
    assert names(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_of_several_runs_the_finished_ones_stay(tmp_path):
    """As when a virtual machine with all of them is killed."""
    outputs = [tmp_path / "out" / str(number) for number in (1, 2, 3)]

    def killed():
        with unfinished_removed(*outputs):
            for output in outputs[:2]:
                output.mkdir(parents=True)
            (outputs[0] / "run.json").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["1"]


@pytest.mark.parametrize("fails", [False, True])
def test_what_ctrl_c_makes_fail_is_an_interruption_and_no_bug(monkeypatch, capsys, fails):
    """A lock of Python's own, interrupted while it waits, fails with "release unlocked lock"."""

    def interrupted(_):
        try:
            raise KeyboardInterrupt
        finally:
            if fails:
                raise RuntimeError("release unlocked lock")

    monkeypatch.setattr("testbed.commands.look.list_all", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "castbed: interrupted; nothing is left running\n"
