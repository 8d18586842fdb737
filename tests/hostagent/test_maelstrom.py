"""A program as a protocol: what it is told, what becomes of what it writes, and how its deliveries are learned."""

import json

import pytest

from hostagent.contract.messages import Purpose
from hostagent.runtime.failures import CoreFailed
from hostagent.runtime.maelstrom.core import PIECE_BYTES, Maelstrom, MaelstromParameters, _neighbours
from tests.hostagent.world import World


class MyNode(Maelstrom):
    name = "my-node"
    number = 254
    file = "./my-node"
    words = ("./my-node",)


class Nodes:
    """A program at each host of a world, as a function of this process: every node tells all others of what its client broadcasts."""

    def __init__(self, hosts: int, **parameters: object) -> None:
        self.world = World(MyNode, hosts, **parameters)
        self.values: dict[str, list[int]] = {host: [] for host in self.world.hosts}
        self.told: list[tuple[str, dict]] = []
        self.work()

    def write(self, host: str, dest: str, **body: object) -> None:
        """The program of a host writes a line."""
        line = json.dumps({"src": f"n{host[1:]}", "dest": dest, "body": body}).encode()
        life = self.world[host].life
        life.tell(lambda: life.core.on_line(line), "when it wrote")
        self.world[host].carry_out()

    def work(self) -> None:
        """Hand the programs their lines until there are no more."""
        while lines := [(host, line) for host in self.world.hosts for line in self._taken(host)]:
            for host, line in lines:
                message = json.loads(line)
                self.told.append((host, message))
                self._handle(host, message["src"], message["body"])
            self.world.settle()

    def read(self) -> None:
        """Let every host read what its program has."""
        for _ in self.world.hosts:
            self.world.expire()
        self.work()

    def _taken(self, host: str) -> list[bytes]:
        core = self.world[host].core
        taken, core.lines = core.lines, []
        return taken

    def _handle(self, host: str, src: str, body: dict) -> None:
        if body["type"] == "broadcast":
            self.values[host].append(body["message"])
            for other in self.world.hosts if src == "c1" else ():
                if other != host:
                    self.write(host, f"n{other[1:]}", type="broadcast", message=body["message"])
        fields = {"messages": self.values[host]} if body["type"] == "read" else {}
        if "msg_id" in body:
            self.write(host, src, type=f"{body['type']}_ok", in_reply_to=body["msg_id"], **fields)


def test_a_program_is_told_who_it_is_and_who_its_neighbours_are():
    nodes = Nodes(4)
    assert [body["type"] for host, message in nodes.told if host == "h2" for body in (message["body"],)] == ["init", "topology"]
    (init, topology) = [message["body"] for host, message in nodes.told if host == "h2"]
    assert (init["node_id"], init["node_ids"]) == ("n2", ["n1", "n2", "n3", "n4"])
    assert topology["topology"] == {"n1": ["n2", "n3"], "n2": ["n1", "n4"], "n3": ["n1", "n4"], "n4": ["n2", "n3"]}
    assert all(nodes.world[host].core.is_ready for host in nodes.world.hosts)


@pytest.mark.parametrize(
    ("topology", "of_five"),
    [
        ("line", ["2", "13", "24", "35", "4"]),
        ("total", ["2345", "1345", "1245", "1235", "1234"]),
        ("tree2", ["23", "145", "1", "2", "2"]),
        ("tree4", ["2345", "1", "1", "1", "1"]),
        ("grid", ["24", "135", "2", "15", "24"]),
    ],
)
def test_neighbours_are_those_of_maelstroms_topologies(topology, of_five):
    found = _neighbours(topology, ["1", "2", "3", "4", "5"])
    assert ["".join(neighbours) for neighbours in found.values()] == of_five


def test_a_value_names_its_message_and_is_delivered_where_it_is_read():
    nodes = Nodes(3)
    for host in ("h1", "h3", "h3"):
        nodes.world.broadcast(host)
        nodes.work()
    assert nodes.values["h2"] == [0, 2, 5]
    assert nodes.world.delivered("h2") == []
    nodes.read()
    assert nodes.world.delivered("h2") == [("h1", 1), ("h3", 1), ("h3", 2)]
    nodes.world.restart("h2")
    nodes.work()
    nodes.read()
    assert nodes.world.delivered("h2") == [("h1", 1), ("h3", 1), ("h3", 2)]


def test_a_program_may_report_its_deliveries_itself_and_then_nothing_is_read():
    nodes = Nodes(2, deliveries="reported", order="total")
    assert nodes.world.timers() == []
    for value in (2, 0):
        nodes.write("h2", "c1", type="deliver", message=value)
    assert nodes.world.delivered("h2") == [("h1", 2), ("h1", 1)]


def test_new_values_are_data_old_ones_repair_and_everything_else_control():
    nodes = Nodes(2)
    for body in ({"message": 2}, {"message": 2}, {"messages": [2, 4]}, {"messages": [4, 2]}, {"messages": []}, {"x": 1}):
        nodes.write("h1", "n2", type="tell", **body)
    sent = [(packet.purpose, packet.message.sequence) for packet in nodes.world.sent]
    assert sent == [
        (Purpose.DATA, 2),
        (Purpose.REPAIR, 2),
        (Purpose.DATA, 3),
        (Purpose.REPAIR, 3),
        (Purpose.CONTROL, 0),
        (Purpose.CONTROL, 0),
    ]


def test_a_long_line_travels_in_pieces_and_is_lost_with_one_of_them():
    nodes = Nodes(2)
    nodes.write("h1", "n2", type="tell", text="x" * 3 * PIECE_BYTES)
    assert len(nodes.world.in_flight) == 4
    nodes.world.in_flight = list(reversed(nodes.world.in_flight))
    nodes.world.settle()
    (line,) = nodes.world["h2"].core.lines
    assert json.loads(line)["body"]["text"] == "x" * 3 * PIECE_BYTES
    nodes.work()
    nodes.write("h1", "n2", type="tell", text="y" * 3 * PIECE_BYTES)
    nodes.world.in_flight = nodes.world.in_flight[1:]
    nodes.world.settle()
    assert nodes.world["h2"].core.lines == []


@pytest.mark.parametrize(
    ("dest", "body", "sentence"),
    [
        ("lin-kv", {"type": "read"}, "it wrote to lin-kv, and there are the nodes n1 to n2 and the client c1, and no services"),
        ("c1", {"type": "deliver", "message": 0}, "it reports deliveries: add --set my-node.deliveries=reported"),
        ("c1", {"type": "read_ok", "messages": ["x"]}, "it delivered 'x', which is not a value that was broadcast"),
        ("c1", {"type": "error", "code": 10, "text": "unknown type"}, "it answered with an error: unknown type"),
        ("c1", {"kind": "read"}, "this is not a message of Maelstrom"),
    ],
)
def test_what_a_program_must_not_write_ends_the_run_with_a_sentence(dest, body, sentence):
    nodes = Nodes(2)
    with pytest.raises(CoreFailed) as caught:
        nodes.write("h1", dest, **body)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("protocol my-node failed at ./my-node: ValueError: ")
    assert caught.value.failure.is_users


def test_an_order_can_be_judged_only_if_deliveries_are_reported():
    with pytest.raises(ValueError, match="order=causal can be judged only with deliveries=reported"):
        MyNode.check(MaelstromParameters(order="causal"), ("h1", "h2"))
    MyNode.check(MaelstromParameters(order="causal", deliveries="reported"), ("h1", "h2"))
