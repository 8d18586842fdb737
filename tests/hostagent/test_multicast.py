"""Agents on a network that multicasts: one datagram to a group, heard by its members and by nobody else."""

import os
import signal
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostagent.contract.messages import EVERYBODY, Purpose
from hostagent.contract.wire import COST_TOS, PORT, Codec
from hostagent.parts.delivery import Copy
from hostagent.protocols.best_effort import BestEffort
from hostagent.runtime.control import JoinRequest, LeaveRequest
from hostagent.runtime.namespace import inside
from testbed.network.memberships import held
from tests.hostagent.conftest import HOSTS, RUN
from tests.hostagent.recording import Recorder
from topologies.network import group_address

pytestmark = pytest.mark.root

RECORDING = (str(Path(__file__).with_name("recording.py")),)
ALPHA = 1
GROUPS = {ALPHA: ("h1", "h2")}


@pytest.fixture(autouse=True)
def _held(lan):
    """The testbed has the kernel of every host join every group."""
    network = SimpleNamespace(hosts=HOSTS, addresses=lan.addresses)
    with held(SimpleNamespace(network=network, namespace_path=lan.namespace), (EVERYBODY, ALPHA)):
        yield


def heard(agents):
    """How many datagrams each host has received; none may have been refused. Those that are being handled count as unread so long."""
    counted = {host: agents.counters(host) for host in HOSTS}
    refused = {name for counters in counted.values() for name in counters if name.startswith("refused")}
    assert refused <= {"refused_unread"}
    return [counted[host]["received"] for host in HOSTS]


def test_a_message_to_a_group_is_one_datagram_that_members_hear_and_the_sender_does_not(launch):
    agents = launch("best-effort", groups=GROUPS, links="none")
    agents.start(*HOSTS)
    agents.broadcast("h1", to=ALPHA)
    agents.broadcast("h3", to=ALPHA)
    agents.until(lambda: heard(agents) == [1, 2, 0])
    for host in HOSTS:
        agents.broadcast(host, to=EVERYBODY)
    agents.until(lambda: heard(agents) == [3, 4, 2])
    agents.until(lambda: [agents.counters(host)["sent"] for host in HOSTS] == [2, 1, 2])
    assert len(agents.delivered("h2")) == 5


def test_the_cost_bit_of_a_datagram_to_a_group_is_seen(launch, stranger):
    agents, sender = launch("recorder", RECORDING, groups={}), stranger(Recorder.number)
    agents.start("h1", "h2")
    for sequence, service in enumerate((0, COST_TOS), start=1):
        sender.send(EVERYBODY, sender.copy(sequence), tos=service)
    for host in ("h1", "h2"):
        agents.until(lambda host=host: len(agents.events(host, "message")) == 2)
        assert [event.details["expensive"] for event in agents.events(host, "message")] == [False, True]


def test_an_agent_hears_a_group_from_when_it_installs_a_view_with_itself_until_one_without(launch):
    agents = launch("grouped", RECORDING, groups=GROUPS)
    agents.start(*HOSTS)
    # What an agent does after a request it does with the view of that request.
    for requests, expected in (
        ((), [0, 1, 0]),
        ((("h3", JoinRequest(ALPHA)),), [0, 2, 1]),
        ((("h2", LeaveRequest(ALPHA)),), [0, 2, 2]),
    ):
        for host, request in requests:
            agents.ask(host, request)
            agents.until(lambda host=host: agents.events(host, "view"))
        agents.broadcast("h1", to=ALPHA)
        agents.until(lambda expected=expected: heard(agents) == expected)


def test_a_restarted_agent_hears_its_groups_again(launch):
    agents = launch("grouped", RECORDING, groups=GROUPS)
    agents.start(*HOSTS)
    agents.kill("h2")
    agents.start("h2", incarnation=2)
    agents.broadcast("h1", to=ALPHA)
    agents.until(lambda: heard(agents) == [0, 1, 0])


def test_a_datagram_that_comes_back_to_its_sender_is_refused_and_counted(launch, lan):
    agents = launch("best-effort", groups={}, links="none")
    agents.start("h1", "h2")
    codec = Codec(BestEffort.number, BestEffort.messages, RUN, {host: number for number, host in enumerate(HOSTS, start=1)})
    datagram = codec.encode(1, 1, Copy(EVERYBODY, "h1", 1, b""), Purpose.DATA, 0)
    with inside(lan.namespace("h3")), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as switch:
        switch.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(lan.addresses["h3"]))
        udp = struct.pack("!HHHH", PORT, PORT, 8 + len(datagram), 0) + datagram
        addresses = socket.inet_aton(lan.addresses["h1"]) + socket.inet_aton(group_address(EVERYBODY))
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0) + addresses
        switch.sendto(header + udp, (group_address(EVERYBODY), PORT))
    agents.until(lambda: agents.counters("h1") == {"refused_from_itself": 1})
    agents.until(lambda: agents.counters("h2") == {"received": 1, "delivered": 1})


def test_datagrams_to_hosts_and_to_groups_are_taken_in_the_order_in_which_they_came(launch, stranger):
    """They share a socket, so none overtakes another while the agent stands still."""
    agents, sender = launch("recorder", RECORDING, groups={}), stranger(Recorder.number)
    agents.start("h1")
    os.kill(agents.pids["h1"], signal.SIGSTOP)
    for sequence in range(1, 21):
        sender.send("h1" if sequence % 2 else EVERYBODY, sender.copy(sequence))
    os.kill(agents.pids["h1"], signal.SIGCONT)
    agents.until(lambda: len(agents.events("h1", "message")) == 20)
    assert [event.details["sequence"] for event in agents.events("h1", "message")] == list(range(1, 21))
