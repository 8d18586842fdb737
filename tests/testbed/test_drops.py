"""Every packet that a link or a switch drops is counted, however fast they come."""

import contextlib
import socket
import time
from contextlib import ExitStack

import pytest

from hostagent.runtime.namespace import inside
from testbed.network import record, shaping, vswitch
from testbed.network.emulation import emulate
from testbed.network.shaping import Drops
from topologies import clusters, lan

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("nothing_left_behind")]

PORT = 40000
SO_RCVBUFFORCE = 33


def udp(plan, host):
    with inside(plan.namespace_path(host)):
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    end.bind((plan.network.addresses[host], PORT))
    return end


def drain(end, quiet_s=1.0):
    """Count what arrives until nothing has for a while."""
    end.settimeout(quiet_s)
    arrived = 0
    with contextlib.suppress(TimeoutError):
        while end.recv(2000):
            arrived += 1
    return arrived


def total(plan):
    return sum(shaping.read_drops(plan).values(), Drops())


@pytest.mark.parametrize(
    ("properties", "causes"),
    [
        ({"bandwidth_mbit": 5.0, "loss": 0.2}, {"loss"}),
        ({"bandwidth_mbit": 1.0, "queue_packets": 10}, {"queue"}),
        ({"bandwidth_mbit": 2.0, "queue_packets": 10, "loss": 0.3}, {"loss", "queue"}),
    ],
)
def test_a_flood_arrives_or_is_counted_as_dropped(properties, causes, machine, tmp_path):
    """What the switch itself was too slow to take is counted too, and may or may not happen."""
    network = clusters(2, 1, "line", **properties)
    with record.claim() as private, emulate(network, machine, private, tmp_path / "log", lambda *_: None) as running:
        plan = running.plan
        with contextlib.closing(udp(plan, "h1")) as sender, contextlib.closing(udp(plan, "h2")) as receiver:
            before = total(plan)
            for number in range(2000):
                sender.sendto(bytes(500), (network.addresses["h2"], PORT))
                if number % 20 == 0:
                    time.sleep(0.001)
            arrived = drain(receiver)
            dropped = total(plan) - before
    assert arrived + dropped.loss + dropped.queue + dropped.overrun == 2000
    assert all(getattr(dropped, cause) > 0 for cause in causes)


def test_a_port_holds_a_burst_until_the_switch_reads_it(machine, tmp_path):
    """Two thousand packets of a kilobyte at once; with the kernel's buffer a port holds some ninety."""
    if machine.kernel_datapath:
        pytest.skip("the switches of this machine have no packet sockets")
    network = lan(2)
    with record.claim() as private, emulate(network, machine, private, tmp_path / "log", lambda *_: None) as running:
        plan = running.plan
        interfaces = {end.interface for link in network.links for end in plan.ends(link) if not end.namespace}
        assert vswitch.widen(interfaces) == len(interfaces) == 2
        with contextlib.closing(udp(plan, "h1")) as sender, contextlib.closing(udp(plan, "h2")) as receiver:
            for _ in range(2000):
                sender.sendto(bytes(1024), (network.addresses["h2"], PORT))
            assert drain(receiver) == 2000
        assert total(plan) == Drops()


def test_full_queues_of_a_switch_drop_and_count_also_where_packets_are_large(machine, tmp_path):
    """Two queues of a hundred packets of a kilobyte each; with the kernel's buffer the socket that sends holds ninety for both."""
    network = clusters(3, 1, "star")
    with record.claim() as private, emulate(network, machine, private, tmp_path / "log", lambda *_: None) as running:
        plan = running.plan
        before = total(plan)
        with contextlib.closing(udp(plan, "h1")) as sender, ExitStack() as stack:
            receivers = [stack.enter_context(contextlib.closing(udp(plan, host))) for host in ("h2", "h3")]
            for _ in range(300):
                for host in ("h2", "h3"):
                    sender.sendto(bytes(1024), (network.addresses[host], PORT))
            arrived = sum(map(drain, receivers))
        dropped = total(plan) - before
    assert dropped.queue > 0
    assert arrived + dropped.loss + dropped.queue + dropped.overrun == 600
