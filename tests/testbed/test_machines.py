"""What works where: a machine without Mininet, Open vSwitch, Ryu and root, and one that has no Java and no Spark either.

The commands run in processes of an ordinary user, whose PATH lacks the programs and whose Python does not find the packages.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analysis.synthetic import honest

ROOT = Path(__file__).parent.parent.parent
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MININET = ("mininet", "ryu", "eventlet")
SPARK = ("pyspark", "py4j")
PROGRAMS = {"mn", "mnexec", "ovs-vsctl", "ovs-appctl", "ovs-ofctl", "ovs-vswitchd", "ip", "tc", "tcpdump", "tshark", "sudo"}
# Takes the packages out of what the interpreter can find, installed or not.
SITECUSTOMIZE = """
import os, sys
from importlib.machinery import PathFinder

ABSENT = os.environ["CASTBED_ABSENT"].split(",")


class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.partition(".")[0] in ABSENT else PathFinder.find_spec(name, *rest)

    @classmethod
    def find_distributions(cls, *rest):
        return (found for found in PathFinder.find_distributions(*rest) if found.name not in ABSENT)


sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
SMALL = ("--set", "k=2", "--set", "size=1", "--set", "messages=3", "--set", "settle=3s", "--protocol", "cluster-tree")
SIMULATED = ("run", "clusters", "--on", "simulator", *SMALL)


class Machine:
    """Runs commands as an ordinary user without some packages and programs, in a directory of that user."""

    def __init__(self, home: Path, packages: tuple[str, ...], programs: set[str]) -> None:
        self.home = home
        home.chmod(0o777)
        (home / "sitecustomize.py").write_text(SITECUSTOMIZE)
        (home / "bin").mkdir()
        for program in Path("/usr/bin").iterdir():
            if program.name not in programs:
                (home / "bin" / program.name).symlink_to(program)
        self.environment = {
            "PATH": str(home / "bin"),
            "HOME": str(home),
            "PYTHONPATH": f"{home}:{ROOT}",
            "PYTHONSAFEPATH": "1",
            "CASTBED_ABSENT": ",".join(packages),
        }
        # Root cannot become an ordinary user where that one may not read this folder.
        readable = os.geteuid() == 0 and subprocess.run([*NOBODY, "test", "-r", ROOT / "castbed"], check=False).returncode == 0
        self._as_user = NOBODY if readable else ()

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [*self._as_user, sys.executable, "-m", "testbed", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment, cwd=self.home)
        assert "Traceback" not in done.stderr, done.stderr
        return done


def made(packages: tuple[str, ...], programs: set[str]) -> Iterator[Machine]:
    # Not in pytest's own directory, which is for one user alone.
    with tempfile.TemporaryDirectory() as home:
        yield Machine(Path(home), packages, programs)


@pytest.fixture(scope="module")
def without_mininet():
    yield from made(MININET, PROGRAMS)


@pytest.fixture(scope="module")
def without_java():
    yield from made((*MININET, *SPARK), {*PROGRAMS, "java"})


@pytest.fixture(scope="module")
def analysed(without_mininet):
    """A run that was made and analysed without Mininet."""
    done = without_mininet(*SIMULATED, "--out", "results", "--json")
    assert done.returncode == 0, done.stderr
    return without_mininet.home / "results" / "cluster-tree"


@pytest.fixture(scope="module")
def made_without_java(without_java):
    """A run that was made and analysed without Java."""
    done = without_java(*SIMULATED, "--out", "results")
    assert done.returncode == 0, done.stderr
    assert json.loads((without_java.home / "results" / "cluster-tree" / "summary.json").read_bytes())["balanced"]
    return without_java.home / "results" / "cluster-tree"


def test_the_machines_lack_what_they_say(without_mininet, without_java):
    for machine, packages, programs in (
        (without_mininet, MININET, ("mnexec", "ovs-vsctl")),
        (without_java, (*MININET, *SPARK), ("mnexec", "ovs-vsctl", "java")),
    ):
        for package in packages:
            command = [sys.executable, "-c", f"import {package}"]
            done = subprocess.run(command, env=machine.environment, capture_output=True, text=True, check=False)
            assert f"No module named '{package}'" in done.stderr
        assert [name for name in programs if shutil.which(name, path=machine.environment["PATH"])] == []


def test_a_simulation_is_made_and_analysed_without_mininet(analysed):
    summary, record = (json.loads((analysed / name).read_bytes()) for name in ("summary.json", "run.json"))
    assert summary["balanced"]
    assert not {"ryu", "mininet"} & record["versions"].keys()
    assert (analysed.parent / "report.html").exists()


@pytest.mark.parametrize("verb", ["analyse", "compare", "check", "tree"])
def test_runs_are_looked_at_without_mininet(without_mininet, analysed, verb):
    done = without_mininet(verb, analysed, "--json", *(("--out", f"{verb}-out") if verb in {"analyse", "compare"} else ()))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_sweep_is_made_without_mininet(without_mininet):
    words = ("--on", "simulator", "--over", "k=2,3", *SMALL[2:], "--out", "swept", "--json")
    done = without_mininet("sweep", "clusters", *words)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["runs"]) == 2


@pytest.mark.parametrize(
    "words", [("run", "clusters"), ("sweep", "clusters", "--over", "k=2,3"), ("up", "figure-3-1"), ("doctor",)]
)
def test_what_needs_mininet_says_what_is_missing(without_mininet, words):
    done = without_mininet(*words)
    assert done.returncode == 2
    assert "setup.sh" in done.stderr + done.stdout


@pytest.mark.parametrize("machine", ["without_mininet", "without_java"])
def test_what_needs_neither_works_on_both(request, machine):
    command = request.getfixturevalue(machine)
    assert "COMMAND" in command("--help").stdout
    assert "cluster-tree" in json.loads(command("list", "--json").stdout)["protocols"]
    done = command("campaign", "--protocol", "best-effort", "--schedules", "6", "--jobs", "2", "--json")
    assert json.loads(done.stdout)["cases"] == 6, done.stderr


def test_without_java_a_run_is_checked_drawn_and_packed(without_java, made_without_java):
    checked = json.loads(without_java("check", made_without_java, "--json").stdout)
    assert [found["verdict"] for found in checked.values()] == ["holds"]
    assert json.loads(without_java("tree", made_without_java, "--json").stdout)
    assert without_java("export", made_without_java, "--out", "run.zip").returncode == 0
    assert (without_java.home / "run.zip").exists()


def test_without_java_analysed_runs_are_compared(without_java, analysed):
    assert without_java("compare", analysed, "--out", "compared").returncode == 0
    assert (without_java.home / "compared" / "report.html").exists()


def test_without_java_a_sweep_is_made_and_analysed(without_java):
    done = without_java("sweep", "clusters", "--on", "simulator", "--over", "k=2,3", *SMALL[2:], "--out", "swept")
    assert done.returncode == 0, done.stderr
    assert len(list((without_java.home / "swept").rglob("summary.json"))) == 2


def test_without_java_small_captures_are_analysed(without_java):
    honest().write(without_java.home / "few").chmod(0o777)
    done = without_java("analyse", "few")
    assert done.returncode == 0, done.stderr
    assert json.loads((without_java.home / "few" / "summary.json").read_bytes())["balanced"]


def test_without_java_large_captures_are_not_analysed_and_stay(without_java):
    captured = honest().write(without_java.home / "captured")
    captured.chmod(0o777)
    with next((captured / "captures").iterdir()).open("r+b") as capture:
        capture.truncate(60_000_000)
    done = without_java("analyse", "captured")
    assert done.returncode == 2
    assert "PySpark is not installed" in done.stderr
    assert not (without_java.home / "captured" / "summary.json").exists()
