"""A network on this machine: made in batches, shaped, controlled, proved ready, and unmade again whatever happens."""

import array
import fcntl
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mininet.net import Mininet

from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network import probe, record, shaping, shell, vswitch
from testbed.network.doctor import Machine
from testbed.network.nodes import as_mininet
from testbed.network.plan import Plan
from testbed.terminal import Progress
from topologies import files
from topologies.network import Network

# Switches connect and flows arrive within seconds; a machine that needs longer than this is not going to make it.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Emulation:
    """A network that is up."""

    plan: Plan
    net: Mininet
    controller: "Controller"
    vswitch: vswitch.Daemon

    @property
    def network(self) -> Network:
        """The network as data."""
        return self.plan.network


@contextmanager
def emulate(network: Network, machine: Machine, private: Path, log: Path, progress: Progress) -> Iterator[Emulation]:
    """Bring a network up for as long as the body runs. `private` is the run's directory from `record.claim`, which unmakes it."""
    refuse_impossible(network, machine)
    plan = Plan(network, private.name, machine.kernel_datapath)
    record.write(private, plan)
    files.dump(network, private / "network.json")
    daemon = vswitch.Daemon()
    progress(f"making {len(network.hosts)} hosts, {len(network.switches)} switches and {len(network.links)} links")
    with Controller(private / "network.json", log, vswitch.run_directory() / plan.controller_socket) as controller:
        make_hosts_and_links(plan)
        # The controller has had that long to start.
        progress("making the switches")
        if plan.kernel_datapath:
            vswitch.wait_until_it_counts()
        controller.wait_until_it_listens()
        make_switches(plan)
        progress("shaping the links and reading them back")
        shaping.shape(plan)
        net = as_mininet(plan)
        progress("waiting until every flow is installed")
        controller.wait_for_switches(set(network.switches))
        progress("checking that every host reaches the others")
        probe.reach_everybody(plan)
        yield Emulation(plan, net, controller, daemon)


def refuse_impossible(network: Network, machine: Machine) -> None:
    """Stop before anything is made if the kernel cannot emulate a link."""
    delayed = shaping.needs_netem(network)
    if delayed and not machine.netem:
        raise CannotRun(
            f"this kernel has no netem, so it cannot delay or duplicate packets on {len(delayed)} links ({delayed[0]} first): "
            "run it in a virtual machine with ./castbed vm run, in virtual time with --on simulator, or without"
        )
    long = shaping.needs_kernel_datapath(network)
    if long and not machine.kernel_datapath:
        raise CannotRun(
            f"the queue of {long[0]} is too long for switches in userspace: ask for at most {shaping.MOST_QUEUED_IN_USERSPACE} packets, "
            "run it in a virtual machine with ./castbed vm run, or in virtual time with --on simulator"
        )
    unruly = shaping.needs_simulator(network)
    if unruly:
        raise CannotRun(f"bursts of loss on {unruly[0]}: the kernel does not count them apart, so run it with --on simulator")


def make_hosts_and_links(plan: Plan) -> None:
    """Make every namespace and link, and configure the hosts."""
    ipv6 = Path("/proc/sys/net/ipv6").exists()
    shell.ip(list(plan.links_order(ipv6=ipv6)))
    for host in plan.network.hosts:
        shell.ip(list(plan.host_order(host, ipv6=ipv6)), plan.namespace(host))
        if not plan.kernel_datapath:
            with inside(plan.namespace_path(host)):
                _checksums_in_software(f"{host}-eth0")


def make_switches(plan: Plan) -> None:
    """Make every switch on the links that are there."""
    switches = [word for switch in plan.network.switches for word in plan.bridge_order(switch)]
    # Wait for it: Open vSwitch clears the queueing disciplines of a port when it takes it over.
    vswitch.control(switches, PATIENCE_S)


def _checksums_in_software(interface: str) -> None:
    """Have the host compute checksums itself: the userspace datapath forwards packets as they are, and nobody fills them in later."""
    siocethtool, set_tx_checksum, get_tx_checksum = 0x8946, 0x17, 0x16
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (set_tx_checksum, get_tx_checksum):
            value = array.array("I", [command, 0])
            fcntl.ioctl(any_socket, siocethtool, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))
        if value[1] != 0:
            raise CannotRun(f"cannot turn off checksum offloading on {interface}, and without that no UDP packet would arrive")


class Controller:
    """The controller as a process of its own, known by its log. It may be stopped and started again at the same address."""

    def __init__(self, network: Path, log: Path, socket_path: Path) -> None:
        self._network = network
        self._log = log
        self._socket = socket_path
        self._errors = log.with_suffix(".stderr")
        self.deaths: list[str] = []
        """What there is to say of every time that it ended and nobody had stopped it."""
        self._ended = False
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="castbed-controller")
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        # By a thread that stays: one that does what another terminal asks for ends with its answer.
        return self._starter.submit(self._open).result()

    def _open(self) -> "subprocess.Popen[bytes]":
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [
                    *(*shell.WITH_US, sys.executable, "-m", "controller", str(self._network)),
                    *("--listen", f"unix:{self._socket}", "--log", str(self._log)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Kill it."""
        self.notice()
        self._ended = True
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Start it again, where the switches look for it."""
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
        """Wait until switches can connect."""
        self.wait_for(lambda events: any(event["event"] == "listening" for event in events) or None)

    def wait_for_switches(self, switches: set[str]) -> None:
        """Wait until every switch has all its flows."""
        self.wait_for(lambda events: switches <= {e["switch"] for e in events if e["event"] == "switch_ready"} or None)

    @property
    def process_number(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def notice(self) -> None:
        """See whether it has died."""
        if not self._ended and self._process.poll() is not None:
            self._ended = True
            said = self._errors.read_text().strip().splitlines() or ["nothing"]
            self.deaths.append(f"the controller died with status {self._process.returncode}; it said: {said[-1]}")

    def events(self) -> list[dict[str, Any]]:
        """Everything it has logged so far."""
        if not self._log.exists():
            return []
        text = self._log.read_bytes()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def wait_for(self, question: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """Ask its log until the answer is not None."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := question(self.events())) is None:
            self.notice()
            if self.deaths:
                raise CannotRun(self.deaths[-1])
            if time.monotonic() > deadline:
                raise CannotRun(f"the switches and the controller did not find each other in {PATIENCE_S:.0f} s; see {self._log}")
            time.sleep(0.02)
        return answer
