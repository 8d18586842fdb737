"""The names and orders of a run, worked out before anything is made."""

from testbed.network.plan import Plan
from topologies import clusters, grid


def plan_of(network, *, kernel=False):
    return Plan(network, "abcd", kernel_datapath=kernel)


def test_names_carry_the_tag_and_fit_into_an_interface_name():
    plan = plan_of(grid(10, 10, 10))
    names = (*plan.namespaces, *plan.bridges, *plan.interfaces)
    assert all(name.startswith("abcd-") for name in names)
    assert len(set(names)) == len(names)
    assert max(map(len, (*plan.bridges, *plan.interfaces))) <= 15


def test_every_link_is_named_by_an_end_in_the_root_namespace():
    network = clusters(2, 2, "line")
    plan = plan_of(network)
    assert len(plan.interfaces) == len(network.links)
    assert set(plan.interfaces) == {"abcd-s1e1", "abcd-s1e2", "abcd-s2e1", "abcd-s2e2", "abcd-s1e3"}


def test_port_numbers_in_the_switch_are_those_of_the_network():
    network = clusters(2, 2, "line")
    command = " ".join(plan_of(network).bridge_command("s1"))
    for neighbour, port in network.ports["s1"].items():
        interface = plan_of(network).end("s1", neighbour).interface
        assert f"set interface {interface} ofport_request={port}" in command
    assert "other_config:datapath-id=0000000000000001" in command


def test_the_datapath_is_the_one_the_machine_has():
    network = clusters(2, 1, "line")
    assert "datapath_type=netdev" in plan_of(network).bridge_command("s1")
    assert "datapath_type=system" in plan_of(network, kernel=True).bridge_command("s1")


def test_a_switch_listens_nowhere_and_calls_on_the_socket_of_its_run_only():
    command = plan_of(clusters(2, 1, "line")).bridge_command("s1")
    assert [word for word in command if "tcp:" in word or "unix:" in word] == ["unix:abcd-controller"]


def test_a_host_knows_everybody_else_by_ethernet_address():
    network = clusters(2, 2, "line")
    commands = [command for command in plan_of(network).host_commands("h1", ipv6=False) if command.startswith("neighbour")]
    assert len(commands) == 3
    assert f"neighbour add {network.addresses['h4']} lladdr {network.macs['h4']} dev h1-eth0 nud permanent" in commands
