"""Makes a network on this machine in batches, shapes its links, starts its controller, and checks that all hosts reach each other."""

import array
import fcntl
import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from mininet.net import Mininet

from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network import memberships, probe, record, shaping, shell, vswitch
from testbed.network.doctor import Machine
from testbed.network.nodes import as_mininet
from testbed.network.plan import Plan
from testbed.terminal import Progress
from topologies import files
from topologies.network import Network

# Switches connect and get their flows within seconds, so after this time something is broken.
PATIENCE_S = 120.0

Groups = Mapping[int, tuple[str, ...]]
"""The members of every group that the switches carry packets to, by the number of the group."""


@dataclass(frozen=True)
class Emulation:
    """A network that is up."""

    plan: Plan
    net: Mininet
    controller: "Controller"
    vswitch: vswitch.Daemon
    hold: Callable[[int], None]
    """On a network that multicasts, have the kernel of every host be in a new group."""

    @property
    def network(self) -> Network:
        """The network as data."""
        return self.plan.network

    def set_members(self, group: int, members: tuple[str, ...]) -> None:
        """On a network that multicasts, have the switches send packets to a group to these hosts, and wait for the flows."""
        if self.controller.groups:
            if group not in self.controller.groups:
                self.hold(group)
            self.controller.regroup({**self.controller.groups, group: members})


@contextmanager
def emulate(
    network: Network,
    machine: Machine,
    private: Path,
    log: Path,
    progress: Progress,
    groups: Groups = MappingProxyType({}),
) -> Iterator[Emulation]:
    """Bring a network up for as long as the body runs. `private` is the directory from `record.claim`, which removes the network.

    With `groups`, the network multicasts.
    """
    refuse_impossible(network, machine)
    plan = Plan(network, private.name, machine.kernel_datapath)
    record.write(private, plan)
    files.dump(network, private / "network.json")
    daemon = vswitch.Daemon()
    progress(f"making {len(network.hosts)} hosts, {len(network.switches)} switches and {len(network.links)} links")
    with (
        Controller(private / "network.json", log, vswitch.run_directory() / plan.controller_socket, groups) as controller,
        ExitStack() as stack,
    ):
        make_hosts_and_links(plan)
        hold = stack.enter_context(memberships.held(plan, groups))
        # Meanwhile the controller was starting.
        progress("making the switches")
        if plan.kernel_datapath:
            vswitch.wait_after_boot()
        controller.wait_until_it_listens()
        make_switches(plan)
        progress("shaping the links and reading them back")
        shaping.shape(plan)
        net = as_mininet(plan)
        progress("waiting until every flow is installed")
        controller.wait_for_switches(set(network.switches))
        progress("checking that every host reaches the others")
        probe.reach_everybody(plan)
        yield Emulation(plan, net, controller, daemon, hold)


def refuse_impossible(network: Network, machine: Machine) -> None:
    """Stop before anything is made if the kernel cannot emulate a link."""
    delayed = shaping.needs_netem(network)
    if delayed and not machine.netem:
        raise CannotRun(
            f"this kernel has no netem, so it cannot delay or duplicate packets on {len(delayed)} links ({delayed[0]} first): "
            "run in a virtual machine with ./castbed vm run, in virtual time with --on simulator, or without delay and duplicates"
        )
    long = shaping.needs_kernel_datapath(network)
    if long and not machine.kernel_datapath:
        raise CannotRun(
            f"the queue of {long[0]} is too long for switches in userspace: ask for at most {shaping.MOST_QUEUED_IN_USERSPACE} packets, "
            "run in a virtual machine with ./castbed vm run, or in virtual time with --on simulator"
        )
    bursty = shaping.needs_simulator(network)
    if bursty:
        raise CannotRun(f"the kernel does not count bursts of loss, as on {bursty[0]}, separately: run with --on simulator")


def make_hosts_and_links(plan: Plan) -> None:
    """Make every namespace and link, and configure the hosts."""
    ipv6 = Path("/proc/sys/net/ipv6").exists()
    shell.ip(list(plan.link_commands(ipv6=ipv6)))
    for host in plan.network.hosts:
        shell.ip(list(plan.host_commands(host, ipv6=ipv6)), plan.namespace(host))
        if not plan.kernel_datapath:
            with inside(plan.namespace_path(host)):
                _checksums_in_software(f"{host}-eth0")


def make_switches(plan: Plan) -> None:
    """Make every switch. The links must exist already."""
    switches = [word for switch in plan.network.switches for word in plan.bridge_command(switch)]
    # Wait until the switches are made: Open vSwitch clears the queueing disciplines of a port that is added.
    vswitch.control(switches, PATIENCE_S)
    if not plan.kernel_datapath:
        vswitch.widen({end.interface for link in plan.network.links for end in plan.ends(link) if not end.namespace})


def _checksums_in_software(interface: str) -> None:
    """Turn off checksum offloading: the userspace datapath forwards packets as they are, so no device would fill in the checksum."""
    siocethtool, set_tx_checksum, get_tx_checksum = 0x8946, 0x17, 0x16
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (set_tx_checksum, get_tx_checksum):
            value = array.array("I", [command, 0])
            fcntl.ioctl(any_socket, siocethtool, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))
        if value[1] != 0:
            raise CannotRun(f"checksum offloading on {interface} cannot be turned off, and with it no UDP packet would arrive")


class Controller:
    """The process of the controller, observed through its log. It can be stopped and started again at the same address."""

    def __init__(self, network: Path, log: Path, socket_path: Path, groups: Groups) -> None:
        self._network = network
        self._groups_file = network.with_name("groups.json")
        self._write_groups(groups)
        self._log = log
        self._socket = socket_path
        self._errors = log.with_suffix(".stderr")
        self.deaths: list[str] = []
        """A sentence for each time that the controller ended without having been stopped."""
        self._ended = False
        self._starts = 0
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="castbed-controller")
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        # In a thread that lasts, since the process dies with the thread that starts it; a thread that serves a request ends early.
        return self._starter.submit(self._open).result()

    def _open(self) -> "subprocess.Popen[bytes]":
        self._starts += 1
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [
                    *(*shell.WITH_US, sys.executable, "-m", "controller", str(self._network)),
                    *("--listen", f"unix:{self._socket}", "--log", str(self._log), "--groups", str(self._groups_file)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def regroup(self, groups: Groups) -> None:
        """Have the controller install the trees of these groups: at once, and wait for it; or when it is started again."""
        self._write_groups(groups)
        if self.is_running:
            # Before it listens, the signal would end it.
            self.wait_until_it_listens()
            before = _regroupings(self.events())
            self._process.send_signal(signal.SIGHUP)
            self.wait_for(lambda events: _regroupings(events) > before or None)

    def _write_groups(self, groups: Groups) -> None:
        """Replace the file in one step: the controller may read it at any time."""
        self.groups = groups
        unfinished = self._groups_file.with_suffix(".new")
        unfinished.write_text(json.dumps(dict(groups)))
        unfinished.replace(self._groups_file)

    def stop(self) -> None:
        """Kill the controller."""
        self.notice()
        self._ended = True
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Start the controller again at the same address, if it has ended."""
        self.notice()
        if self._ended:
            self._process = self._start()
            self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._starter.shutdown()
        self._socket.unlink(missing_ok=True)
        if not self._errors.stat().st_size:
            self._errors.unlink()

    def wait_until_it_listens(self) -> None:
        """Wait until switches can connect, also after a restart."""
        self.wait_for(lambda events: sum(event["event"] == "listening" for event in events) >= self._starts or None)

    def wait_for_switches(self, switches: set[str]) -> None:
        """Wait until every switch has all its flows."""
        self.wait_for(lambda events: switches <= {e["switch"] for e in events if e["event"] == "switch_ready"} or None)

    @property
    def process_number(self) -> int:
        """The process identifier of the controller."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the controller runs."""
        return self._process.poll() is None

    def notice(self) -> None:
        """Add a sentence to `deaths` if the controller has died."""
        if not self._ended and self._process.poll() is not None:
            self._ended = True
            said = self._errors.read_text().strip().splitlines() or ["nothing"]
            self.deaths.append(f"the controller died with status {self._process.returncode}; its last line was: {said[-1]}")

    def events(self) -> list[dict[str, Any]]:
        """All events that the controller has logged so far."""
        if not self._log.exists():
            return []
        text = self._log.read_bytes()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def wait_for(self, question: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """Wait until `question` has an answer other than None for the logged events, and return the answer."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := question(self.events())) is None:
            self.notice()
            if self.deaths:
                raise CannotRun(self.deaths[-1])
            if time.monotonic() > deadline:
                raise CannotRun(f"the switches did not all connect to the controller in {PATIENCE_S:.0f} s; see {self._log}")
            time.sleep(0.02)
        return answer


def _regroupings(events: list[dict[str, Any]]) -> int:
    """How often the controller has installed trees because groups have changed."""
    return sum(event.get("cause") == "groups_changed" for event in events)
