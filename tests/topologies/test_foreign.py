"""Networks that were written for Mininet and for containerlab are networks of ours."""

import pytest

from topologies import NetworkError, find
from topologies.network import Cost

TOPO = """
from mininet.topo import Topo

class Offices(Topo):
    def build(self, hosts=2, far="20ms"):
        switches = [self.addSwitch(f"s{n}") for n in (1, 2, 3)]
        for number, switch in enumerate(switches):
            for place in range(hosts):
                self.addLink(self.addHost(f"h{number * hosts + place + 1}"), switch)
        self.addLink(switches[0], switches[1], bw=10, delay=far, loss=1, max_queue_size=50)
        self.addLink(switches[1], switches[2], cost="cheap")
"""
CLAB = """
name: offices
topology:
  nodes:
    leaf1: {kind: nokia_srlinux}
    leaf2: {kind: nokia_srlinux}
    router: {kind: linux}
    client1: {kind: linux}
    client2: {kind: linux}
  links:
    - endpoints: ["client1:eth1", "leaf1:e1-1"]
    - endpoints: [{node: client2, interface: eth1}, {node: leaf2, interface: e1-1}]
    - endpoints: ["leaf1:e1-2", "router:eth1"]
      labels: {delay: 20ms, bandwidth: 10mbit, colour: red}
    - endpoints: ["router:eth2", "leaf2:e1-2"]
"""


@pytest.fixture
def topo(tmp_path):
    pytest.importorskip("mininet.topo")
    path = tmp_path / "offices.py"
    path.write_text(TOPO)
    return path


def test_a_topo_of_mininet_keeps_its_links_and_their_limits(topo):
    network = find(f"{topo}:hosts=1")
    assert (network.name, network.hosts, network.switches) == ("Offices", ("h1", "h2", "h3"), ("s1", "s2", "s3"))
    far, near = network.link("s1", "s2"), network.link("s2", "s3")
    assert (far.cost, far.bandwidth_mbit, far.delay_ms, far.loss, far.queue_packets) == (Cost.EXPENSIVE, 10.0, 20.0, 0.01, 50)
    assert (near.cost, near.delay_ms) == (Cost.CHEAP, 0.0)
    assert len(find(f"{topo}:far=5ms").clusters) == 2


def test_one_of_several_is_chosen_by_name(topo):
    topo.write_text(TOPO + "\ntopos = {'small': lambda: Offices(hosts=1), 'large': lambda: Offices(hosts=3)}\n")
    assert len(find(f"{topo}:topo=large").hosts) == 9
    with pytest.raises(NetworkError, match=r"choose one of its topologies with .*:topo=NAME; there are: small, large"):
        find(str(topo))


def test_a_lab_of_containerlab_has_clients_as_hosts_and_all_else_as_switches(tmp_path):
    path = tmp_path / "offices.clab.yml"
    path.write_text(CLAB)
    network = find(str(path))
    assert (network.name, network.hosts) == ("offices", ("client1", "client2"))
    assert network.switches == ("leaf1", "leaf2", "router")
    link = network.link("leaf1", "router")
    assert (link.expensive, link.delay_ms, link.bandwidth_mbit) == (True, 20.0, 10.0)
    assert not network.link("client1", "leaf1").expensive


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.yml", "topology: [", "is not YAML"),
        ("a.yml", "name: x", "is not a topology of containerlab"),
        ("a.yml", "[1, 2]", "is not a topology of containerlab"),
        ("a.yml", CLAB.replace("20ms", "soon"), "'soon' is not a time"),
        ("a.yml", CLAB.replace("leaf1:e1-2", "nobody:e1-2"), "nobody"),
        ("a.py", "1 / 0", "fails: ZeroDivisionError"),
        ("a.py", "x = 1", "there are: none"),
        ("a.py", "import sys; sys.exit(0)", "fails: SystemExit"),
    ],
)
def test_what_is_wrong_is_a_sentence(name, text, sentence, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(NetworkError, match=sentence):
        find(str(path))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(NetworkError, match="there is no such file"):
        find(str(tmp_path / "none.yml"))
