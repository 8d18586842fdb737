"""The network in virtual time: routes as the controller's, events in order, and a cause for whatever vanishes."""

import pytest

from controller.routes import every_port, routes
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import HEADER
from hostagent.parts.delivery import Copy
from simulator.pipe import HEADERS_BYTES
from simulator.world import MOST_HOPS, REROUTING_NS
from tests.simulator.conftest import MS
from tests.simulator.scripted import Scripted
from topologies import Cost, Link, Network, find
from topologies.paths import path

NETWORKS = (
    "grid:rows=3,cols=3,hosts=2",
    "grid:rows=2,cols=4",
    "clusters:k=5,size=2,shape=ring,switches=2",
    "clusters:k=6,size=2,shape=tree,delay=5ms",
    "clusters:k=4,size=3,shape=mesh",
    "figure-3-2:repaired=yes",
)


class Relay(Scripted):
    """Passes every message on to the next host at once."""

    def on_broadcast(self, sequence, payload):
        self.pass_on(Copy(0, self.env.host, sequence, payload))

    def on_message(self, sender, message, expensive):  # noqa: ARG002 - a core has it so
        self.env.deliver(message.origin, message.sequence, message.payload)
        self.pass_on(message)

    def pass_on(self, message):
        after = self.env.hosts.index(self.env.host) + 1
        if after < len(self.env.hosts):
            self.env.send(self.env.hosts[after], message, Purpose.DATA)


def triangle() -> Network:
    """Two hosts on a triangle of switches, with the direct way and a detour."""
    trunks = [Link("s1", "s2", Cost.EXPENSIVE), Link("s1", "s3", Cost.EXPENSIVE), Link("s3", "s2", Cost.EXPENSIVE)]
    access = [Link("h1", "s1"), Link("h2", "s2")]
    return Network("triangle", ("h1", "h2"), ("s1", "s2", "s3"), tuple(access + trunks))


def ways(world):
    """Which way each packet takes, by sender and destination."""
    seen = {}
    world.on_crossing = lambda _at, pipe, packet: seen.setdefault((packet.sender, packet.destination), []).append(
        (pipe.source, pipe.target)
    )
    return seen


@pytest.mark.parametrize("name", NETWORKS)
def test_every_pair_of_hosts_is_joined_by_the_path_and_the_cost_bit_of_the_controller(started, name):
    stage = started(name)
    network, seen = stage.world.network, ways(stage.world)
    flows = {(flow.switch, flow.address): flow for flow in routes(network, every_port(network))}
    for number, host in enumerate(network.hosts):
        # One host at a time, so that no queue overflows.
        stage.tell(host, "everybody", at_ms=number * 100)
    stage.run(100 * len(network.hosts) + 1000)
    for (sender, destination), links in seen.items():
        assert [network.link(*link).name for link in links] == [link.name for link in path(network, sender, destination)]
        ports = [flows[a, network.addresses[destination]] for a, _ in links[1:]]
        assert [(*flow.cheap, *flow.expensive) for flow in ports] == [(network.ports[a][b],) for a, b in links[1:]]
    marks = {(about["sender"], host): about["expensive"] for host in network.hosts for about in stage.details(host, "message")}
    assert marks == {
        (a, b): any(link.expensive for link in path(network, a, b)) for a in network.hosts for b in network.hosts if a != b
    }


def test_packets_take_the_old_way_until_the_routes_are_new(started):
    stage = started(network=triangle())
    seen = ways(stage.world)
    stage.world.set_link("s1", "s2", up=False)
    for at_ms in (0, REROUTING_NS / MS - 1, REROUTING_NS / MS):
        stage.tell("h1", "send h2", at_ms)
    stage.run(100)
    assert stage.received("h2") == [("h1", 3)]
    assert seen["h1", "h2"][-4:] == [("h1", "s1"), ("s1", "s3"), ("s3", "s2"), ("s2", "h2")]
    assert stage.world.vanished == {"cut": 2}


def test_a_link_that_is_back_is_used_again_when_the_routes_are_new(started):
    stage = started(network=triangle())
    seen = ways(stage.world)
    stage.world.set_link("s1", "s2", up=False)
    stage.run(100)
    stage.world.set_link("s1", "s2", up=True)
    stage.run(200)
    stage.tell("h1", "send h2")
    stage.run(300)
    assert seen["h1", "h2"] == [("h1", "s1"), ("s1", "s2"), ("s2", "h2")]


def test_without_a_controller_nothing_is_routed_anew(started):
    stage = started(network=triangle())
    stage.world.controller_alive = False
    stage.world.set_link("s1", "s2", up=False)
    stage.tell("h1", "send h2", at_ms=5000)
    stage.run(10_000)
    assert not stage.received("h2")
    assert stage.world.vanished == {"cut": 1}


def test_where_no_way_is_left_packets_vanish_for_want_of_a_route(started):
    stage = started()
    stage.world.set_link("s1", "s2", up=False)
    stage.tell("h1", "send h3", at_ms=1000)
    stage.run(2000)
    assert stage.world.vanished == {"no route": 1}


def test_a_packet_that_goes_in_circles_is_dropped(started):
    stage = started(network=triangle())
    stage.world._routes.trees["s2"].update({"s1": "s3", "s3": "s1"})
    stage.tell("h1", "send h2")
    stage.run(100)
    assert stage.world.vanished == {"no route": 1}
    assert sum(pipe.counts.carried for pipe in stage.world.pipes.values()) == MOST_HOPS + 1


def test_a_link_that_is_pulled_loses_what_is_on_it(started):
    stage = started()
    stage.tell("h1", "send h3")
    stage.run(5)
    stage.world.set_link("s1", "s2", up=False)
    stage.world.set_link("s1", "s2", up=True)
    stage.tell("h1", "send h3")
    stage.run(100)
    assert stage.received("h3") == [("h1", 2)]
    assert stage.world.vanished == {"cut": 1}
    assert (stage.world.pipes["s1", "s2"].counts.carried, stage.world.pipes["s1", "s2"].counts.cut) == (1, 1)


def test_duplicates_that_are_cut_off_are_both_counted(started):
    stage = started("clusters:k=2,size=1,shape=line,delay=10ms,duplicate=100%")
    stage.tell("h1", "send h2")
    stage.run(5)
    stage.world.set_link("s1", "s2", up=False)
    stage.run(100)
    counts = stage.world.pipes["s1", "s2"].counts
    assert (counts.carried, counts.cut) == (0, 2)


def test_every_packet_is_received_or_has_vanished_for_a_reason(started):
    stage = started("clusters:k=3,size=2,shape=ring,loss=20%,queue=2,bandwidth=200kbit")
    for number in range(20):
        stage.tell("h1", "everybody", at_ms=number)
    stage.run(10_000)
    received = sum(host.counters["received"] for host in stage.world.hosts.values())
    pipes = stage.world.pipes.values()
    assert received + stage.world.vanished["dropped"] == stage.world.hosts["h1"].counters["sent_data"] == 100
    assert sum(pipe.counts.lost for pipe in pipes) > 0
    assert sum(pipe.counts.overflowed for pipe in pipes) > 0
    assert stage.world.vanished["dropped"] == sum(pipe.counts.lost + pipe.counts.overflowed for pipe in pipes)


def test_a_duplicate_goes_its_own_way(started):
    stage = started("clusters:k=2,size=1,shape=line,duplicate=100%")
    stage.tell("h1", "send h2")
    stage.run(100)
    assert stage.received("h2") == [("h1", 1)] * 2
    assert stage.world.pipes["s1", "s2"].counts.duplicated == 1


def test_events_at_the_same_instant_happen_in_the_order_in_which_they_were_planned(stage):
    world, seen = stage().world, []
    for number in range(20):
        world.after(5, seen.append, number)
    world.after(4, lambda: world.after(1, seen.append, "planned last"))
    world.run(10)
    assert seen == [*range(20), "planned last"]


def test_a_run_ends_at_its_time_with_what_is_due_then(stage):
    world, seen = stage().world, []
    for at_ns in (10, 11):
        world.after(at_ns, seen.append, at_ns)
    world.run(10)
    assert (seen, world.now_ns, world.events_done) == ([10], 10, 1)


def test_an_answer_over_links_without_delay_finds_the_asker_at_rest(started):
    stage = started("clusters:k=2,size=3,shape=line")
    stage.tell("h1", "send h2 answer\nsend h3 answer\ntrace done")
    stage.run(100)
    assert [event for _, event in stage.events("h1", "done", "message")] == ["done", "message", "message"]


def test_a_message_may_be_passed_on_any_number_of_times_in_one_instant(started):
    stage = started("clusters:k=2,size=400,shape=line", core=Relay)
    stage.tell("h1", "hello")
    stage.run(100)
    assert stage.events("h800", "deliver")


def test_trace_hashes_tell_who_sent_to_whom(started):
    def trace(script):
        stage = started("clusters:k=2,size=3,shape=line")
        # No logs: only what crosses the network counts here.
        stage.world.log = lambda *_arguments, **_details: None
        stage.tell("h1", script)
        stage.run(0)
        return stage.world.trace_hash

    assert trace("send h2 a") == trace("send h2 a")
    assert len({trace("send h2 a"), trace("send h3 a"), trace("send h2 b")}) == 3


def test_every_network_on_the_list_exists():
    assert [find(name).hosts for name in NETWORKS]


def test_a_full_queue_drops_its_oldest_packet_and_the_rest_arrives_earlier(started):
    """What the kernel is asked for: `pfifo_head_drop`. A packet that was dropped has not crossed the link."""
    stage = started("clusters:k=2,size=1,shape=line,bandwidth=1mbit,queue=2", pack_ms=None)
    crossed = []
    stage.world.on_crossing = lambda _at, pipe, packet: pipe.expensive and crossed.append(packet.parts[0].message.sequence)
    for _ in range(6):
        stage.tell("h1", "send h2")
    stage.run(1000)
    assert [sequence for _, sequence in stage.received("h2")] == [1, 5, 6] == crossed
    times_ns = [at_ns for at_ns, _ in stage.events("h2", "message")]
    packet_ns = (HEADER.size + len(b"\x91\xc4\x00") + HEADERS_BYTES) * 8000
    assert times_ns == [packet_ns, 2 * packet_ns, 3 * packet_ns]
    pipe = stage.world.pipes["s1", "s2"]
    assert (pipe.counts.carried, pipe.counts.overflowed, stage.world.vanished["dropped"]) == (3, 3, 3)
    stage.world.settle()
