"""Mininet's hosts, switches and links on kernel objects that already exist.

Mininet would make every kernel object with a shell command. Castbed makes them in batches and then creates Mininet's objects for them, so
that Mininet's API and command line work as usual. The shells of nodes take most of Mininet's start-up time, so a shell is started when it
is first used.
"""

import subprocess
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch

from testbed.network import vswitch
from testbed.network.plan import PREFIX_LENGTH, End, Plan
from testbed.network.shell import WITH_US


class _LazyShell:
    """Starts the shell of a Mininet node when it is first used."""

    _entry: tuple[str, ...] = ()

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Only remember the options; the shell starts when it is first used."""
        self._mnopts = mnopts
        self._started = False

    def _popen(self, cmd: list[str], **params: Any) -> "subprocess.Popen[bytes]":
        """Start the shell in the node's namespace; it is killed when this process dies."""
        return subprocess.Popen([*WITH_US, *self._entry, *cmd], **params)

    def __getattribute__(self, name: str) -> Any:
        if name in _SHELL_ATTRIBUTES and not object.__getattribute__(self, "__dict__").get("_started", True):
            self._started = True
            super().startShell(self._mnopts)  # type: ignore[misc] # of the Mininet class beside this one
        return super().__getattribute__(name)


_SHELL_ATTRIBUTES = frozenset({"shell", "pid", "stdin", "stdout", "pollOut", "master", "slave"})


class LiveHost(_LazyShell, Host):  # type: ignore[misc] # Mininet has no types
    """A host whose network namespace exists."""

    def __init__(self, name: str, namespace: Path, **params: Any) -> None:
        self._entry = ("nsenter", f"--net={namespace}")
        # With `inNamespace=False`, Mininet does not make another namespace.
        super().__init__(name, inNamespace=False, **params)

    def terminate(self) -> None:
        """End the shell if it was ever started."""
        _terminate(self)


class LiveSwitch(_LazyShell, OVSSwitch):  # type: ignore[misc] # Mininet has no types
    """A switch whose bridge exists. The names of bridge and node differ, so that two runs can have a node of the same name."""

    controlIntf = None  # noqa: N815 - Mininet's name

    def __init__(self, name: str, plan: Plan) -> None:
        self._plan = plan
        # Mininet gives a switch outside a namespace a loopback interface, and starts the node's shell to configure that.
        super().__init__(name, inNamespace=True, dpid=f"{plan.network.datapaths[name]:016x}")
        self.inNamespace = False

    def dpctl(self, *args: str) -> Any:
        """Run `ovs-ofctl` on the bridge."""
        return self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], self._plan.bridge(self.name), *args[1:])

    def start(self, controllers: Any) -> None:  # noqa: ARG002 - a switch of ours has one controller, ours
        """Make the bridge again after `stop`."""
        vswitch.control(["--may-exist", *self._plan.bridge_command(self.name)[1:]])

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Delete the bridge of this run, and no other bridge that has the name of the node."""
        vswitch.control(["--if-exists", "del-br", self._plan.bridge(self.name)])
        if deleteIntfs:
            self.deleteIntfs()

    @classmethod
    def batchShutdown(cls, switches: list["LiveSwitch"], run: Any = None) -> list["LiveSwitch"]:  # noqa: ARG003, N802 - Mininet's
        """Stop switches one by one, each by its own bridge."""
        for switch in switches:
            switch.stop()
        return switches

    def terminate(self) -> None:
        """End the shell if it was ever started."""
        _terminate(self)


def _terminate(node: Any) -> None:
    if node._started:  # noqa: SLF001 - of the mix-in above
        Host.terminate(node)


class LiveLink(Link):  # type: ignore[misc] # Mininet has no types
    """A link whose interfaces exist."""

    def __init__(self, node1: Any, node2: Any, ends: tuple[End, End]) -> None:
        self.intf1, self.intf2 = (
            Intf(end.interface, node=node, link=self, up=None, moveIntfFn=lambda *_: None)
            for node, end in zip((node1, node2), ends, strict=True)
        )


def as_mininet(plan: Plan) -> Mininet:
    """A Mininet network for a plan whose kernel objects exist."""
    # Mininet's own initialisation would raise system-wide limits, which Castbed does not need.
    Mininet.inited = True
    net = Mininet(controller=None, build=False)
    network = plan.network
    for host in network.hosts:
        node = LiveHost(host, plan.namespace_path(host), ip=f"{network.addresses[host]}/{PREFIX_LENGTH}", mac=network.macs[host])
        net.hosts.append(node)
        net.nameToNode[host] = node
    for switch in network.switches:
        node = LiveSwitch(switch, plan)
        net.switches.append(node)
        net.nameToNode[switch] = node
    for link in network.links:
        net.links.append(LiveLink(net[link.a], net[link.b], plan.ends(link)))
    for host in network.hosts:
        interface = net[host].defaultIntf()
        interface.ip, interface.prefixLen, interface.mac = network.addresses[host], str(PREFIX_LENGTH), network.macs[host]
    net.built = True
    return net
