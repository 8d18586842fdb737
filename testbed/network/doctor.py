"""Examines this machine: everything that a run needs, before anything is made, with a remedy for each missing piece."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from testbed.errors import CannotRun

VM_KERNEL = "linux.uml"
VM_MODULES = Path("/usr/lib/uml/modules")
_SPACE_NEEDED_MB = 500
_UNSEEN = "cannot look without root"
_NETEM_REMEDY = (
    "for links with delay, duplicates or reordering use ./castbed vm, or a kernel with sch_netem as in an ordinary Mininet VM"
)
_SETUP_REMEDY = "run ./setup.sh as root, or in virtual time with --on simulator"
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_VM_REMEDY = "run ./setup.sh, which installs user-mode-linux where the distribution has it"


@dataclass(frozen=True)
class Finding:
    """One thing that was examined. `remedy` is empty if nothing is missing; `needed` says whether a run requires it."""

    what: str
    state: str
    remedy: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Machine:
    """The findings about this machine, and what it can do."""

    findings: tuple[Finding, ...]
    kernel_datapath: bool
    netem: bool

    @property
    def missing(self) -> tuple[Finding, ...]:
        """The findings that keep a run from starting."""
        return tuple(finding for finding in self.findings if finding.needed and finding.remedy)

    @property
    def datapath(self) -> str:
        """How packets are switched on this machine."""
        return "kernel" if self.kernel_datapath else "userspace"

    @property
    def shaping(self) -> str:
        """How links are shaped on this machine."""
        return "tbf, netem, bpf loss" if self.netem else "tbf, bpf loss (no netem: no delay, no duplicates)"


def is_root() -> bool:
    """Whether this process may make namespaces and bridges."""
    return os.geteuid() == 0


def examine(output: Path) -> Machine:
    """Examine everything; `output` is the directory for results."""
    root = is_root()
    kernel_datapath = root and _has_kernel_datapath()
    netem = root and _has_qdisc("netem delay 1ms")
    tbf = not root or _has_qdisc("tbf rate 1mbit burst 15000 limit 15000")
    findings = (
        Finding("root", "yes" if root else "no", "" if root else "run the command with sudo"),
        *(_command(name, package) for name, package in _COMMANDS.items()),
        *(_module(name) for name in ("mininet", "ryu")),
        _open_vswitch() if root else Finding("Open vSwitch", _UNSEEN, needed=False),
        Finding(
            "datapath", "kernel" if kernel_datapath else "userspace (the kernel has no openvswitch module)" if root else _UNSEEN
        ),
        Finding("bandwidth", ("tbf" if tbf else "missing") if root else _UNSEEN, "" if tbf else "use a kernel with sch_tbf"),
        Finding(
            "delay",
            ("netem" if netem else "no netem") if root else _UNSEEN,
            _NETEM_REMEDY if root and not netem else "",
            needed=False,
        ),
        _vm(wanted=not (netem and kernel_datapath)),
        _java(),
        _disk(output),
    )
    return Machine(findings, kernel_datapath, netem)


def has_vm() -> bool:
    """Whether there is a kernel for `castbed vm`, with its modules."""
    return shutil.which(VM_KERNEL) is not None and VM_MODULES.is_dir()


def _vm(*, wanted: bool) -> Finding:
    if has_vm():
        return Finding("virtual machine", "user-mode-linux, for ./castbed vm", needed=False)
    return Finding("virtual machine", "no user-mode-linux", _VM_REMEDY if wanted else "", needed=False)


def require(output: Path) -> Machine:
    """The machine, if a run on Mininet can start on it; else an error that names everything that is missing."""
    machine = examine(output)
    _refuse(machine.missing)
    return machine


def require_disk(output: Path) -> None:
    """Raise an error if results cannot be written there. A run in virtual time needs nothing else of a machine."""
    found = _disk(output)
    _refuse((found,) if found.remedy else ())


def _refuse(missing: tuple[Finding, ...]) -> None:
    if missing:
        raise CannotRun("; ".join(f"{finding.what}: {finding.state} - {finding.remedy}" for finding in missing))


_COMMANDS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ovs-vsctl": "openvswitch-switch",
    "tcpdump": "tcpdump",
    "mnexec": "mininet",
    "setpriv": "util-linux",
}


def _command(name: str, package: str) -> Finding:
    # An ordinary user's PATH lacks the programs of root, who will call them.
    path = shutil.which(name) or (shutil.which(name, path=_SBIN) if os.geteuid() != 0 else None)
    return Finding(name, path or "not installed", "" if path else f"run ./setup.sh, which installs the package {package}")


def _module(name: str) -> Finding:
    """Whether a package of Python is installed. It is not imported, as that would take long."""
    there = find_spec(name) is not None
    return Finding(f"Python's {name}", "installed" if there else "not installed", "" if there else _SETUP_REMEDY)


def _open_vswitch() -> Finding:
    remedy = "run ./setup.sh, which starts it"
    try:
        shown = subprocess.run(
            ["ovs-vsctl", "--timeout=3", "get", "Open_vSwitch", ".", "ovs_version"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return Finding("Open vSwitch", "not installed", "run ./setup.sh")
    if shown.returncode != 0:
        return Finding("Open vSwitch", "its database does not answer", remedy)
    # After a large network it is busy for some seconds.
    alive = subprocess.run(["ovs-appctl", "--timeout=30", "version"], capture_output=True, check=False)
    if alive.returncode != 0:
        return Finding("Open vSwitch", "its switch daemon does not answer", remedy)
    return Finding("Open vSwitch", f"{shown.stdout.strip().strip(chr(34))}, running")


def _has_kernel_datapath() -> bool:
    """Whether the kernel has the module of Open vSwitch, or can load it."""
    if Path("/sys/module/openvswitch").exists():
        return True
    loaded = subprocess.run(["modprobe", "openvswitch"], capture_output=True, check=False) if shutil.which("modprobe") else None
    return loaded is not None and loaded.returncode == 0


def _has_qdisc(qdisc: str) -> bool:
    """Whether the kernel has a queueing discipline: try it in a temporary network namespace."""
    trial = subprocess.run(
        ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", *qdisc.split()], capture_output=True, check=False
    )
    return trial.returncode == 0


def _java() -> Finding:
    java = f"{home}/bin/java" if (home := os.environ.get("JAVA_HOME")) else shutil.which("java")
    return Finding("java", java or "not installed", "" if java else "run ./setup.sh, which installs a Java runtime for Spark")


def _disk(output: Path) -> Finding:
    existing = next(parent for parent in (output.absolute(), *output.absolute().parents) if parent.exists())
    if not os.access(existing, os.W_OK) or not existing.is_dir():
        return Finding("results", f"{existing} is not a writable directory", "choose another one with --out")
    free_mb = shutil.disk_usage(existing).free >> 20
    state = f"{free_mb} MB free in {existing}"
    return Finding("results", state, "" if free_mb > _SPACE_NEEDED_MB else "free some space, or choose another place with --out")
