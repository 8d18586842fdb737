"""What a network derives from its tuples, and what it refuses to be."""

import math
import pickle
import subprocess
import sys

import pytest

from topologies import Cost, Link, Network, NetworkError, grid
from topologies.network import MOST_HOSTS, MOST_PORTS

ACCESS = (Link("h1", "s1"), Link("h2", "s2"))
TRUNK = Link("s1", "s2", Cost.EXPENSIVE)


def network(hosts=("h1", "h2"), switches=("s1", "s2"), links=(*ACCESS, TRUNK), name="n", positions=None):
    return Network(name, tuple(hosts), tuple(switches), tuple(links), positions or {})


def test_ports_addresses_and_datapaths_follow_the_order_of_the_lists():
    built = network()
    assert built.ports == {"s1": {"h1": 1, "s2": 2}, "s2": {"h2": 1, "s1": 2}}
    assert built.addresses == {"h1": "10.0.0.1", "h2": "10.0.0.2"}
    assert built.macs["h2"] == "02:00:0a:00:00:02"
    assert built.datapaths == {"s1": 1, "s2": 2}
    assert built.numbers == {"h1": 1, "h2": 2}
    assert built.access_switch("h2") == "s2"
    assert built.link("s2", "s1") is TRUNK
    assert TRUNK.other("s1") == "s2"


def test_addresses_go_past_the_last_byte():
    assert grid(1, 1, 300).addresses["h300"] == "10.0.1.44"


def test_clusters_are_the_hosts_that_cheap_links_join():
    assert network().clusters == (("h1",), ("h2",))
    assert network().lower_bound == 1
    assert network(links=(*ACCESS, Link("s1", "s2"))).clusters == (("h1", "h2"),)


def test_equal_networks_are_one_key_wherever_they_are_drawn():
    assert {network(): 1}[network(positions={"h1": (0.0, 0.0)})] == 1
    assert network() != network(name="other")


def test_a_network_sent_to_another_process_is_the_same_key_there():
    sent = network(positions={"h1": (0.0, 1.0)})
    hash(sent)
    program = (
        "import pickle, sys; sent = pickle.load(sys.stdin.buffer);"
        "from topologies import Network; again = Network(sent.name, sent.hosts, sent.switches, sent.links);"
        "assert {again: 1}[sent] == 1; assert sent.positions == {'h1': (0.0, 1.0)}"
    )
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(sent), check=True)


def test_cost_may_be_given_as_text():
    assert Link("s1", "s2", "expensive").expensive


def test_asking_for_a_link_that_is_not_there():
    with pytest.raises(NetworkError, match="network 'n' has no link between 'h1' and 's2'"):
        network().link("h1", "s2")


def test_the_largest_network_is_accepted():
    hosts = tuple(f"h{n}" for n in range(1, MOST_HOSTS + 1))
    links = [Link(host, f"s{n % 2 + 1}") for n, host in enumerate(hosts)]
    assert len(network(hosts, links=(*links, TRUNK)).clusters) == 2


def trunk(**properties):
    return {"links": (*ACCESS, Link("s1", "s2", Cost.EXPENSIVE, **properties))}


MANY = tuple(f"h{n}" for n in range(MOST_HOSTS + 1))
BROKEN = [
    ({"name": ""}, "the name must be one line of printable characters"),
    ({"name": "a\nb"}, "the name must be one line of printable characters"),
    ({"hosts": ("h-1", "h2")}, "node name 'h-1' must be 1 to 10 letters, digits or _, and start with a letter"),
    ({"hosts": ("h1", "h2", "h1")}, "node 'h1' is listed twice"),
    ({"hosts": (*MANY, MANY[-1])}, "node 'h65535' is listed twice"),
    ({"hosts": ("h1",)}, "a broadcast needs at least two hosts"),
    ({"hosts": MANY}, "65536 hosts are too many: the wire format numbers at most 65535"),
    ({"positions": {"h9": (0.0, 0.0)}}, "there is a position for 'h9', which is not a node of the network"),
    ({"positions": {"h1": (math.nan, 0.0)}}, "the position of 'h1' must be two numbers, not (nan, 0.0)"),
    ({"links": (*ACCESS, Link("s1", "s9"))}, "link s1-s9 ends at 's9', which is not a node of the network"),
    ({"links": (*ACCESS, Link("s1", "s1"))}, "link s1-s1 joins 's1' to itself"),
    ({"links": (*ACCESS, TRUNK, Link("s2", "s1"))}, "there are two links between 's2' and 's1': merge them into one"),
    ({"links": (*ACCESS, Link("s1", "s2", "dear"))}, "link s1-s2: cost must be cheap or expensive, not 'dear'"),
    (trunk(bandwidth_mbit=0), "link s1-s2: bandwidth must be between 0.001 and 32000 Mbit/s, not 0 Mbit/s"),
    (trunk(bandwidth_mbit=math.nan), "link s1-s2: bandwidth must be between 0.001 and 32000 Mbit/s, not nan Mbit/s"),
    (trunk(delay_ms=-1), "link s1-s2: delay must be zero, or between 1e-06 and 1e+09 ms, not -1 ms"),
    (trunk(delay_ms=math.inf), "link s1-s2: delay must be zero, or between 1e-06 and 1e+09 ms, not inf ms"),
    (trunk(jitter_ms=-1), "link s1-s2: jitter must be zero, or between 1e-06 and 1e+09 ms, not -1 ms"),
    (trunk(delay_ms=1, jitter_ms=2), "link s1-s2: jitter of 2 ms is more than the delay of 1 ms"),
    (trunk(loss=1.1), "link s1-s2: loss must be zero, or between 1e-09 and 1, not 1.1"),
    (trunk(duplicate=-0.1), "link s1-s2: duplicate must be zero, or between 1e-09 and 1, not -0.1"),
    (trunk(reorder=2.0), "link s1-s2: reorder must be zero, or between 1e-09 and 1, not 2.0"),
    (trunk(burst=0.5), "link s1-s2: burst must be between 1 and 1,000,000 packets, not 0.5"),
    (trunk(queue_packets=0), "link s1-s2: a queue holds between 1 and 1,000,000 packets, not 0"),
    ({"links": (ACCESS[0], TRUNK)}, "host 'h2' must have exactly one link, and to a switch"),
    ({"links": (*ACCESS, Link("h1", "s2"), TRUNK)}, "host 'h1' must have exactly one link, and to a switch"),
    ({"links": (Link("h1", "h2"), TRUNK)}, "host 'h1' must have exactly one link, and to a switch"),
    (
        {"links": (Link("h1", "s1", Cost.EXPENSIVE), ACCESS[1], TRUNK)},
        "the link of host 'h1' must be cheap: put a switch between the host and the expensive link",
    ),
    ({"links": ACCESS}, "it is not connected: there is no path between 'h1' and 'h2'"),
    (
        {"hosts": MANY[: MOST_PORTS + 1], "switches": ("s1",), "links": [Link(h, "s1") for h in MANY[: MOST_PORTS + 1]]},
        "switch 's1' has 65280 ports; Open vSwitch has at most 65279",
    ),
    (
        {"hosts": MANY[:10], "switches": ("longswitch",), "links": [Link(h, "longswitch") for h in MANY[:10]]},
        "switch 'longswitch' needs a shorter name: longswitch-eth10 is over the 15 characters of an interface",
    ),
]


@pytest.mark.parametrize(("parts", "sentence"), BROKEN, ids=[sentence[:60] for _, sentence in BROKEN])
def test_impossible_networks_are_refused_with_a_sentence(parts, sentence):
    with pytest.raises(NetworkError) as error:
        network(**parts)
    assert str(error.value) == f"network {parts.get('name', 'n')!r}: {sentence}"
