"""Open vSwitch on this machine. A run has its own bridges, but all runs share the daemon, which may die during a run."""

import contextlib
import ctypes
import os
import socket
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from testbed.errors import CannotRun
from testbed.network.shell import ip, run

# The time that the daemon may take for a command. Without a limit, `ovs-vsctl` waits for a dead daemon for ever.
PATIENCE_S = 60
# The uptime from which on Open vSwitch sees the processors of the machine.
BOOT_S = 10.5
# What a port in userspace holds until the daemon reads it, and what the daemon holds in all queues of links. The kernel's default, 208 KiB,
# is full after some ninety packets of a kilobyte.
PORT_BUFFER = 8 << 20
# Like SO_SNDBUF and SO_RCVBUF, but not bounded by the limit for ordinary users.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
# The same number on all architectures.
_PIDFD_GETFD = 438
_LIBC = ctypes.CDLL(None, use_errno=True)


def run_directory() -> Path:
    """The directory in which Open vSwitch has its sockets and its files with process identifiers."""
    return Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def wait_after_boot() -> None:
    """Wait if the machine has just started.

    Open vSwitch 3.1 finds no processors before the machine has been up for ten seconds. A kernel datapath that is made before then gets no
    thread for packets without a cached flow, and drops all of them.
    """
    time.sleep(max(0.0, BOOT_S - time.monotonic()))


def control(words: Sequence[str], patience_s: float = PATIENCE_S) -> None:
    """Run `ovs-vsctl` with these arguments, as one transaction, and wait until the daemon has carried it out."""
    run(["ovs-vsctl", f"--timeout={patience_s:.0f}", *words])


def widen(interfaces: Collection[str]) -> int:
    """Give the daemon more room for what arrives at these ports of bridges in userspace. Returns how many ports have it now.

    The daemon reads each port through a packet socket, and sends to all of them through one that is bound to none. It leaves their buffers
    as the kernel makes them. What a port does not hold is counted as dropped; what the sending socket does not hold, as the packets in the
    queues of links fill it, is lost uncounted. If this kernel lets nobody at the sockets of another process, they stay as they are.
    """
    daemon = _daemon()
    if daemon is None:
        return 0
    ours = {Path("/sys/class/net", interface, "ifindex").read_text().strip() for interface in interfaces}
    rows = [line.split() for line in Path("/proc/net/packet").read_text().splitlines()[1:]]
    options = {f"socket:[{inode}]": _SO_RCVBUFFORCE for *_, index, _, _, _, inode in rows if index in ours}
    options |= {f"socket:[{inode}]": _SO_SNDBUFFORCE for *_, index, _, _, _, inode in rows if index == "0"}
    widened = 0
    process = os.pidfd_open(daemon[0])
    try:
        for entry in Path("/proc", str(daemon[0]), "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                option = options.get(str(entry.readlink()))
                if option and (copy := _LIBC.syscall(_PIDFD_GETFD, process, int(entry.name), 0)) >= 0:
                    with socket.socket(fileno=copy) as port:
                        port.setsockopt(socket.SOL_SOCKET, option, PORT_BUFFER)
                    widened += option == _SO_RCVBUFFORCE
    finally:
        os.close(process)
    return widened


def delete(bridges: Sequence[str]) -> list[str]:
    """Remove the bridges that exist, even if no daemon runs. Returns their interfaces that are left to the caller to delete.

    In userspace the daemon has a packet socket on every port, and the kernel takes tens of milliseconds to close each of them. It closes
    them by and by when nothing needs them any more, and nobody waits for that.
    """
    words = [word for bridge in bridges for word in ("--", "--if-exists", "del-br", bridge)]
    taps = [bridge for bridge in bridges if _is_tap(bridge)]
    try:
        control(words if _daemon() and not taps else ["--no-wait", *words])
    except CannotRun:
        # If the daemon died meanwhile, the command failed but the database is up to date.
        if _daemon():
            raise
    if not _daemon():
        _delete_interfaces(bridges)
    return taps


def _delete_interfaces(bridges: Sequence[str]) -> None:
    """Remove the interfaces of bridges in place of the daemon: one for each bridge, and one that all bridges of a datapath share."""
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
        if _is_tap(bridge):
            ip([f"link delete {bridge}"])
        else:
            run(["ovs-dpctl", "del-if", "ovs-system", bridge])
    if "netdev" not in left and _is_there("ovs-netdev"):
        ip(["link delete ovs-netdev"])
    if "system" not in left and _is_there("ovs-system"):
        run(["ovs-dpctl", "del-dp", "ovs-system"])


def _is_tap(interface: str) -> bool:
    return Path("/sys/class/net", interface, "tun_flags").exists()


def _is_there(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


class Daemon:
    """The daemon that switches packets; notices when it dies or is replaced."""

    def __init__(self) -> None:
        self._known = _daemon()
        self.deaths: list[str] = []

    @property
    def process(self) -> int | None:
        """The daemon's process, if it runs."""
        return self._known[0] if self._known else None

    def notice(self) -> None:
        """Add a sentence to `deaths` if the daemon is not the same process as before."""
        now = _daemon()
        if now == self._known:
            return
        if self._known:
            after = ", and a new one started, without the former queues and flows" if now else ""
            self.deaths.append(f"Open vSwitch's daemon died (ovs-vswitchd, process {self._known[0]}){after}")
        else:
            self.deaths.append("Open vSwitch's daemon was started again, without the former queues and flows")
        self._known = now


def _daemon() -> tuple[int, int] | None:
    """The process identifier and the start time of the running daemon; both, since identifiers are reused."""
    try:
        process = int((run_directory() / "ovs-vswitchd.pid").read_text())
        _, name, status = Path("/proc", str(process), "stat").read_text().replace(")", "(").split("(")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    state, *numbers = status.split()
    # The 22nd field of the file is the start time; the state is the third.
    return None if state == "Z" or name != "ovs-vswitchd" else (process, int(numbers[18]))
