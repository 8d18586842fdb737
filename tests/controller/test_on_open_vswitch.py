"""The controller with real switches and real packets."""

import pytest

from controller.routes import every_port, routes
from hostagent.contract.wire import COST_DSCP, COST_TOS
from tests.controller.conftest import run
from topologies.builders import clusters, grid
from topologies.network import Link, Network
from topologies.paths import group_tree

pytestmark = pytest.mark.root

LANS = clusters(2, 2, "line")
"""h1 and h2 at s1, h3 and h4 at s2, an expensive link in between."""

RING = Network(
    "ring",
    ("h1", "h2", "h3"),
    ("s1", "s2", "s3"),
    (Link("h1", "s1"), Link("h2", "s2"), Link("h3", "s3"), Link("s1", "s2"), Link("s2", "s3"), Link("s3", "s1")),
)


@pytest.fixture
def start(build, start_controller):
    """Build a network and have a controller take it over."""

    def start(network, **options):
        bench, controller = build(network), start_controller(network, **options)
        bench.connect(controller)
        controller.wait_for("switch_ready", len(network.switches))
        return bench, controller

    return start


def in_words(network, switch, down=frozenset(), groups=None):
    """The flows of a switch as Open vSwitch should print them."""
    words = {"priority=0 actions=drop", "priority=2,arp,arp_op=1 actions=CONTROLLER:65535"}
    for flow in routes(network, every_port(network) - down, groups=groups).at(switch):
        cheap, expensive = ([f"output:{number}" for number in ports] for ports in (flow.cheap, flow.expensive))
        mark = [f"set_field:{COST_DSCP}->ip_dscp"] if expensive else []
        words.add(f"priority=1,ip,nw_dst={flow.address} actions={','.join([*cheap, *mark, *expensive])}")
    return words


def port(network, switch, neighbour):
    return switch, network.ports[switch][neighbour]


def test_every_switch_gets_its_flows(start):
    bench, controller = start(LANS)
    assert [bench.flows(switch) for switch in LANS.switches] == [in_words(LANS, switch) for switch in LANS.switches]
    assert {(event["switch"], event["flows"]) for event in controller.events("switch_ready")} == {("s1", 4), ("s2", 4)}
    assert controller.end() == (0, "")


def test_packets_that_crossed_an_expensive_link_are_marked_and_others_are_not(start):
    bench, _ = start(LANS)
    assert bench.send("h1", "h2") == ["hello", "0", LANS.addresses["h1"]]
    assert bench.send("h1", "h3") == ["hello", str(COST_TOS), LANS.addresses["h1"]]


def test_nothing_is_flooded(start):
    bench, _ = start(LANS)
    bench.inside("h1", "ping", "-b", "-c", "1", "-W", "0.1", "10.255.255.255", check=False)
    bench.inside("h1", "ping", "-c", "1", "-W", "0.1", "10.0.0.99", check=False)
    bench.send("h1", "h3")
    received = bench.inside("h3", "cat", f"/sys/class/net/{bench.bridge('h3')}/statistics/rx_packets")
    assert int(received) == 1, "more than the datagram arrived"


def test_a_broken_link_is_routed_around_and_used_again_once_repaired(start):
    bench, controller = start(RING)
    bench.set_link("s1", "s2", "down")
    controller.wait_for("rerouted", 2, cause="port_down")
    down = {port(RING, "s1", "s2"), port(RING, "s2", "s1")}
    assert [bench.flows(switch) for switch in RING.switches] == [in_words(RING, switch, down) for switch in RING.switches]
    assert bench.send("h1", "h2")[0] == "hello"
    bench.set_link("s1", "s2", "up")
    controller.wait_for("rerouted", 2, cause="port_up")
    assert [bench.flows(switch) for switch in RING.switches] == [in_words(RING, switch) for switch in RING.switches]


def test_the_log_tells_which_ports_changed_and_how_long_the_new_routes_took(start):
    bench, controller = start(RING)
    bench.set_link("s1", "s2", "down")
    other_end, first_end = sorted(controller.wait_for("rerouted", 2), key=lambda event: event["flows_changed"])
    assert (first_end["flows_changed"], first_end["switches"]) == (2, 2), "h2 from s1 and h1 from s2 go over s3 now"
    assert (other_end["flows_changed"], other_end["switches"]) == (0, 0), "the link was lost already"
    assert 0 < first_end["took_ms"] < 1000
    told = {(event["switch"], event["port"], event["neighbour"]) for event in controller.events("port_down")}
    assert told == {(*port(RING, "s1", "s2"), "s2"), (*port(RING, "s2", "s1"), "s1")}


def test_a_host_that_goes_is_forgotten_and_found_again(start):
    bench, controller = start(LANS)
    bench.set_link("s2", "h4", "down")
    controller.wait_for("rerouted", cause="port_down", flows_changed=2)
    gone = {port(LANS, "s2", "h4")}
    assert [bench.flows(switch) for switch in LANS.switches] == [in_words(LANS, switch, gone) for switch in LANS.switches]
    bench.set_link("s2", "h4", "up")
    controller.wait_for("rerouted", cause="port_up", flows_changed=2)
    assert bench.send("h1", "h4") == ["hello", str(COST_TOS), LANS.addresses["h1"]]


def test_ports_that_are_down_or_missing_at_first_are_not_used(build, start_controller):
    bench, controller = build(RING), start_controller(RING)
    bench.set_link("s1", "s2", "down")
    run("ovs-vsctl", "del-port", bench.interface("s3", "h3"))
    bench.connect(controller)
    controller.wait_for("switch_ready", 3)
    controller.wait_for("rerouted", 3, cause="switch_connected")
    down = {port(RING, "s1", "s2"), port(RING, "s2", "s1"), port(RING, "s3", "h3")}
    assert [bench.flows(switch) for switch in RING.switches] == [in_words(RING, switch, down) for switch in RING.switches]


def test_a_deleted_port_counts_as_down(start):
    bench, controller = start(RING)
    run("ovs-vsctl", "del-port", bench.interface("s1", "s2"))
    controller.wait_for("rerouted", cause="port_down", flows_changed=2)
    assert bench.send("h1", "h2")[0] == "hello"


def test_a_switch_that_comes_back_gets_its_flows_afresh(start):
    bench, controller = start(LANS)
    bench.disconnect("s1")
    controller.wait_for("switch_lost", switch="s1")
    cookie = "cookie=0xcb17,priority=9,ip,nw_dst=10.0.0.9"
    run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", bench.bridge("s1"), f"{cookie},actions=drop")
    run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", bench.bridge("s1"), "priority=9,ip,nw_dst=10.0.0.8,actions=drop")
    bench.connect(controller, "s1")
    controller.wait_for("switch_ready", 2, switch="s1")
    by_hand = {"priority=9,ip,nw_dst=10.0.0.8 actions=drop"}
    assert bench.flows("s1") == in_words(LANS, "s1") | by_hand


def test_a_change_while_a_switch_is_away_reaches_it_when_it_comes_back(start):
    bench, controller = start(RING)
    bench.disconnect("s1")
    controller.wait_for("switch_lost", switch="s1")
    bench.set_link("s2", "s1", "down")
    controller.wait_for("rerouted", cause="port_down", switch="s2")
    bench.connect(controller, "s1")
    controller.wait_for("switch_ready", 2, switch="s1")
    assert bench.flows("s1") == in_words(RING, "s1", {port(RING, "s1", "s2")})


def test_an_exception_in_a_handler_ends_the_controller_loudly(build, start_controller):
    bench, controller = build(LANS), start_controller(LANS)
    run("ovs-vsctl", "set", "bridge", bench.bridge("s2"), f"other-config:datapath-id={9:016x}")
    bench.connect(controller, "s2")
    code, said = controller.ended()
    sentence = "a switch with datapath identifier 9 connected; the network has 1 to 2"
    assert code == 1
    assert said.startswith(f"The controller ends: {sentence}\nTraceback")
    assert [event["reason"] for event in controller.events("failed")] == [sentence]


def test_two_switches_that_claim_to_be_the_same_end_the_controller(start):
    bench, controller = start(LANS)
    run("ovs-vsctl", "set", "bridge", bench.bridge("s2"), f"other-config:datapath-id={1:016x}")
    code, said = controller.ended()
    assert (code, "both have the datapath identifier of s1" in said) == (1, True)


def test_a_switch_that_refuses_a_flow_ends_the_controller_loudly(build, start_controller):
    bench, controller = build(LANS), start_controller(LANS)
    full = ("create", "Flow_Table", "flow_limit=2", "overflow_policy=refuse")
    run("ovs-vsctl", "--id=@full", *full, "--", "set", "bridge", bench.bridge("s1"), "flow_tables:0=@full")
    bench.connect(controller, "s1")
    code, said = controller.ended()
    assert code == 1
    assert said.startswith("The controller ends: switch s1: the switch refused a message: OFPET_FLOW_MOD_FAILED")
    assert "OFPFMFC_TABLE_FULL" in said
    assert "Traceback" in said


GRID = grid(2, 2, 2)
"""h1 and h2 at s1, and so on; every link between switches is expensive, and they form a ring."""
EVERYBODY = {0: GRID.hosts}


def test_a_packet_for_a_group_reaches_its_members_once_and_exactly_the_copies_over_expensive_links_are_marked(start):
    groups = EVERYBODY | {1: ("h2", "h3", "h8")}
    bench, _ = start(GRID, groups=groups)
    assert [bench.flows(switch) for switch in GRID.switches] == [
        in_words(GRID, switch, groups=groups) for switch in GRID.switches
    ]
    far = [str(COST_TOS)]
    assert bench.multicast("h1", 0) == {"h2": ["0"], **dict.fromkeys(("h3", "h4", "h5", "h6", "h7", "h8"), far)}
    assert bench.multicast("h1", 1) == {"h2": ["0"], "h3": far, "h8": far}
    assert bench.multicast("h3", 1) == {"h2": far, "h8": far}


MUTATIONS = {
    "marks before the copies for cheap ports leave": """
from controller import openflow
def marks_all(datapath, flow):
    parser = datapath.ofproto_parser
    mark = [parser.OFPActionSetField(ip_dscp=openflow.COST_DSCP)] if flow.expensive else []
    outputs = [parser.OFPActionOutput(port) for port in (*flow.cheap, *flow.expensive)]
    return openflow._add(datapath, openflow.ADDRESS_PRIORITY, openflow._match(datapath, flow), [*mark, *outputs])
openflow._add_flow = marks_all
""",
    "writes actions instead of applying them": """
from controller import openflow
def writes(datapath, priority, match, actions):
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    write = [parser.OFPInstructionActions(ofproto.OFPIT_WRITE_ACTIONS, actions)] if actions else []
    return parser.OFPFlowMod(datapath, cookie=openflow.COOKIE, priority=priority, match=match, instructions=write)
openflow._add = writes
""",
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_controller_that_marks_or_copies_wrongly_is_caught(start, mutation):
    bench, _ = start(LANS, groups={0: LANS.hosts}, mutation=MUTATIONS[mutation])
    assert bench.multicast("h1", 0) != {"h2": ["0"], "h3": [str(COST_TOS)], "h4": [str(COST_TOS)]}


def test_the_tree_of_a_group_is_repaired_around_a_broken_link(start):
    bench, controller = start(GRID, groups=EVERYBODY)
    tree = {frozenset((switch, node)) for switch, nodes in group_tree(GRID, GRID.hosts).items() for node in nodes}
    broken = next(link for link in GRID.links if link.expensive and frozenset((link.a, link.b)) in tree)
    bench.set_link(broken.a, broken.b, "down")
    controller.wait_for("rerouted", 2, cause="port_down")
    assert {host: len(copies) for host, copies in bench.multicast("h1", 0).items()} == dict.fromkeys(GRID.hosts[1:], 1)


def test_hosts_that_join_and_leave_a_group_get_its_packets_from_then_on_or_no_more(start):
    bench, controller = start(LANS, groups={1: ("h2", "h3")})
    controller.regroup({1: ("h2", "h4"), 2: ("h1", "h3")})
    assert bench.multicast("h1", 1) == {"h2": ["0"], "h4": [str(COST_TOS)]}
    assert bench.multicast("h4", 2) == {"h1": [str(COST_TOS)], "h3": ["0"]}
    controller.regroup({2: ("h1", "h3")})
    assert bench.multicast("h1", 1) == {}
