"""The same network built by stock Mininet, as a user would write it with Mininet's API, and measured in a process of its own.

What is built: every host, switch and link of the network; bandwidth limits on the links that have one; MAC and IP addresses and all-pairs
static ARP entries; every switch speaks OpenFlow 1.3 and is told to connect to a remote controller. The clock stops when `Mininet.start`
returns: unlike Castbed, stock Mininet is not made to wait for a controller, flows or reachability, and reads no impairment back.

Where there is a choice, stock Mininet gets the faster one: its switches are started in one batch, only limited links are `TCLink`s, nobody
listens at the controller's address, and system-wide limits are left alone. On the userspace datapath every host needs `ethtool -K tx off`,
one command each, since otherwise no UDP or TCP packet would arrive; the time of these commands counts.

Mininet's names are global, so the names here begin with `bench-`, and nothing is touched if one of them exists. A record beside those of
Castbed's runs says what is about to be made: after a kill, `./castbed clean` removes that.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import OVSSwitch, RemoteController
from mininet.topo import Topo

from testbed.errors import CannotRun
from testbed.network import record, shell
from testbed.network.record import uninterrupted
from topologies import files
from topologies.network import Network

# The discard port: nobody listens there, so connecting fails at once.
_NO_CONTROLLER = 9


@dataclass(frozen=True)
class Times:
    """How long a network took to come up and to go down, in seconds."""

    up_s: float
    down_s: float


def measure(network: Network, *, kernel_datapath: bool) -> Times:
    """Build and stop a network with stock Mininet, and leave nothing behind."""
    made = record.Record(bridges=tuple(map(_name, network.switches)), interfaces=tuple(_interfaces(network)))
    _refuse_to_collide(made)
    with record.claim() as private:
        (private / "record.json").write_bytes(msgspec.json.encode(made))
        files.dump(network, private / "network.json")
        datapath = "kernel" if kernel_datapath else "user"
        process = subprocess.Popen(
            [*shell.WITH_US, sys.executable, "-m", "benchmarks.yardsticks.stock", str(private / "network.json"), datapath],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            printed, said = process.communicate()
        finally:
            with uninterrupted():
                # Ends the shells of all nodes, and with them the hosts' namespaces.
                process.kill()
                process.wait()
                record.unmake(made)
    if process.returncode != 0:
        raise CannotRun(f"stock Mininet failed: {(said.decode().strip().splitlines() or ['it said nothing'])[-1]}")
    return Times(**json.loads(printed))


def topology(network: Network, datapath: str) -> Topo:
    """The network as a Mininet topology."""
    topo = Topo()
    for host in network.hosts:
        topo.addHost(_name(host))
    for switch in network.switches:
        topo.addSwitch(_name(switch), datapath=datapath, protocols="OpenFlow13")
    for link in network.links:
        limited = {"cls": TCLink, "bw": link.bandwidth_mbit} if link.bandwidth_mbit else {}
        topo.addLink(_name(link.a), _name(link.b), **limited)
    return topo


def _name(node: str) -> str:
    return f"bench-{node}"


def _interfaces(network: Network) -> list[str]:
    """The interfaces that Mininet makes in the root namespace: it numbers those of each switch from 1."""
    return [f"{_name(switch)}-eth{number}" for switch in network.switches for number in range(1, len(network.ports[switch]) + 1)]


def _refuse_to_collide(made: record.Record) -> None:
    bridges = shell.run(["ovs-vsctl", "--timeout=10", "list-br"]).split()
    for name in (*made.bridges, *made.interfaces):
        if name in bridges or Path("/sys/class/net", name).exists():
            raise CannotRun(f"{name} exists already, and stock Mininet would take it over: run ./castbed clean, or remove it")


def _build_and_stop(network: Network, datapath: str) -> Times:
    # Keeps Mininet from raising system-wide limits, which would stay raised.
    Mininet.inited = True
    net = Mininet(
        topo=topology(network, datapath),
        switch=OVSSwitch,
        controller=lambda name: RemoteController(name, port=_NO_CONTROLLER),
        autoSetMacs=True,
        autoStaticArp=True,
        build=False,
    )
    began = time.monotonic()
    net.build()
    if datapath == "user":
        for host in net.hosts:
            host.cmd("ethtool -K", host.defaultIntf(), "tx off")
    net.start()
    up = time.monotonic()
    _check(network)
    stopping = time.monotonic()
    net.stop()
    return Times(up - began, time.monotonic() - stopping)


def _check(network: Network) -> None:
    """Refuse an incomplete network: Mininet goes on when a command fails, and its time would then mean nothing."""
    bridges = shell.run(["ovs-vsctl", "list-br"]).split()
    missing = [name for name in map(_name, network.switches) if name not in bridges]
    missing += [name for name in _interfaces(network) if not Path("/sys/class/net", name).exists()]
    limits = [qdisc for qdisc in json.loads(shell.run(["tc", "-j", "qdisc", "show"])) if qdisc["kind"] == "htb"]
    limited = {qdisc["dev"] for qdisc in limits if qdisc["dev"].startswith("bench-")}
    if missing or len(limited) != 2 * sum(1 for link in network.links if link.bandwidth_mbit):
        raise CannotRun(
            f"stock Mininet did not make everything: {len(missing)} pieces missing, {len(limited)} interfaces limited"
        )


if __name__ == "__main__":
    print(json.dumps(asdict(_build_and_stop(files.load(sys.argv[1]), sys.argv[2]))))
