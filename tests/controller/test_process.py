"""How the controller starts and ends."""

import signal
import socket
import subprocess
import sys

import pytest

from topologies.builders import clusters

NETWORK = clusters(2, 1, "line")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_word(start_controller, number):
    controller = start_controller(NETWORK)
    controller.wait_for("listening")
    assert controller.end(number) == (0, "")


def test_a_hang_up_wakes_it_even_while_no_switch_speaks(start_controller):
    controller = start_controller(NETWORK)
    controller.wait_for("listening")
    for number in (1, 2):
        controller.regroup({number: ("h1", "h2")})
    assert [event["cause"] for event in controller.events("rerouted")] == ["groups_changed"] * 2
    assert controller.end() == (0, "")


def test_port_0_gives_controllers_side_by_side_a_port_each(start_controller):
    one, other = start_controller(NETWORK), start_controller(NETWORK)
    assert one.address != other.address


def test_a_port_in_use_is_refused_in_one_sentence(start_controller):
    port = start_controller(NETWORK).address.removeprefix("tcp:")
    code, said = start_controller(NETWORK, listen=port).ended()
    assert code == 1
    assert said.startswith("The controller cannot start: ")
    assert "Address already in use" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("listen", "sentence"),
    [
        ("0.0.0.0:6653", "0.0.0.0 is open to other machines"),
        ("6653", "'6653' is not of the form 127.0.0.1:PORT"),
        ("127.0.0.1:70000", "70000 is not a port"),
    ],
)
def test_an_address_that_will_not_do_is_refused_in_one_sentence(start_controller, listen, sentence):
    code, said = start_controller(NETWORK, listen=listen).ended()
    assert code == 2
    assert sentence in said
    assert "Traceback" not in said


def test_a_missing_network_is_refused_in_one_sentence(tmp_path):
    command = (sys.executable, "-m", "controller", str(tmp_path / "none.json"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("The controller cannot start: ")
    assert done.stderr.count("\n") == 1


def test_an_exception_in_a_connection_ends_it_loudly(start_controller):
    controller = start_controller(NETWORK)
    host, port = controller.address.removeprefix("tcp:").split(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(bytes.fromhex("63 00 0008 00000000"))  # a complete message of version 99
        code, said = controller.ended()
    assert code == 1
    assert said.startswith("The controller ends: ")
    assert "Traceback" in said
    assert len(controller.events("failed")) == 1


def test_at_a_path_only_its_owner_can_connect_and_what_a_killed_one_left_is_in_nobodys_way(start_controller, tmp_path):
    path = tmp_path / "socket"
    for _ in range(2):
        controller = start_controller(NETWORK, listen=f"unix:{path}")
        assert [event["path"] for event in controller.wait_for("listening")] == [str(path)]
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as switch:
            switch.settimeout(20)
            switch.connect(str(path))
            # OpenFlow 1.3, hello.
            assert switch.recv(8)[:2] == bytes((4, 0))
        assert controller.end(signal.SIGKILL)[0] == -signal.SIGKILL
