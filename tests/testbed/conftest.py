"""What the tests of the testbed share: the command line as users type it, and a look at what the machine holds."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.network import doctor
from testbed.network.record import STATE, is_alive
from testbed.network.vswitch import run_directory

ROOT = Path(__file__).parent.parent.parent
# Whoever runs the tests may have them outlive the terminal, and what ignores a hang-up has children that do.
WITH_HANG_UPS = ("env", "--default-signal=HUP")


def castbed(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "testbed", *words], capture_output=True, text=True, check=False, env=environment(), **options
    )


def start_castbed(*words: str) -> subprocess.Popen[str]:
    """Start a command; its progress can be read line by line from its standard error."""
    command = [*WITH_HANG_UPS, sys.executable, "-m", "testbed", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read the progress of a command until it says `text`."""
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the command ended and never said {text!r}")


def objects() -> set[str]:
    """The names of every interface, namespace, bridge and socket of a controller on the machine."""
    interfaces = {link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link", "show"]))}
    namespaces = {path.name for path in Path("/run/netns").glob("*")}
    bridges = set(subprocess.check_output(["ovs-vsctl", "list-br"], text=True).split())
    sockets = {path.name for path in run_directory().glob("*-controller")}
    return interfaces | namespaces | bridges | sockets


def leftovers() -> set[str]:
    """Records of dead runs, and objects with a run's name that belong to no living run."""
    # A run may begin or end while we look, in another worker of the tests.
    before, found, after = _runs(), objects(), _runs()
    living = {name for runs in (before, after) for name, alive in runs.items() if alive}
    dead = {name for name, alive in before.items() if not alive} & after.keys() - living
    return dead | {name for name in found if re.match("[a-z]{4}-", name) and name[:4] not in living}


def _runs() -> dict[str, bool]:
    """The runs that have a record, and whether they live."""
    return {directory.name: is_alive(directory) for directory in STATE.glob("*")}


@pytest.fixture
def nothing_left_behind():
    """The test leaves no more than it found. Other runs on the machine do not matter."""
    before = leftovers()
    yield
    # What another run is just unmaking is not left behind.
    deadline = time.monotonic() + 10
    while not (after := leftovers()) <= before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert after <= before


@pytest.fixture(scope="session")
def machine():
    return doctor.require(Path())
