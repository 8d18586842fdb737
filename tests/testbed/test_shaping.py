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
from testbed.network.shaping import (
    ON_THE_WAY,
    UNLIMITED_BIT,
    commands,
    drops_at,
    first_commands,
    loss_program,
    needs_netem,
    reshape,
    threshold,
    verify,
)
from topologies import Cost, Link, clusters

ETHERTYPE = 0x88B5  # set aside for experiments
SO_RCVBUFFORCE = 33
END = End("s1", "abcd-s1e1")
TBF = {"kind": "tbf", "root": True, "options": {"rate": 1250000}}
UNLIMITED = {"kind": "tbf", "root": True, "options": {"rate": UNLIMITED_BIT // 8}}
PFIFO = {"kind": "pfifo_head_drop", "options": {"limit": 100}}
NETEM = {"kind": "netem", "options": {"limit": ON_THE_WAY, "delay": {"delay": 0.02, "jitter": 0.001}}}
UNRULY = {"kind": "netem", "options": {**NETEM["options"], "duplicate": {"duplicate": 0.01}, "reorder": {"reorder": 0.05}}}


def link(**properties):
    return Link("s1", "s2", Cost.EXPENSIVE, **properties)


def test_bandwidth_is_a_bucket_with_a_queue_below():
    bucket, queue, *_ = commands(link(bandwidth_mbit=10, queue_packets=50), "x")
    assert "root handle 1: tbf rate 10000000bit" in bucket
    assert queue == "qdisc replace dev x parent 1:1 handle 12: pfifo_head_drop limit 50"


def test_what_is_delayed_is_not_in_the_queue():
    _, netem, queue, *_ = commands(link(bandwidth_mbit=10, delay_ms=20, jitter_ms=1, reorder=0.05), "x")
    assert netem == f"qdisc replace dev x parent 1:1 handle 10: netem limit {ON_THE_WAY} delay 20000us 1000us reorder 5.0%"
    assert queue == "qdisc replace dev x parent 10:1 handle 11: pfifo_head_drop limit 100"


def test_duplicates_are_counted_behind_the_loss():
    _, netem, _, _, loss, count = first_commands(link(duplicate=1 / 3, loss=0.5), "x")
    assert netem == f"qdisc replace dev x parent 1:1 handle 10: netem limit {ON_THE_WAY} duplicate 33.3333% reorder 0%"
    assert "prio 1 handle 1 bpf da" in loss
    assert count == "filter add dev x egress prio 2 bpf bytecode '1,6 0 0 4294967295' action ok"


def test_without_delay_there_is_nothing_to_overtake():
    assert not any("netem" in command for command in commands(link(reorder=0.5), "x"))


def test_loss_is_a_filter_of_its_own():
    *_, qdisc, filter_ = commands(link(loss=0.25), "x")
    assert qdisc == "qdisc replace dev x clsact"
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
        (link(delay_ms=20, jitter_ms=1), [UNLIMITED, NETEM, PFIFO], 0),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01, reorder=0.05), [UNLIMITED, UNRULY, PFIFO], 0),
        (link(duplicate=0.01, reorder=0.05, delay_ms=20, jitter_ms=1, bandwidth_mbit=10), [TBF, UNRULY, PFIFO], 0),
        (link(loss=0.1), [UNLIMITED, PFIFO], threshold(0.1)),
        (link(loss=1), [UNLIMITED, PFIFO], 2**32),
        (link(), [], 0),
        (link(), [UNLIMITED, PFIFO], 0),
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
        (link(delay_ms=20, jitter_ms=1), [UNLIMITED, PFIFO], 0, "delay"),
        (link(delay_ms=20, jitter_ms=5), [UNLIMITED, NETEM, PFIFO], 0, "jitter"),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01), [UNLIMITED, NETEM, PFIFO], 0, "duplicates"),
        (link(delay_ms=20, jitter_ms=1, duplicate=0.01), [UNLIMITED, UNRULY, PFIFO], 0, "reordering"),
        (link(delay_ms=20, jitter_ms=1, bandwidth_mbit=10), [TBF, NETEM], 0, "queue"),
        (link(loss=0.1), [UNLIMITED, PFIFO], 0, "loss"),
        (link(loss=0.1), [UNLIMITED, PFIFO], threshold(0.2), "loss"),
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
    silent = [f"link set {end} addrgenmode none" for end in ("near", "far")] if Path("/proc/sys/net/ipv6").exists() else []
    shell.ip(["link add near type veth peer name far", *silent, "link set near up", "link set far up"], name)
    with inside(Path("/run/netns", name)):
        ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) for _ in range(2)]
        for end, interface in zip(ends, ("near", "far"), strict=True):
            end.bind((interface, ETHERTYPE))
            end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
    yield name, *ends
    for end in ends:
        end.close()
    subprocess.run(["ip", "netns", "del", name], check=True)


def send(sender, count, size=46):
    for _ in range(count):
        # Must not fail: who is told of a drop may send again.
        sender.send(b"\xff" * 6 + b"\x02" * 6 + ETHERTYPE.to_bytes(2) + bytes(size))


def arrived(receiver, quiet_s=1.0):
    """How many frames arrive until none has for a while."""
    count = 0
    receiver.settimeout(quiet_s)
    with contextlib.suppress(TimeoutError):
        while receiver.recv(2000):
            count += 1
    return count


def arrivals(sender, receiver, count):
    """How many of `count` frames arrive. The kernel delivers them before `send` returns, unless it is busy."""
    send(sender, count)
    return arrived(receiver)


@pytest.mark.root
def test_the_loss_filter_drops_its_share_and_restores_to_none(wire):
    """20 % of 5,000 packets, within four standard deviations, one way only; and none after it is removed."""
    namespace, near, far = wire
    shell.tc(list(commands(link(loss=0.2), "near")), namespace)
    assert abs(arrivals(near, far, 5000) - 4000) < 4 * (5000 * 0.2 * 0.8) ** 0.5
    assert arrivals(far, near, 1000) == 1000
    reshape(link(), End("s1", "near", namespace))
    assert arrivals(near, far, 1000) == 1000


NARROW = link(bandwidth_mbit=0.06)


@pytest.mark.root
@pytest.mark.parametrize(
    "change", [link(bandwidth_mbit=10), link(bandwidth_mbit=10, queue_packets=20), link(bandwidth_mbit=10, loss=0.5), link()]
)
def test_what_waits_in_a_queue_when_its_link_changes_arrives_or_is_counted(wire, change):
    """Thirty frames fit the bucket of a link of 60 kbit/s, a hundred wait, and twenty find the queue full. Then the link is changed."""
    namespace, near, far = wire
    end = End("s1", "near", namespace)
    reshape(NARROW, end)
    send(near, 150, size=486)
    full = drops_at([end])[end]
    assert full.queue > 0
    reshape(change, end)
    assert arrived(far) == 150 - full.queue
    send(near, 1000)
    later = arrived(far)
    dropped = drops_at([end])[end] - full
    assert later + dropped.loss + dropped.queue == 1000
    assert (dropped.loss > 0) == (change.loss > 0)


@pytest.fixture
def netem(machine):
    if not machine.netem:
        pytest.skip("this kernel has no netem: ./castbed vm test tests/testbed/test_shaping.py")


@pytest.mark.root
@pytest.mark.usefixtures("netem")
def test_delays_that_come_change_and_go_lose_nothing_uncounted(wire):
    """Netem is put in place under load, changed and taken away; what waits below the bucket when that is exchanged counts as dropped."""
    namespace, near, far = wire
    end = End("s1", "near", namespace)
    changes = [{}, {"delay_ms": 200.0}, {"delay_ms": 300.0, "jitter_ms": 5.0, "reorder": 0.1}, {"delay_ms": 100.0}, {}]
    for number, change in enumerate(changes):
        assert reshape(link(bandwidth_mbit=0.02, **change), end) == (number == 0)
        send(near, 50, size=486)
    reshape(link(), end)
    count = arrived(far)
    drops = drops_at([end])[end]
    assert drops.queue > 0
    assert (count + drops.queue, drops.loss) == (50 * len(changes), 0)


@pytest.mark.root
def test_a_queue_that_is_shortened_and_lengthened_under_load_loses_nothing_uncounted(wire):
    namespace, near, far = wire
    end = End("s1", "near", namespace)
    for number in range(10):
        reshape(link(bandwidth_mbit=1 + number, queue_packets=20 if number % 2 else 50), end)
        send(near, 150, size=486)
    reshape(link(bandwidth_mbit=100), end)
    drops = drops_at([end])[end]
    assert drops.queue > 0
    assert (arrived(far) + drops.queue, drops.loss) == (1500, 0)
