"""Whatever is wrong is answered with one sentence and exit status 2, and nothing is left behind."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.conftest import castbed, environment, start_castbed, wait_for

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]


def assert_refused(done, sentence):
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "gird"], "there is no scenario 'gird'"),
        (["run", "grid", "--protocol", "bassic"], "there is no protocol 'bassic': choose from best-effort, basic"),
        (["run", "grid", "--set", "row=3"], "has no key 'row'"),
        (["run", "grid", "--set", "rows"], "--set rows has no value"),
        (["run", "grid", "--set", "basic.retry=3"], "its parameters are retry_ms, longest_retry_ms"),
        (["run", "grid", "--set", "basic.retry_ms=0"], "must be a number of at least 0.1"),
        (["run", "grid", "--set", "basic.retry_ms=inf"], "basic: retry_ms=inf: must be a number of at most 100,000,000"),
        (["run", "grid", "--set", "basic.retry_ms=nan"], "basic: retry_ms=nan: must be a number of at least 0.1"),
        (["run", "grid", "--set", "basic.retry_ms=1e-300"], "basic: retry_ms=1e-300: must be a number of at least 0.1"),
        (["run", "grid", "--set", "messages=1000000000"], "there must be at least one, and at most 1,000,000"),
        (["run", "grid", "--repeat", "1000000000"], "1000000000 is too many: at most 1,000,000"),
        (["up", "clusters", "--interval", "0ms"], "interval must be above zero"),
        (["watch", "--every", "0ms"], "'0ms' is too short: 10ms is the least"),
        (["campaign", "--protocol", "basic", "--jobs", "100000"], "100000 processes are too many: at most 1,000"),
        (["campaign", "--protocol", "spo", "--set", "windw=3"], "protocol spo has no parameter 'windw'"),
        (
            ["campaign", "--protocol", "spo", "--set", "basic.retry_ms=3"],
            "the campaign is about spo, so a parameter of basic has",
        ),
        (["campaign", "--protocol", "spo", "--set", "window=5"], "cases have 2 to 12 hosts, and protocol spo refuses: window=5"),
        (["run", "spo_delay", "--set", "spo.h=1000"], "with 4 hosts and h=1000 nobody could ever send"),
        (["run", "spo_delay", "--set", "entities=21"], "21 hosts are too many: a PDU has two numbers for each of them"),
        (["run", "grid", "--set", "nothing.retry_ms=1"], "there is no protocol 'nothing'"),
        (["run", "grid", "--pack", "25"], "'25' is neither off nor a time such as 0ms or 25ms"),
        (["run", "grid", "--medium", "broadcast"], "argument --medium: invalid choice: 'broadcast' (choose from"),
        (["sweep", "grid", "--over", "medium=unicast,radio"], "there is no medium 'radio': choose from unicast, multicast"),
        (["demo", "--pack=-1ms"], "'-1ms' is neither off nor a time such as 0ms or 25ms"),
        (["run", "grid", "--repeat", "0"], "'0' is not a whole number above zero"),
        (["run", "grid", "--spark-master", "nonsense"], "'nonsense' is not a Spark master"),
        (["topology", "gird"], "there is no topology 'gird'"),
        (["topology", "figure-3-1", "--save", "x.docx"], "the name must end in"),
        (["routes", "topozoo/Arpanet"], "topozoo/Arpanet"),
        (["controller", "figure-3-1", "--listen", "0.0.0.0:6653"], "open to other machines"),
        (["analyse", "nowhere"], "nowhere is not a finished run and contains none"),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_a_wrong_word_is_answered_with_a_sentence(words, sentence, tmp_path):
    out = ["--out", str(tmp_path / "out")] if words[0] == "run" else []
    done = castbed(*words, *out, cwd=tmp_path)
    assert_refused(done, sentence)
    assert not any(tmp_path.iterdir())


def test_delay_without_netem_is_refused_before_anything_is_made(machine, tmp_path):
    if machine.netem:
        pytest.skip("this kernel has netem")
    done = castbed("run", "clusters", "--set", "delay=20ms", "--out", str(tmp_path / "out"))
    assert_refused(
        done,
        "this kernel has no netem, so it cannot delay or duplicate packets on 4 links (s1-s2 first): run in a virtual machine",
    )
    assert not any(tmp_path.iterdir())


def test_an_ordinary_user_is_told_to_use_sudo(tmp_path):
    """In a user namespace of its own the process is nobody in particular."""
    command = ["unshare", "--user", sys.executable, "-m", "testbed", "run", "clusters", "--out", str(tmp_path / "out")]
    assert_refused(run(command), "root: no - run the command with sudo")
    assert_refused(run([*command[:5], "clean"]), "run it with sudo")


def test_open_vswitch_that_is_stopped_is_named(tmp_path):
    done = run_clusters(tmp_path, OVS_RUNDIR=str(tmp_path))
    assert_refused(done, "Open vSwitch: its database does not answer - run ./setup.sh, which starts it")


@pytest.mark.parametrize("command", ["tcpdump", "java"])
def test_a_missing_command_is_named_with_its_remedy(command, tmp_path):
    done = run_clusters(tmp_path, PATH=str(folder_without(command, tmp_path)), JAVA_HOME="")
    assert_refused(done, f"{command}: not installed - run ./setup.sh")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    done = castbed("run", "clusters", "--out", str(tmp_path / "file" / "out"))
    assert_refused(done, f"{tmp_path / 'file'} is not a writable directory - choose another one with --out")


def test_results_that_exist_are_not_overwritten(tmp_path):
    (tmp_path / "best-effort").mkdir()
    (tmp_path / "best-effort" / "precious").touch()
    done = castbed("run", "clusters", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "exists already: choose another directory with --out" in done.stderr
    assert (tmp_path / "best-effort" / "precious").exists()


def test_a_disk_without_room_is_refused(small_disk):
    done = castbed("run", "clusters", "--out", str(small_disk(megabytes=10) / "out"))
    assert_refused(done, "free some space, or choose another place with --out")


def test_a_disk_that_fills_during_the_run_is_reported_and_nothing_is_lost_silently(small_disk):
    disk = small_disk(megabytes=600)
    process = start_castbed("run", "clusters", "--protocol", "basic", "--set", "messages=200", "--out", str(disk / "out"))
    wait_for(process, "broadcasting")
    with (disk / "filler").open("wb") as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
    _, said = process.communicate()
    assert process.returncode == 2
    assert "Traceback" not in said
    assert "No space left on device" in said


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of a given size."""
    disk = tmp_path / "disk"

    def mount(megabytes):
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "castbed-test", str(disk)], check=True)
        return disk

    yield mount
    subprocess.run(["umount", str(disk)], check=True)


def run(command, **variables):
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment() | variables)


def run_clusters(tmp_path, **variables):
    return run([sys.executable, "-m", "testbed", "run", "clusters", "--out", str(tmp_path / "out")], **variables)


def folder_without(command, tmp_path):
    """A folder with every command of the system but one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = (program for place in ("/usr/bin", "/usr/sbin") for program in Path(place).iterdir())
    for program in {program.name: program for program in programs if program.name != command}.values():
        (folder / program.name).symlink_to(program)
    return folder
