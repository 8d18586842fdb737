"""Open vSwitch as this machine runs it: a run's bridges are its own, but the daemon is everybody's, and may die during a run."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import CannotRun
from testbed.network.shell import ip, run

# How long the daemon may take to do what it is asked for. Without a limit, `ovs-vsctl` waits for a dead daemon for ever.
PATIENCE_S = 60
# How long a machine must have been up for Open vSwitch to see its processors.
COUNTS_S = 10.5


def run_directory() -> Path:
    """Where Open vSwitch keeps its sockets and the numbers of its processes."""
    return Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def wait_until_it_counts() -> None:
    """Wait if the machine has just started.

    Open vSwitch 3.1 counts no processors before the machine has been up for ten seconds, and a kernel datapath that is made by then gets
    no thread for packets that it does not know yet: it drops every one of them.
    """
    time.sleep(max(0.0, COUNTS_S - time.monotonic()))


def control(orders: Sequence[str], patience_s: float = PATIENCE_S) -> None:
    """Give orders to `ovs-vsctl`, as one transaction, and wait until the daemon has done them."""
    run(["ovs-vsctl", f"--timeout={patience_s:.0f}", *orders])


def delete(bridges: Sequence[str]) -> None:
    """Remove the bridges that exist and their interfaces, also while no daemon runs that would do it."""
    orders = [word for bridge in bridges for word in ("--", "--if-exists", "del-br", bridge)]
    try:
        control(orders if _daemon() else ["--no-wait", *orders])
    except CannotRun:
        # The daemon may have died while it was waited for; the database is up to date then.
        if _daemon():
            raise
    if not _daemon():
        _delete_interfaces(bridges)


def _delete_interfaces(bridges: Sequence[str]) -> None:
    """Do what the daemon does when bridges go: each has an interface, and all that switch in the same place have one more together."""
    shown = run(
        [
            "ovs-vsctl",
            f"--timeout={PATIENCE_S}",
            "--format=csv",
            "--no-headings",
            "--columns=name,datapath_type",
            "list",
            "bridge",
        ]
    )
    left = {line.rpartition(",")[2].strip('"') or "system" for line in shown.splitlines()}
    for bridge in filter(_is_there, bridges):
        if Path("/sys/class/net", bridge, "tun_flags").exists():
            ip([f"link delete {bridge}"])
        else:
            run(["ovs-dpctl", "del-if", "ovs-system", bridge])
    if "netdev" not in left and _is_there("ovs-netdev"):
        ip(["link delete ovs-netdev"])
    if "system" not in left and _is_there("ovs-system"):
        run(["ovs-dpctl", "del-dp", "ovs-system"])


def _is_there(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


class Daemon:
    """The daemon that switches packets, watched for as long as it is needed."""

    def __init__(self) -> None:
        self._known = _daemon()
        self.deaths: list[str] = []

    def notice(self) -> None:
        """See whether it is still the same."""
        now = _daemon()
        if now == self._known:
            return
        if self._known:
            after = ", and another one took over, without the queues and flows that there were" if now else ""
            self.deaths.append(f"Open vSwitch's daemon died (ovs-vswitchd, process {self._known[0]}){after}")
        else:
            self.deaths.append("Open vSwitch's daemon was started again, without the queues and flows that there were")
        self._known = now


def _daemon() -> tuple[int, int] | None:
    """The daemon that runs: its process, and when that was started, as process numbers are used again."""
    try:
        process = int((run_directory() / "ovs-vswitchd.pid").read_text())
        _, name, status = Path("/proc", str(process), "stat").read_text().replace(")", "(").split("(")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    state, *numbers = status.split()
    # The 22nd field of the file is the start; the state is the third.
    return None if state == "Z" or name != "ovs-vswitchd" else (process, int(numbers[18]))
