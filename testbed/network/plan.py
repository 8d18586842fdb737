"""What a network becomes on this machine: the names of its kernel objects, and the orders that make and unmake them.

Everything here is decided before anything is made, from the network and a short tag that no other run on the machine has. So the names can
be written to disk first, and whatever happens later, clean-up knows what to look for.

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
    """One end of a link: an interface, in the root namespace if `namespace` is empty, and the node it belongs to."""

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
        """The file by which a host's network namespace is entered."""
        return Path("/run/netns") / self.namespace(host)

    def bridge(self, switch: str) -> str:
        """The name of a switch's bridge."""
        return f"{self.tag}-s{self.network.datapaths[switch]}"

    @property
    def controller_socket(self) -> str:
        """The name of the controller's socket."""
        return f"{self.tag}-controller"

    def end(self, node: str, neighbour: str) -> End:
        """The end of the link between two nodes that is at `node`."""
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
        """Every interface of the run in the root namespace, each pair named by one of its ends."""
        return tuple(
            end.interface for link in self.network.links for end in [next(end for end in self.ends(link) if not end.namespace)]
        )

    def links_order(self, *, ipv6: bool) -> Iterator[str]:
        """Orders for `ip` that make all namespaces and all links. Hosts speak IPv4 only, so the books hold no chatter."""
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

    def host_order(self, host: str, *, ipv6: bool) -> Iterator[str]:
        """Orders for `ip` inside a host's namespace: its address, and where all the others are, so that nobody has to ask."""
        interface = f"{host}-eth0"
        yield "link set lo up"
        if ipv6:
            yield f"link set {interface} addrgenmode none"
        yield f"address add {self.network.addresses[host]}/{PREFIX_LENGTH} dev {interface}"
        yield f"link set {interface} up"
        for peer, address in self.network.addresses.items():
            if peer != host:
                yield f"neighbour add {address} lladdr {self.network.macs[peer]} dev {interface} nud permanent"

    def bridge_order(self, switch: str) -> list[str]:
        """Arguments for `ovs-vsctl` that make a switch with every port; those of several switches may be joined into one transaction."""
        bridge = self.bridge(switch)
        kind = "system" if self.kernel_datapath else "netdev"
        order = ["--", "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={kind}", "protocols=OpenFlow13"]
        order += ["fail_mode=secure", f"other_config:datapath-id={self.network.datapaths[switch]:016x}"]
        order += ["--", "set-controller", bridge, f"unix:{self.controller_socket}"]
        # The controller may be stopped and started again: try again within a second.
        order += ["--", "set", "controller", bridge, "max_backoff=1000"]
        for neighbour, port in self.network.ports[switch].items():
            interface = self.end(switch, neighbour).interface
            order += ["--", "add-port", bridge, interface, "--", "set", "interface", interface, f"ofport_request={port}"]
        return order
