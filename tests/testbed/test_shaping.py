"""What is asked of the kernel for a link, and that a link which is not as asked for stops the run."""

import contextlib
import secrets
import socket
import subprocess
from pathlib import Path

import pytest

from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network import shell
from testbed.network.plan import End
from testbed.network.shaping import ON_THE_WAY, loss_program, needs_netem, orders, threshold, verify
from topologies import Cost, Link, clusters

ETHERTYPE = 0x88B5  # set aside for experiments
SO_RCVBUFFORCE = 33
END = End("s1", "abcd-s1e1")
TBF = {"kind": "tbf", "root": True, "options": {"rate": 1250000}}
PFIFO = {"kind": "pfifo_head_drop", "options": {"limit": 100}}
NETEM = {"kind": "netem", "options": {"limit": ON_THE_WAY, "delay": {"delay": 0.02, "jitter": 0.001}}}
UNRULY = {"kind": "netem", "options": {**NETEM["options"], "duplicate": {"duplicate": 0.01}, "reorder": {"reorder": 0.05}}}


def link(**properties):
    return Link("s1", "s2", Cost.EXPENSIVE, **properties)


def test_an_unshaped_link_asks_for_nothing():
    assert list(orders(link(), "x")) == []


def test_bandwidth_is_a_bucket_with_a_queue_below():
    bucket, queue = orders(link(bandwidth_mbit=10, queue_packets=50), "x")
    assert "root handle 1: tbf rate 10000000bit" in bucket
    assert queue == "qdisc add dev x parent 1:1 handle 11: pfifo_head_drop limit 50"


def test_what_is_delayed_is_not_in_the_queue():
    (netem,) = orders(link(delay_ms=20, jitter_ms=1), "x")
    assert netem == f"qdisc add dev x root handle 10: netem limit {ON_THE_WAY} delay 20000us 1000us"
    _, netem, queue = orders(link(bandwidth_mbit=10, delay_ms=20, reorder=0.05), "x")
    assert netem == f"qdisc add dev x parent 1:1 handle 10: netem limit {ON_THE_WAY} delay 20000us 0us reorder 5.0%"
    assert queue == "qdisc add dev x parent 10:1 handle 11: pfifo_head_drop limit 100"


def test_duplicates_are_counted_behind_the_loss():
    netem, _, loss, count = orders(link(duplicate=1 / 3, loss=0.5), "x")
    assert netem == f"qdisc add dev x root handle 10: netem limit {ON_THE_WAY} duplicate 33.3333%"
    assert "prio 1 bpf da" in loss
    assert count == "filter add dev x egress prio 2 bpf bytecode '1,6 0 0 4294967295' action ok"


def test_without_delay_there_is_nothing_to_overtake():
    assert list(orders(link(reorder=0.5), "x")) == []


def test_loss_is_a_filter_of_its_own():
    *_, qdisc, filter_ = orders(link(loss=0.25), "x")
    assert qdisc == "qdisc add dev x clsact"
    assert f"53 0 1 {2**30}," in filter_


def test_total_loss_drops_without_asking_chance():
    assert loss_program(1.0) == "1,6 0 0 4"


def test_links_with_delay_need_netem():
    assert needs_netem(clusters(2, 1, "line")) == []
    assert needs_netem(clusters(2, 1, "line", delay_ms=5)) == ["s1-s2"]
    assert needs_netem(clusters(2, 1, "line", duplicate=0.1)) == ["s1-s2"]


@pytest.mark.parametrize(
    ("asked", "seen", "loss"),
    [
        (link(bandwidth_mbit=10), [TBF, PFIFO], 0),
        (link(delay_ms=20, jitter_ms=1), [NETEM], 0),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01, reorder=0.05), [UNRULY], 0),
        (link(duplicate=0.01, reorder=0.05, delay_ms=20, jitter_ms=1, bandwidth_mbit=10), [TBF, UNRULY, PFIFO], 0),
        (link(loss=0.1), [PFIFO], threshold(0.1)),
        (link(loss=1), [PFIFO], 2**32),
    ],
)
def test_what_was_asked_for_is_accepted(asked, seen, loss):
    verify(asked, END, seen, loss)


@pytest.mark.parametrize(
    ("asked", "seen", "loss", "what"),
    [
        (link(bandwidth_mbit=10), [], 0, "bandwidth"),
        (link(bandwidth_mbit=20), [TBF, PFIFO], 0, "bandwidth"),
        (link(bandwidth_mbit=10, queue_packets=7), [TBF, PFIFO], 0, "queue"),
        (link(delay_ms=20, jitter_ms=1), [PFIFO], 0, "delay"),
        (link(delay_ms=20, jitter_ms=5), [NETEM], 0, "jitter"),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01), [NETEM], 0, "duplicates"),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01), [UNRULY], 0, "overtaking"),
        (link(delay_ms=20, jitter_ms=1, bandwidth_mbit=10), [TBF, NETEM], 0, "queue"),
        (link(loss=0.1), [PFIFO], 0, "loss"),
        (link(loss=0.1), [PFIFO], threshold(0.2), "loss"),
        (link(), [TBF, PFIFO], 0, "bandwidth"),
    ],
)
def test_anything_else_stops_the_run(asked, seen, loss, what):
    with pytest.raises(CannotRun, match=f"s1-s2, leaving s1: the kernel shows {what}"):
        verify(asked, END, seen, loss)


@pytest.fixture
def wire():
    """A veth pair in a namespace of its own, and a raw socket at each end."""
    name = f"castbed-{secrets.token_hex(3)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    shell.ip(["link add near type veth peer name far", "link set near up", "link set far up"], name)
    with inside(Path("/run/netns", name)):
        ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) for _ in range(2)]
        for end, interface in zip(ends, ("near", "far"), strict=True):
            end.bind((interface, ETHERTYPE))
            end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
    yield name, *ends
    for end in ends:
        end.close()
    subprocess.run(["ip", "netns", "del", name], check=True)


def arrivals(sender, receiver, count):
    """How many of `count` frames arrive. The kernel delivers them before `send` returns, unless it is busy."""
    frame = b"\xff" * 6 + b"\x02" * 6 + ETHERTYPE.to_bytes(2) + bytes(46)
    for _ in range(count):
        sender.send(frame)  # must not fail: who is told of a drop may send again
    arrived = 0
    receiver.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        while receiver.recv(2000):
            arrived += 1
    return arrived


@pytest.mark.root
def test_the_loss_filter_drops_its_share_and_restores_to_none(wire):
    """20 % of 5,000 packets, within four standard deviations, one way only; and none after it is removed."""
    namespace, near, far = wire
    shell.tc([order for order in orders(link(loss=0.2), "near") if "pfifo" not in order], namespace)
    assert abs(arrivals(near, far, 5000) - 4000) < 4 * (5000 * 0.2 * 0.8) ** 0.5
    assert arrivals(far, near, 1000) == 1000
    shell.tc(["filter del dev near egress"], namespace)
    assert arrivals(near, far, 1000) == 1000
