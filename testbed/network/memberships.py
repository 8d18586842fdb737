"""The groups of a network that multicasts, as the hosts' kernels see them.

An agent joins the groups of its host with its own socket, so it hears no others. The kernel of a host drops datagrams to groups that nobody
there has joined, and counts them nowhere. So one more socket on each host, which hears nothing, joins every group of the run: then the
kernel counts the datagrams that reach a host without a member (`IgnoredMulti`), also while its agent is down, and the books know them.

A host reports its groups by IGMP when they are first joined, for about a second. Nothing is joined first during a run, except a group that
a user makes while the network is up; switches drop these reports.
"""

import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network.plan import Plan
from topologies.network import MOST_GROUPS, group_address

# The limit of the groups that one socket may join: 20 unless it is raised.
_MOST_MEMBERSHIPS = Path("/proc/sys/net/ipv4/igmp_max_memberships")
# Whether packets from the host's own address are accepted.
_FROM_ITSELF = Path("/proc/sys/net/ipv4/conf/all/accept_local")
# The bytes that the kernel keeps for the options of a socket. A group that is joined takes 48 of them.
_OPTION_MEMORY = Path("/proc/sys/net/core/optmem_max")
_BYTES_OF_A_GROUP = 64


def refuse_impossible(groups: Collection[int]) -> None:
    """Stop before anything is made if a socket of this kernel cannot join that many groups."""
    most = int(_OPTION_MEMORY.read_text()) // _BYTES_OF_A_GROUP
    if len(groups) > most:
        raise CannotRun(
            f"{len(groups)} groups, everybody among them, are too many for this kernel, whose sockets can join {most}: "
            f"raise net.core.optmem_max, or run with fewer groups, with --medium unicast or with --on simulator"
        )


@contextmanager
def held(plan: Plan, groups: Collection[int]) -> Iterator[Callable[[int], None]]:
    """Have every host be in every group for as long as the body runs. The body gets a call for groups that are made meanwhile."""
    with ExitStack() as stack:
        holders: dict[str, socket.socket] = {}
        for host in plan.network.hosts if groups else ():
            with inside(plan.namespace_path(host)):
                _MOST_MEMBERSHIPS.write_text(str(MOST_GROUPS + 1))
                _FROM_ITSELF.write_text("1")
                holders[host] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

        def join(group: int) -> None:
            for host, holder in holders.items():
                addresses = group_address(group), plan.network.addresses[host]
                holder.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, b"".join(map(socket.inet_aton, addresses)))

        for group in groups:
            join(group)
        yield join
