"""The network is a Mininet network: its objects and its command line work on what was made in batches."""

import contextlib
import io
import json
import socket
import subprocess
from pathlib import Path

import pytest
from mininet import log as mininet_log
from mininet.cli import CLI

from hostagent.contract.wire import PORT
from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network import record, shell, vswitch
from testbed.network.emulation import emulate
from testbed.network.shaping import is_shaped, loss_program, read_back
from tests.hostagent.conftest import until
from topologies import clusters, grid
from topologies.network import group_address

pytestmark = pytest.mark.root

ALPHA = 1


@pytest.fixture(scope="module")
def emulation(machine, tmp_path_factory):
    log = tmp_path_factory.mktemp("mininet") / "controller.jsonl"
    network = grid(2, 2, 1)
    with record.claim() as private, emulate(network, machine, private, log, lambda *_: None, {ALPHA: ("h1", "h2")}) as running:
        yield running


def typed(net, line):
    """What Mininet's command line answers."""
    answers = io.StringIO()
    with contextlib.redirect_stdout(answers):
        cli = object.__new__(CLI)
        cli.mn, cli.locals, cli.stdout = net, {"net": net}, answers
        handler = mininet_log.lg.handlers[0]
        handler.stream, before = answers, handler.stream
        try:
            cli.onecmd(line)
        finally:
            handler.stream = before
    return answers.getvalue()


def rerouted(cause):
    """Whether the controller has changed flows because of this."""
    return lambda events: any(event.get("cause") == cause and event["flows_changed"] for event in events) or None


def test_nodes_links_and_net_are_listed(emulation):
    assert "h1 h2 h3 h4 s1 s2 s3 s4" in typed(emulation.net, "nodes")
    assert typed(emulation.net, "links").count("(OK OK)") == 8
    assert "h1-eth0" in typed(emulation.net, "net")


HANDSHAKE = """
import socket, sys
hello = bytes.fromhex("63 00 0008 00000000")
with socket.socket(socket.AF_UNIX) as stranger:
    stranger.connect(sys.argv[1])
    stranger.sendall(hello)
"""


def test_no_other_user_of_the_machine_can_connect_to_the_controller_of_a_run(emulation):
    """One message of an OpenFlow version that does not exist would end it."""
    path = vswitch.run_directory() / emulation.plan.controller_socket
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", HANDSHAKE, str(path)]
    done = subprocess.run(nobody, capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr, done
    assert path.is_socket()
    assert path.stat().st_mode & 0o077 == 0
    assert listening_ports(emulation.controller.process_number) == []
    emulation.controller.notice()
    assert emulation.controller.deaths == []


def listening_ports(process):
    """The TCP ports, in hexadecimal, on which a process listens."""
    links = [str(link.readlink()) for link in Path("/proc", str(process), "fd").iterdir()]
    rows = [line.split() for line in Path("/proc", str(process), "net/tcp").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]


def test_a_host_runs_commands_in_its_own_namespace(emulation):
    host = emulation.net["h1"]
    assert host.IP() == "10.0.0.1"
    assert "10.0.0.1/8" in host.cmd("ip -brief address show h1-eth0")
    assert ", 0% packet loss" in host.cmd(f"ping -c 1 -W 20 {emulation.net['h4'].IP()}")


@pytest.mark.parametrize(
    "foreign", [["root tbf rate 1mbit burst 10kb limit 10kb"], ["clsact", f"egress prio 1 bpf da bytecode '{loss_program(0.5)}'"]]
)
def test_what_nobody_asked_for_is_found(emulation, foreign):
    plan, link = emulation.plan, next(link for link in emulation.network.links if not is_shaped(link))
    asked = {(end.node, link.other(end.node)): link for end in plan.ends(link)}
    device = next(end.interface for end in plan.ends(link) if not end.namespace)
    qdisc, *filters = foreign
    shell.tc([f"qdisc add dev {device} {qdisc}", *(f"filter add dev {device} {each}" for each in filters)])
    try:
        with pytest.raises(CannotRun, match=r"the kernel shows (bandwidth|loss)"):
            read_back(plan, asked)
    finally:
        shell.tc([f"qdisc del dev {device} {qdisc.split()[0]}"])
    read_back(plan, asked)


def test_a_shell_is_started_when_it_is_first_used(machine, tmp_path):
    with (
        record.claim() as private,
        emulate(clusters(2, 1, "line"), machine, private, tmp_path / "log", lambda *_: None) as running,
    ):
        host = running.net["h2"]
        assert not host._started
        assert host.cmd("echo here").strip() == "here"
        assert host._started


def test_dpctl_shows_the_flows_of_the_switch(emulation):
    flows = emulation.net["s1"].dpctl("dump-flows")
    assert flows.count("nw_dst=10.0.0.") == 4


def test_pingall_reaches_everybody(emulation):
    with contextlib.redirect_stdout(io.StringIO()):
        assert emulation.net.pingAll(timeout="20") == 0.0


def members(emulation):
    """Who gets a packet that h1 sends to the group, as the hosts' kernels count it: nobody listens."""
    with inside(emulation.plan.namespace_path("h1")), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(emulation.network.addresses["h1"]))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        before = {host: unheard(emulation, host) for host in emulation.network.hosts}
        sender.sendto(b"", (group_address(ALPHA), PORT))
        # What h1 sends to a host after that comes later.
        for host in emulation.network.hosts[1:]:
            sender.sendto(b"", (emulation.network.addresses[host], PORT))
    for host in emulation.network.hosts[1:]:
        until(lambda host=host: unheard(emulation, host)["NoPorts"] > before[host]["NoPorts"])
    return [host for host in emulation.network.hosts if unheard(emulation, host)["IgnoredMulti"] > before[host]["IgnoredMulti"]]


def unheard(emulation, host):
    with inside(emulation.plan.namespace_path(host)):
        lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    names, counts = (line.split()[1:] for line in lines if line.startswith("Udp:"))
    return dict(zip(names, map(int, counts), strict=True))


def regrouped(times):
    """Whether the controller has installed new trees so many times."""
    return lambda events: sum(event.get("cause") == "groups_changed" for event in events) >= times or None


def test_the_members_of_a_group_can_be_changed_also_while_the_controller_is_down(emulation):
    """A datagram to a group that nobody at a host listens to is counted there: the books need it."""
    assert members(emulation) == ["h2"]
    emulation.set_members(ALPHA, ("h1", "h3", "h4"))
    emulation.controller.wait_for(regrouped(1))
    assert members(emulation) == ["h3", "h4"]
    emulation.controller.stop()
    emulation.set_members(ALPHA, ("h4",))
    assert members(emulation) == ["h3", "h4"]
    ready = switches_ready(emulation)
    emulation.controller.start()
    # At once: a signal that comes before the controller is ready for it must not end it.
    emulation.set_members(ALPHA, ("h1", "h2"))
    emulation.controller.wait_for(regrouped(2))
    emulation.controller.wait_for(lambda _: switches_ready(emulation) >= ready + 4 or None)
    # Open vSwitch may go by flows in its cache for half a second more.
    until(lambda: members(emulation) == ["h2"])
    emulation.controller.notice()
    assert emulation.controller.deaths == []


def switches_ready(emulation):
    return sum(event["event"] == "switch_ready" for event in emulation.controller.events())


def test_link_down_of_mininet_reroutes(emulation):
    """A grid of two by two has a way round every link."""
    typed(emulation.net, "link s1 s2 down")
    interface = emulation.plan.end("s1", "s2").interface
    state = json.loads(subprocess.check_output(["ip", "-j", "link", "show", interface]))[0]
    assert "UP" not in state["flags"]
    emulation.controller.wait_for(rerouted("port_down"))
    assert ", 0% packet loss" in emulation.net["h1"].cmd(f"ping -c 1 -W 20 {emulation.net['h2'].IP()}")
    typed(emulation.net, "link s1 s2 up")
    emulation.controller.wait_for(rerouted("port_up"))
