"""A network on this machine: made in batches, shaped, controlled, proved ready, and unmade again whatever happens."""

import array
import fcntl
import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mininet.net import Mininet

from hostagent.namespace import inside
from testbed import probe, record, shaping, shell
from testbed.doctor import Machine
from testbed.errors import CannotRun
from testbed.nodes import as_mininet
from testbed.plan import Plan
from topologies import files
from topologies.network import Network

# Switches connect and flows arrive within seconds; a machine that needs longer than this is not going to make it.
PATIENCE_S = 120.0

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Emulation:
    """A network that is up."""

    plan: Plan
    net: Mininet
    controller: "Controller"

    @property
    def network(self) -> Network:
        """The network as data."""
        return self.plan.network


@contextmanager
def emulate(network: Network, machine: Machine, private: Path, log: Path, progress: Progress) -> Iterator[Emulation]:
    """Bring a network up for as long as the body runs. `private` is the run's directory from `record.claim`."""
    refuse_impossible(network, machine)
    plan = Plan(network, private.name, machine.kernel_datapath)
    record.write(private, plan)
    files.dump(network, private / "network.json")
    progress(f"making {len(network.hosts)} hosts, {len(network.switches)} switches and {len(network.links)} links")
    with Controller(private / "network.json", log) as controller, _unmade_after(plan):
        make(plan, controller.port)
        shaping.shape(plan)
        net = as_mininet(plan, controller.port)
        progress("waiting until every flow is installed")
        controller.wait_for_switches(set(network.switches))
        progress("checking that every host reaches the others")
        probe.reach_everybody(plan)
        yield Emulation(plan, net, controller)


def refuse_impossible(network: Network, machine: Machine) -> None:
    """Stop before anything is made if the kernel cannot emulate a link."""
    delayed = shaping.needs_netem(network)
    if delayed and not machine.netem:
        raise CannotRun(
            f"this kernel has no netem, so it cannot delay packets on {len(delayed)} links ({delayed[0]} first): "
            "ask for links without delay and jitter, or use a kernel with sch_netem"
        )


def make(plan: Plan, controller_port: int) -> None:
    """Make every namespace, link and switch."""
    ipv6 = Path("/proc/sys/net/ipv6").exists()
    shell.ip(list(plan.links_order(ipv6=ipv6)))
    for host in plan.network.hosts:
        shell.ip(list(plan.host_order(host, ipv6=ipv6)), plan.namespace(host))
        if not plan.kernel_datapath:
            with inside(plan.namespace_path(host)):
                _checksums_in_software(f"{host}-eth0")
    switches = [word for switch in plan.network.switches for word in plan.bridge_order(switch, controller_port)]
    # Wait for it: Open vSwitch clears the queueing disciplines of a port when it takes it over.
    shell.run(["ovs-vsctl", f"--timeout={PATIENCE_S:.0f}", *switches])


@contextmanager
def _unmade_after(plan: Plan) -> Iterator[None]:
    """Unmake everything when the body ends, and let nothing interrupt that."""
    try:
        yield
    finally:
        with _uninterrupted():
            record.unmake(record.Record(plan.namespaces, plan.bridges, plan.interfaces))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    held = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)


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
    """The controller as a process of its own, known by its log."""

    def __init__(self, network: Path, log: Path) -> None:
        self._log = log
        self._errors = log.with_suffix(".stderr")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*shell.WITH_US, sys.executable, "-m", "controller", str(network), "--listen", "127.0.0.1:0", "--log", str(log)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        if not self._errors.stat().st_size:
            self._errors.unlink()

    @property
    def port(self) -> int:
        """The port it listens on, as soon as it does."""
        return int(self._wait(lambda events: next((e["port"] for e in events if e["event"] == "listening"), None)))

    def wait_for_switches(self, switches: set[str]) -> None:
        """Wait until every switch has all its flows."""
        self._wait(lambda events: switches <= {e["switch"] for e in events if e["event"] == "switch_ready"} or None)

    def check(self) -> None:
        """Stop with what the controller said if it is dead."""
        if self._process.poll() is not None:
            said = self._errors.read_text().strip().splitlines() or ["nothing"]
            raise CannotRun(f"the controller ended with status {self._process.returncode}; it said: {said[-1]}")

    def events(self) -> list[dict[str, Any]]:
        """Everything it has logged so far."""
        if not self._log.exists():
            return []
        text = self._log.read_bytes()
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    def _wait(self, question: Callable[[list[dict[str, Any]]], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while (answer := question(self.events())) is None:
            self.check()
            if time.monotonic() > deadline:
                raise CannotRun(f"the switches and the controller did not find each other in {PATIENCE_S:.0f} s; see {self._log}")
            time.sleep(0.02)
        return answer
