"""A controller in a process of its own, and real switches for it: bridges, veths and namespaces, all gone after the test."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from topologies.files import dump
from topologies.network import Network, group_address

PATIENCE_S = 20.0
ROOT = Path(__file__).parents[2]

LISTENER = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
receiver.settimeout(10)
receiver.bind(("", 5000))
print("ready", flush=True)
data, ancillary, _, sender = receiver.recvmsg(100, 100)
print(data.decode(), ancillary[0][2][0], sender[0], flush=True)
"""
GROUP_LISTENER = """
import socket, sys
group, own = sys.argv[1:]
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
receiver.settimeout(10)
receiver.bind(("", 5000))
print("ready", flush=True)
while True:
    data, ancillary, _, _ = receiver.recvmsg(100, 100)
    if data == b"hello":
        break
    print(ancillary[0][2][0], flush=True)
"""
GROUP_SENDER = """
import socket, sys
group, own = sys.argv[1:]
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 64)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
sender.sendto(b"to all", (group, 5000))
"""
SENDER = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('{}', 5000))"


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Controller:
    """`python -m controller` as a user starts it."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        listen: str = "127.0.0.1:0",
        groups: dict[int, tuple[str, ...]] | None = None,
        mutation: str = "",
    ) -> None:
        """`mutation` is Python that breaks something before the controller starts."""
        self.log, self._groups = folder / "controller.jsonl", folder / "groups.json"
        dump(network, folder / "network.json")
        self._groups.write_text(json.dumps(groups or {}))
        program = ["-c", f"{mutation}\nfrom controller.__main__ import main; main()"] if mutation else ["-m", "controller"]
        files = [str(folder / "network.json"), "--groups", str(self._groups), "--log", str(self.log)]
        command = [sys.executable, *program, *files, "--listen", listen]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def regroup(self, groups: dict[int, tuple[str, ...]]) -> None:
        """Change the groups and wait until the switches know."""
        before = len(self.events("rerouted"))
        self._groups.write_text(json.dumps(groups))
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("rerouted", before + 1)

    def events(self, name: str) -> list[dict]:
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in events if event["event"] == name]

    def wait_for(self, name: str, count: int = 1, **fields: object) -> list[dict]:
        """Wait until the log has that many such events; return them."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [event for event in self.events(name) if fields.items() <= event.items()]
            if len(found) >= count:
                return found
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline, f"no {count} x {name} {fields} in:\n{self.log.read_text()}"
            time.sleep(0.005)

    @property
    def address(self) -> str:
        return f"tcp:127.0.0.1:{self.wait_for('listening')[0]['port']}"

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal, wait, and return the exit code and what the process had to say."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=PATIENCE_S)[1]
        return self.process.returncode, said


class Bench:
    """The switches, links and hosts of a network; all names start with the same random letters."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.prefix = "c" + secrets.token_hex(2)

    def bridge(self, switch: str) -> str:
        return self.prefix + switch

    def interface(self, node: str, neighbour: str) -> str:
        """The interface of a switch towards a neighbour; that of a host is called after the host."""
        return f"{self.prefix}{node}" + ("" if self.network.is_host(node) else f"-{self.network.ports[node][neighbour]}")

    def build(self) -> None:
        for link in self.network.links:
            a, b = self.interface(link.a, link.b), self.interface(link.b, link.a)
            run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
            for end in (a, b):
                # Without a checksum from the sender's kernel, the userspace datapath would pass on packets that nobody accepts.
                run("ethtool", "-K", end, "tx", "off")
                # The kernel's own IPv6 greetings from the switch's end would reach the host past the switch.
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                run("ip", "link", "set", end, "up")
        for host in self.network.hosts:
            self._place(host)
        run("ovs-vsctl", *(word for switch in self.network.switches for word in self._bridge_commands(switch)))

    def _place(self, host: str) -> None:
        name = self.bridge(host)
        run("ip", "netns", "add", name)
        run("ip", "link", "set", name, "netns", name)
        run("ip", "-n", name, "link", "set", name, "address", self.network.macs[host], "up")
        run("ip", "-n", name, "address", "add", f"{self.network.addresses[host]}/8", "dev", name)

    def _bridge_commands(self, switch: str) -> Iterator[str]:
        bridge = self.bridge(switch)
        identifier = f"other-config:datapath-id={self.network.datapaths[switch]:016x}"
        yield from ("--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "protocols=OpenFlow13")
        yield from ("fail-mode=secure", identifier, "other-config:disable-in-band=true")
        for neighbour, number in self.network.ports[switch].items():
            port = self.interface(switch, neighbour)
            yield from ("--", "add-port", bridge, port, "--", "set", "interface", port, f"ofport_request={number}")

    def connect(self, controller: Controller, *switches: str) -> None:
        for switch in switches or self.network.switches:
            run("ovs-vsctl", "set-controller", self.bridge(switch), controller.address)

    def disconnect(self, switch: str) -> None:
        """Cut a switch off by pointing it to the discard port; with no controller at all it would drop its flows."""
        run("ovs-vsctl", "set-controller", self.bridge(switch), "tcp:127.0.0.1:9")

    def flows(self, switch: str) -> set[str]:
        """The flows in Open vSwitch's own words, without counters and cookies."""
        lines = run("ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", self.bridge(switch)).splitlines()
        return {re.sub(r"cookie=\w+, ", "", line).strip() for line in lines}

    def set_link(self, node: str, neighbour: str, state: str) -> None:
        run("ip", "link", "set", self.interface(node, neighbour), state)

    def send(self, source: str, destination: str) -> list[str]:
        """Send a datagram; return what the receiver saw: its text, type of service and sender."""
        inside = ("ip", "netns", "exec", self.bridge(destination), sys.executable, "-c", LISTENER)
        with subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as listener:
            assert listener.stdout.readline() == "ready\n"
            self.inside(source, sys.executable, "-c", SENDER.format(self.network.addresses[destination]))
            return listener.stdout.readline().split()

    def multicast(self, source: str, group: int) -> dict[str, list[str]]:
        """Send a datagram to a group of which all hosts would take packets; for each host that got copies, their types of service."""
        listener = (sys.executable, "-c", GROUP_LISTENER, group_address(group))
        hosts = [host for host in self.network.hosts if host != source]
        waiting = {
            host: subprocess.Popen(
                ("ip", "netns", "exec", self.bridge(host), *listener, self.network.addresses[host]),
                stdout=subprocess.PIPE,
                text=True,
            )
            for host in hosts
        }
        assert all(process.stdout.readline() == "ready\n" for process in waiting.values())
        self.inside(source, sys.executable, "-c", GROUP_SENDER, group_address(group), self.network.addresses[source])
        # What is sent to a host after the multicast comes after its copies: then there is nothing more to wait for.
        for host in hosts:
            self.inside(source, sys.executable, "-c", SENDER.format(self.network.addresses[host]))
        return {host: copies for host, process in waiting.items() if (copies := process.communicate(timeout=20)[0].split())}

    def inside(self, host: str, *words: str, check: bool = True) -> str:
        """Run a command in the namespace of a host."""
        return subprocess.run(
            ("ip", "netns", "exec", self.bridge(host), *words), check=check, capture_output=True, text=True
        ).stdout

    def remove(self) -> None:
        """Remove all that `build` made, however far it got."""
        for switch in self.network.switches:
            subprocess.run(("ovs-vsctl", "--if-exists", "del-br", self.bridge(switch)), check=False)
        for link in self.network.links:
            subprocess.run(("ip", "link", "del", self.interface(link.b, link.a)), check=False, stderr=subprocess.DEVNULL)
            subprocess.run(("ip", "link", "del", self.interface(link.a, link.b)), check=False, stderr=subprocess.DEVNULL)
        for host in self.network.hosts:
            subprocess.run(("ip", "netns", "del", self.bridge(host)), check=False, stderr=subprocess.DEVNULL)


@pytest.fixture
def start_controller(tmp_path: Path):
    """Start a controller for a network; it ends with the test."""
    started = []

    def start(network: Network, **options: str) -> Controller:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Controller(network, folder, **options))
        return started[-1]

    yield start
    for controller in started:
        controller.process.kill()
        controller.process.communicate()


@pytest.fixture
def build():
    """Build a network of real switches, which is removed after the test."""
    if os.geteuid() != 0 or not shutil.which("ovs-vsctl"):
        pytest.skip("needs root and Open vSwitch")
    built = []

    def start(network: Network) -> Bench:
        built.append(Bench(network))
        built[-1].build()
        return built[-1]

    yield start
    for bench in built:
        bench.remove()
