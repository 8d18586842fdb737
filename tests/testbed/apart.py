"""A machine within the machine: its own interfaces, its own /run and its own Open vSwitch, which a test may kill."""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.testbed.conftest import environment

_OVS = ("/usr/share/openvswitch/scripts/ovs-ctl", "start", "--system-id=random")
# `ip netns` leaves a mount for all namespaces when it makes the first. All of it lasts until standard input ends, as with the test.
_KEEPER = f"""
set -e
umount --recursive --lazy /run/netns || true
mount -t sysfs sysfs /sys
for directory in /run /etc/openvswitch /var/lib/openvswitch /var/log/openvswitch; do mount -t tmpfs tmpfs $directory; done
ip link set lo up
ip netns add first
ip netns delete first
{" ".join(_OVS)} >&2
echo ready
cat
{_OVS[0]} stop >&2
"""


class Apart:
    """Namespaces for mounts and for the network, with Open vSwitch running in them. Process numbers are the machine's."""

    def __init__(self, log):
        with log.open("wb") as errors:
            self._keeper = subprocess.Popen(
                ["unshare", "--mount", "--net", "sh", "-c", _KEEPER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._keeper.stdout.readline() == "ready\n", log.read_text()
        self._started = []
        self._process = Path("/proc", str(self._keeper.pid))
        self._entry = ["nsenter", f"--mount={self._process}/ns/mnt", f"--net={self._process}/ns/net"]
        self.run = self._process / "root/run"

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        self._keeper.communicate()

    def castbed(self, *words):
        """Start Castbed in there; the process is Castbed's own."""
        command = [*self._entry, sys.executable, "-m", "testbed", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        self._started.append(process)
        return process

    @property
    def daemon(self):
        """The process of Open vSwitch's daemon."""
        return int((self.run / "openvswitch/ovs-vswitchd.pid").read_text())

    def start_daemon(self):
        subprocess.run([*self._entry, *_OVS], capture_output=True, check=True)

    def holds(self):
        """Everything that a run makes, by name: interfaces, namespaces, bridges, mounts, records, processes."""
        interfaces = {f"interface {link['ifname']}" for link in json.loads(self.read("ip", "-j", "link", "show"))}
        bridges = {f"bridge {name}" for name in self.read("ovs-vsctl", "list-br").split()}
        places = (("netns", "*"), ("castbed", "*"), ("openvswitch", "*-controller"))
        files = {f"file {path}" for name, pattern in places for path in (self.run / name).glob(pattern)}
        mounts = {f"mount {line.split()[4]}" for line in (self._process / "mountinfo").read_text().splitlines()}
        return interfaces | bridges | files | mounts | {f"process {name}" for name in self._processes()}

    def becomes(self, expected):
        """Wait for processes that are on their way out, then tell what is there and should not be, and what is missing."""
        deadline = time.monotonic() + 20
        while (now := self.holds()) != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        return now ^ expected

    def read(self, *command):
        """What a command prints in there."""
        return subprocess.check_output([*self._entry, *command], text=True)

    def _processes(self):
        """The processes in there, all but Open vSwitch's own."""
        here = (self._process / "ns/mnt").stat().st_ino
        for process in Path("/proc").glob("[0-9]*"):
            try:
                name = (process / "comm").read_text().strip()
                if (process / "ns/mnt").stat().st_ino == here and name not in {"ovs-vswitchd", "ovsdb-server", "monitor"}:
                    yield f"{process.name} {name}"
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
