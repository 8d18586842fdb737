"""The set-up script and the launcher, as far as they can be tried without installing anything."""

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]

FAKE_SETUP = """#!/usr/bin/env bash
root=$(dirname "$(readlink --canonicalize "${BASH_SOURCE[0]}")")
echo "setup $*" >> "$root/calls"
[[ $* != --check ]] || exec cmp --quiet "$root/wanted" "$root/.venv/stamp"
cp "$root/wanted" "$root/.venv/stamp"
"""

# Stands for the virtual environment's interpreter: says how it was called.
FAKE_PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "$PWD" "$PYTHONPATH" "$PYTHONSAFEPATH" "$@"
"""


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60, **options)


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The launcher beside a set-up that only records its calls, in a folder whose name has spaces."""
    folder = tmp_path / "a clone with spaces"
    write_script(folder / "castbed", (ROOT / "castbed").read_text())
    write_script(folder / "setup.sh", FAKE_SETUP)
    write_script(folder / ".venv/bin/python", FAKE_PYTHON)
    (folder / "wanted").write_text("1")
    (folder / ".venv/stamp").write_text("1")
    return folder


def calls(clone: Path) -> list[str]:
    return (clone / "calls").read_text().splitlines()


@pytest.mark.parametrize("script", ["setup.sh", "castbed", ".ci/run"])
def test_script_is_executable_and_parses(script):
    assert os.access(ROOT / script, os.X_OK)
    assert run("bash", "-n", ROOT / script).returncode == 0


@pytest.mark.parametrize("text", ['ID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora Linux 41"\n', "ID=debian\nVERSION_ID=11\n", ""])
def test_unsupported_system_gets_one_sentence(tmp_path, text):
    os_release = tmp_path / "os-release"
    os_release.write_text(text)
    result = run(ROOT / "setup.sh", env={**os.environ, "CASTBED_OS_RELEASE": str(os_release)})
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "use Debian 12, Debian 13 or Ubuntu 24.04" in result.stderr
    if "fedora" in text:
        assert "this is Fedora Linux 41" in result.stderr


def test_unknown_argument_is_refused_with_what_to_call():
    result = run(ROOT / "setup.sh", "--force")
    assert result.returncode == 1
    assert "unknown argument '--force'" in result.stderr


def in_place() -> bool:
    return Path(sys.prefix) == ROOT / ".venv" and run(ROOT / "setup.sh", "--check").returncode == 0


def venv_files() -> dict[Path, int]:
    skipped = {"__pycache__"}
    return {path: path.stat().st_mtime_ns for path in (ROOT / ".venv").rglob("*") if not skipped & set(path.parts)}


@pytest.mark.root
@pytest.mark.skipif(not in_place(), reason="the set-up is not up to date")
def test_second_set_up_changes_nothing():
    run(ROOT / "setup.sh")  # Open vSwitch may have been stopped since
    before = venv_files()
    result = run(ROOT / "setup.sh")
    assert result.stdout == "castbed set-up: nothing to do\n", result.stderr
    assert venv_files() == before


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The real set-up script beside a virtual environment that it believes it has made."""
    for name in ("setup.sh", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/usr/bin/python3")
    assert in_setup(tmp_path, 'stamp_text > "$stamp"').returncode == 0
    return tmp_path


def in_setup(tree: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a few words of bash among the functions of the set-up script."""
    return run("bash", "-c", f'source "$1"; {script}', "test", tree / "setup.sh")


def is_up_to_date(tree: Path) -> bool:
    return run(tree / "setup.sh", "--check").returncode == 0


def test_fresh_stamp_is_up_to_date(tree):
    assert is_up_to_date(tree)


def test_a_set_up_for_the_simulator_is_enough_to_start_and_not_for_mininet(tree):
    assert in_setup(tree, 'engine=simulator; stamp_text > "$stamp"').returncode == 0
    assert is_up_to_date(tree)
    assert in_setup(tree, "is_up_to_date").returncode == 1
    assert in_setup(tree, "engine=simulator; is_up_to_date").returncode == 0


def test_a_set_up_for_mininet_is_enough_for_the_simulator(tree):
    result = run(tree / "setup.sh", "--simulator")
    assert result.returncode == 0
    assert "only simulations (--on simulator), campaigns and analyses will work" in result.stdout
    assert result.stdout.endswith("castbed set-up: nothing to do\n")


@pytest.mark.parametrize(
    ("root", "can_be_root", "made_for", "simulates"),
    [
        ("true", "true", "mininet", False),
        ("false", "true", "mininet", False),
        ("false", "false", "mininet", True),
        ("true", "true", "simulator", False),
        ("false", "true", "simulator", True),
    ],
)
def test_who_cannot_be_root_or_has_chosen_so_gets_the_simulator(tree, root, can_be_root, made_for, simulates):
    stubs = f'is_root() {{ {root}; }}; can_be_root() {{ {can_be_root}; }}; stamp_text {made_for} > "$stamp"'
    assert (in_setup(tree, f"{stubs}; only_simulates").returncode == 0) == simulates


def test_the_simulator_needs_no_package_that_is_for_mininet(tree):
    everything, some = (in_setup(tree, f"engine={engine}; to_build").stdout for engine in ("mininet", "simulator"))
    assert {line.partition("==")[0] for line in everything.split()} == {"ovs", "pyspark", "ryu"}
    assert some.startswith("pyspark==")
    assert len(some.split()) == 1


def test_interrupted_set_up_is_redone(tree):
    (tree / ".venv/castbed-stamp").unlink()
    assert not is_up_to_date(tree)


@pytest.mark.parametrize("name", ["setup.sh", "requirements.lock"])
def test_changed_file_asks_for_a_new_set_up(tree, name):
    with (tree / name).open("a") as file:
        file.write("# changed\n")
    assert not is_up_to_date(tree)


def test_another_java_asks_for_a_new_set_up(tree):
    (tree / "java").write_text("another one")
    assert in_setup(tree, f'java="{tree}/java"; is_up_to_date').returncode == 1


def test_moved_folder_asks_for_a_new_set_up(tree, tmp_path_factory):
    moved = tree.rename(tmp_path_factory.mktemp("elsewhere") / "moved")
    assert not is_up_to_date(moved)


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7", "another program is installing packages"),
        ("Temporary failure resolving 'example.org'", "Check the network"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "Run 'dpkg --configure -a' as root"),
        ("E: Unable to locate package mininet", "package sources lack a package"),
        ("ERROR: No matching distribution found for numpy==2.4.6", "does not exist for Python 3."),
        ("something else", "The reason is at the end of"),
    ],
)
def test_failure_is_explained_by_a_sentence(tree, log, sentence):
    (tree / ".venv/setup.log").write_text(log + "\n")
    result = in_setup(tree, "step='system packages'; explain_failure")
    assert result.returncode == 1
    assert result.stderr.startswith("castbed set-up: system packages: ")
    assert sentence in result.stderr
    assert str(tree / ".venv/setup.log") in result.stderr


@pytest.mark.parametrize(
    ("has", "installed", "offered", "wanted"),
    [
        ("false", "false", "true", True),
        ("true", "false", "true", False),
        ("false", "true", "true", False),
        ("false", "false", "false", False),
    ],
)
def test_a_virtual_machine_is_wanted_where_the_kernel_lacks_something_and_it_is_to_be_had(tree, has, installed, offered, wanted):
    stubs = f"kernel_has() {{ {has}; }}; is_installed() {{ {installed}; }}; apt-cache() {{ {offered}; }}"
    assert (in_setup(tree, f"{stubs}; wants_virtual_machine").returncode == 0) == wanted


def test_two_set_ups_of_one_folder_take_turns(tree):
    folder = os.open(tree, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    command = ["bash", "-c", 'source "$1"; take_turn; say "my turn"', "test", str(tree / "setup.sh")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout.readline() == "castbed set-up: waiting for another set-up of this folder\n"
        os.close(folder)
        assert second.stdout.read() == "castbed set-up: my turn\n"


def test_launcher_sets_nothing_up_when_the_stamp_is_fresh(clone):
    result = run(clone / "castbed", "run", "a b", cwd="/")
    assert result.stdout.splitlines() == ["/", str(clone), "1", "-m", "testbed", "run", "a b"]
    assert result.stderr == ""
    assert calls(clone) == ["setup --check"]


def test_launcher_sets_up_first_when_the_stamp_is_stale(clone):
    (clone / "wanted").write_text("2")
    result = run(clone / "castbed", "--help")
    assert result.stdout.splitlines()[-1] == "--help"
    assert "setting up first" in result.stderr
    assert calls(clone) == ["setup --check", "setup "]


def test_launcher_stops_when_the_set_up_fails(clone):
    write_script(clone / "setup.sh", "#!/usr/bin/env bash\nexit 2\n")
    result = run(clone / "castbed", "run")
    assert result.returncode == 2
    assert result.stdout == ""


def test_launcher_works_through_a_symlink_from_elsewhere(clone, tmp_path):
    link = tmp_path / "bin dir" / "castbed"
    link.parent.mkdir()
    link.symlink_to(clone / "castbed")
    assert run(link, "list", cwd=tmp_path).stdout.splitlines() == [str(tmp_path), str(clone), "1", "-m", "testbed", "list"]


def test_launcher_serves_as_interpreter_of_a_scenario(clone):
    write_script(clone / "scenarios/mine.py", "#!./castbed run\n")
    result = run("./scenarios/mine.py", "--seed", 3, cwd=clone)
    assert result.stdout.splitlines()[3:] == ["-m", "testbed", "run", "./scenarios/mine.py", "--seed", "3"]


def lock_lines() -> list[Requirement]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lock_pins_every_line_exactly():
    assert [str(line) for line in lock_lines() if not re.fullmatch(r"==[^*]+", str(line.specifier))] == []


def test_lock_holds_all_that_its_packages_require():
    """A package that the system happens to have must not hide a missing line."""
    locked = {normal(line.name) for line in lock_lines()}
    missing = [
        f"{line.name} requires {required}"
        for line in lock_lines()
        if line.marker is None or line.marker.evaluate()
        for required in map(Requirement, importlib.metadata.requires(line.name) or [])
        if (required.marker is None or required.marker.evaluate({"extra": ""})) and normal(required.name) not in locked
    ]
    assert missing == []


def test_lock_holds_the_direct_requirements():
    lines = [line.split(" #")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()]
    locked = {normal(line.name): str(line.specifier).removeprefix("==") for line in lock_lines()}
    for direct in (Requirement(line) for line in lines if line and not line.startswith("#")):
        assert locked[normal(direct.name)] in direct.specifier
