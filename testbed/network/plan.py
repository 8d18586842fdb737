"""The plan of a network on this machine: the names of its kernel objects, and the commands that make them.

The plan depends only on the network and on a short tag that no other run on the machine has. So all names are written to disk before
anything is made, and clean-up knows what to look for, whatever happens later.

    host h3, network namespace     TAG-h3          with the interface h3-eth0 inside
    switch number 2, bridge        TAG-s2
    its port 4                     TAG-s2e4        the interface towards the neighbour on that port
    socket of the controller       TAG-controller  in the run directory of Open vSwitch, which connects to no socket elsewhere
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from topologies.network import Link, Network

PREFIX_LENGTH = 8
"""All hosts are in 10.0.0.0/8."""


@dataclass(frozen=True)
class End:
    """One end of a link: its interface, the node that the interface belongs to, and its namespace (empty for the root namespace)."""

    node: str
    interface: str
    namespace: str = ""


@dataclass(frozen=True)
class Plan:
    """The kernel objects of one run."""

    network: Network
    tag: str
    kernel_datapath: bool

    def namespace(self, host: str) -> str:
        """The name of a host's network namespace."""
        return f"{self.tag}-{host}"

    def namespace_path(self, host: str) -> Path:
        """The file of a host's network namespace."""
        return Path("/run/netns") / self.namespace(host)

    def bridge(self, switch: str) -> str:
        """The name of a switch's bridge."""
        return f"{self.tag}-s{self.network.datapaths[switch]}"

    @property
    def controller_socket(self) -> str:
        """The name of the controller's socket."""
        return f"{self.tag}-controller"

    def end(self, node: str, neighbour: str) -> End:
        """The end at `node` of the link between two nodes."""
        if self.network.is_host(node):
            return End(node, f"{node}-eth0", self.namespace(node))
        return End(node, f"{self.bridge(node)}e{self.network.ports[node][neighbour]}")

    def ends(self, link: Link) -> tuple[End, End]:
        """Both ends of a link, `a` first."""
        return self.end(link.a, link.b), self.end(link.b, link.a)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Every network namespace of the run."""
        return tuple(self.namespace(host) for host in self.network.hosts)

    @property
    def bridges(self) -> tuple[str, ...]:
        """Every bridge of the run."""
        return tuple(self.bridge(switch) for switch in self.network.switches)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """One interface in the root namespace for each link; removing it removes the other end too."""
        return tuple(
            end.interface for link in self.network.links for end in [next(end for end in self.ends(link) if not end.namespace)]
        )

    def link_commands(self, *, ipv6: bool) -> Iterator[str]:
        """Commands for `ip` that make all namespaces and all links. Without IPv6 addresses, no IPv6 packets get into the captures."""
        for namespace in self.namespaces:
            yield f"netns add {namespace}"
        for link in self.network.links:
            near, far = sorted(self.ends(link), key=lambda end: end.namespace)
            inside = f" address {self.network.macs[far.node]} netns {far.namespace}" if far.namespace else ""
            yield f"link add {near.interface} type veth peer name {far.interface}{inside}"
            for end in (near, far):
                if not end.namespace:
                    if ipv6:
                        yield f"link set {end.interface} addrgenmode none"
                    yield f"link set {end.interface} up"

    def host_commands(self, host: str, *, ipv6: bool) -> Iterator[str]:
        """Commands for `ip` in a host's namespace: its address, and the Ethernet addresses of all other hosts, so that no ARP is needed."""
        interface = f"{host}-eth0"
        yield "link set lo up"
        if ipv6:
            yield f"link set {interface} addrgenmode none"
        yield f"address add {self.network.addresses[host]}/{PREFIX_LENGTH} dev {interface}"
        yield f"link set {interface} up"
        for peer, address in self.network.addresses.items():
            if peer != host:
                yield f"neighbour add {address} lladdr {self.network.macs[peer]} dev {interface} nud permanent"

    def bridge_command(self, switch: str) -> list[str]:
        """Arguments for `ovs-vsctl` that make a switch with all its ports; several switches can be made in one transaction."""
        bridge = self.bridge(switch)
        kind = "system" if self.kernel_datapath else "netdev"
        command = ["--", "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={kind}", "protocols=OpenFlow13"]
        command += ["fail_mode=secure", f"other_config:datapath-id={self.network.datapaths[switch]:016x}"]
        command += ["--", "set-controller", bridge, f"unix:{self.controller_socket}"]
        # The controller may be stopped and started again; the switch tries to connect once a second.
        command += ["--", "set", "controller", bridge, "max_backoff=1000"]
        for neighbour, port in self.network.ports[switch].items():
            interface = self.end(switch, neighbour).interface
            command += ["--", "add-port", bridge, interface, "--", "set", "interface", interface, f"ofport_request={port}"]
        return command
