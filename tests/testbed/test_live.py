"""A network that is up, as people use it: its command line on a terminal, verbs from elsewhere, and the results in the end."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from testbed.errors import CannotRun
from testbed.live import remote
from tests.testbed.conftest import castbed, environment, start_castbed

pytestmark = pytest.mark.root


class Terminal:
    """Types to a command and reads what it shows."""

    def __init__(self, *words):
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(ours, (24, 80))
        command = [sys.executable, "-m", "testbed", *words]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(), start_new_session=True
        )
        os.close(theirs)
        self._terminal = ours
        self.shown = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:
                return
            self.shown += data.decode(errors="replace")

    def type(self, text):
        os.write(self._terminal, text.encode())

    def expect(self, text, seconds=60.0):
        """Wait until it shows something that it had not shown before."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"never showed {text!r}, but {self.shown[-2000:]!r}"
            assert self._reader.is_alive() or text in self.shown, f"ended without {text!r}: {self.shown[-2000:]!r}"
            time.sleep(0.02)
        before, _, self.shown = self.shown.partition(text)
        return before


class Lab:
    """The network of this module: three clusters in a ring, two hosts each, bare datagrams so that losses are to be seen."""

    def __init__(self, output):
        self.name = f"lab-{os.getpid()}"
        self.results = output / "lab"
        self.terminal = Terminal(
            *("up", "clusters:k=3,size=2,shape=ring", "--name", self.name, "--protocol", "cluster-tree"),
            *("--interval", "100ms", "--out", str(self.results)),
        )
        self.terminal.expect("castbed> ", seconds=120)
        self.directory = remote.find(self.name)

    def do(self, line):
        return remote.ask(self.directory, line).text

    def now(self):
        return remote.snapshot(self.directory)

    def host(self, name):
        return next(host for host in self.now().hosts if host.host == name)

    def link(self, name):
        return next(link for link in self.now().links if link.link == name)

    def faults(self):
        lines = (self.results / "cluster-tree" / "faults.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def wait_until(self, question, seconds=60.0):
        deadline = time.monotonic() + seconds
        while not question():
            assert time.monotonic() < deadline, self.do("status")
            time.sleep(0.05)

    def stopped(self):
        """How it stands when everything that was broadcast is on record and delivered."""
        self.wait_until(lambda: [self.now(), time.sleep(0.5)][0].broadcasts == self.now().broadcasts)
        self.wait_until(lambda: all(host.missing == 0 for host in self.now().hosts))
        return self.now()

    def namespace(self, host):
        return f"{self.directory.name}-{host}"

    def ping(self, source, target_address, count, wait_s="1"):
        """How many echo requests came back."""
        command = [
            "ip",
            "netns",
            "exec",
            self.namespace(source),
            "ping",
            "-q",
            "-A",
            "-c",
            str(count),
            "-W",
            wait_s,
            target_address,
        ]
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return int(re.search(r"(\d+) received", shown)[1])

    def echo_requests_at(self, host):
        """How many echo requests a host has had."""
        command = ["ip", "netns", "exec", self.namespace(host), "cat", "/proc/net/snmp"]
        names, values = (
            line.split()[1:] for line in subprocess.check_output(command, text=True).splitlines() if line.startswith("Icmp:")
        )
        return int(values[names.index("InEchos")])


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("live"))
    yield made
    if made.terminal.process.poll() is None:
        made.terminal.process.terminate()
        made.terminal.process.wait()


@pytest.fixture(autouse=True)
def healed(lab):
    """Each test begins with a network as built."""
    lab.do("healall")
    yield
    if lab.terminal.process.poll() is None:
        lab.do("healall")


def test_the_command_line_completes_verbs_and_names_and_does_what_is_typed(lab):
    lab.terminal.type("fai\ts1 \t2\n")
    lab.terminal.expect("link-down s1-s2: s1 down; s2 down")
    assert not lab.link("s1-s2").up
    lab.terminal.type("heal s1 s2\n")
    lab.terminal.expect("heal s1-s2: s1-s2 up, as built")
    assert lab.link("s1-s2").up
    lab.terminal.type("help lose\n")
    lab.terminal.expect("lose s1->s2 100%")
    lab.terminal.type("h1 ping -c 1 -W 20 h4\n")
    lab.terminal.expect("1 received")
    lab.terminal.type("source nothing.txt\n")
    lab.terminal.expect("castbed: source nothing.txt: AttributeError")


def test_mininets_own_verbs_are_recorded_too(lab):
    lab.terminal.type("link s1 s2 down\n")
    lab.terminal.expect("link-down s1-s2")
    lab.terminal.type("link s1 s2 up\n")
    lab.terminal.expect("link-up s1-s2: s1 up; s2 up")
    lab.terminal.type("switch s2 stop\n")
    lab.terminal.expect("switch-stop s2: s2 down")
    lab.terminal.type("switch s2 start\n")
    lab.terminal.expect("switch-start s2: s2 up")
    assert [fault["fault"] for fault in lab.faults()][-4:] == ["link-down", "link-up", "switch-stop", "switch-start"]


def test_every_action_is_written_down_when_it_is_done_as_asked_applied_and_observed(lab):
    before = len(lab.faults())
    assert lab.do("slow s1-s2 500kbit") == "link-change s1-s2: s1->s2 bandwidth 0.5mbit; s2->s1 bandwidth 0.5mbit"
    (written,) = lab.faults()[before:]
    assert written["asked_ns"] <= written["applied_ns"]
    assert written["observed"] == "s1->s2 bandwidth 0.5mbit; s2->s1 bandwidth 0.5mbit"
    assert lab.link("s1-s2").changes == "bandwidth 0.5mbit"
    lab.do("heal s1 s2")
    assert lab.link("s1-s2").changes == ""


def test_a_share_of_packets_is_lost_and_then_none(lab):
    """Of 2,000 packets one way, 10 % are 200 with a standard deviation of 13.4. Five of them are exceeded once in two million times."""
    lab.do("lose s1->s2 10%")
    lost = 2000 - lab.ping("h1", "10.0.0.3", 2000)
    assert abs(lost - 200) <= 5 * 13.4
    lab.do("lose s1->s2 0%")
    assert lab.ping("h1", "10.0.0.3", 1000, wait_s="20") == 1000


def test_one_way_loss_is_one_way(lab):
    lab.do("lose s1->s2 100%")
    before = lab.echo_requests_at("h3")
    assert lab.ping("h1", "10.0.0.3", 10) == 0
    assert lab.echo_requests_at("h3") == before
    lab.do("lose s1->s2 0%")
    lab.do("lose s2->s1 100%")
    assert lab.ping("h1", "10.0.0.3", 10) == 0
    assert lab.echo_requests_at("h3") == before + 10


def test_a_link_flaps(lab):
    before = len(lab.faults())
    lab.do("flap s1 s2 2 100ms 100ms")
    lab.wait_until(lambda: len(lab.faults()) == before + 4)
    assert [fault["observed"] for fault in lab.faults()[before:]] == ["s1 down; s2 down", "s1 up; s2 up"] * 2


def test_a_partition_pulls_the_links_between_the_sides(lab):
    assert lab.do("partition s1 | s2,s3") == "link-down s1-s2: s1 down; s2 down\nlink-down s3-s1: s3 down; s1 down"
    lab.wait_until(lambda: lab.host("h3").missing > 0)
    lab.wait_until(lambda: lab.host("h2").missing <= 1)
    lab.do("healall")
    lab.wait_until(lambda: lab.host("h3").missing == 0)


def test_hosts_crash_restart_pause_and_resume(lab):
    assert lab.do("crash h4") == "crash h4: h4 down"
    assert lab.host("h4").state == "crashed"
    with pytest.raises(CannotRun, match="h4 has crashed: restart it first"):
        lab.do("broadcast h4 hello")
    lab.do("restart h4")
    assert lab.do("pause h6") == "pause h6: h6 paused"
    assert lab.host("h6").state == "paused"
    lab.do("resume h6")
    lab.wait_until(lambda: lab.host("h4").missing + lab.host("h6").missing == 0)
    assert lab.host("h6").state == "up"


def test_a_host_broadcasts_by_hand_and_the_stream_stops_and_goes_on(lab):
    lab.do("stream off")
    before = lab.stopped().broadcasts
    lab.do("broadcast h5 hello there")
    lab.wait_until(lambda: lab.now().broadcasts.get("h5", 0) == before.get("h5", 0) + 1)
    assert lab.now().broadcasts["h1"] == before["h1"]
    lab.do("stream 50ms")
    lab.wait_until(lambda: lab.now().broadcasts["h1"] > before["h1"] + 10)
    lab.do("stream 100ms")


def test_the_tree_shows_who_leads_and_who_is_apart(lab):
    def is_whole(shown):
        everybody = all(f"h{number}" in shown for number in range(1, 7))
        return everybody and shown.count("leads its cluster") == 2 and "apart" not in shown

    lab.wait_until(lambda: is_whole(lab.do("tree h1")))
    assert lab.do("tree h1").startswith("h1, the source")


def test_costs_are_those_of_the_captures_so_far(lab):
    lab.do("stream off")
    lab.wait_until(lambda: all(host.missing == 0 for host in lab.now().hosts))
    now = lab.now()
    paths = [line for name in ("s1 s2", "s2 s3", "s3 s1") for line in lab.do(f"capture {name}").splitlines()]
    time.sleep(0.5)
    held = sum(subprocess.check_output(["tcpdump", "-n", "-r", path], stderr=subprocess.DEVNULL).count(b"\n") for path in paths)
    after = lab.now()
    seen = [sum(count for link in shot.links for way in link.packets.values() for count in way.values()) for shot in (now, after)]
    assert seen[0] <= held <= seen[1]
    assert sum(after.expensive_packets.values()) <= seen[1]
    assert "per message" in lab.do("costs")
    lab.do("stream 100ms")


def test_wireshark_reads_a_link_with_our_names(lab):
    """There is no screen here, so the answer is a command."""
    told = lab.do("wireshark s1 s2")
    assert told.startswith("there is no screen; in another terminal: sudo tshark -i ")
    lab.do("stream 20ms")
    command = [
        *told.partition("sudo ")[2].split(),
        "-c",
        "20",
        "-a",
        "duration:30",
        "-T",
        "fields",
        "-e",
        "castbed.protocol.name",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cluster-tree" in done.stdout.split()
    lab.do("stream 100ms")


def test_the_controller_stops_and_starts(lab):
    assert lab.do("controller stop") == "controller-stop: controller down"
    assert lab.do("controller start") == "controller-start: controller up"


def test_any_fault_of_the_vocabulary_can_be_given_field_by_field(lab):
    lab.do("fault fault=clock host=h6 offset_ms=100")
    assert lab.faults()[-1]["details"]["offset_ms"] == 100


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("frobnicate", "there is no verb 'frobnicate'"),
        ("fail s1", "write fail s1 s2"),
        ("fail s1 s9", "no node 's9'|does not exist"),
        ("fail h1 s1", "only links between switches"),
        ("fail s1 s2 s3", "unexpected 's3'"),
        ("lose s1 s2", "write lose s1 s2 10%"),
        ("lose s1 s2 lots", "'lots' is not a share"),
        ("slow s1 s2 0kbit", "must be between 0.001mbit and 32000mbit"),
        ("slow s1 s2 1e-9kbit", "must be between 0.001mbit and 32000mbit"),
        ("stream 0ms", "a host cannot broadcast a message every 0ms: 1ms is the shortest interval"),
        ("stream 1e-300ms", "must be 0ms, or between"),
        ("sleep 1e300s", "must be 0ms, or between"),
        ("flap s1 s2 1000000000", "flap s1-s2: times: must be a whole number of at most 10,000"),
        ("fault fault=flap link=s1-s2 times=1000000000", "Expected `int` <= 10000"),
        ("fault fault=clock host=h1 offset_ms=inf", "Expected `float` <= 1000000000.0"),
        ("fault fault=link-change link=s1-s2 bandwidth_mbit=nan", "Expected `float` >= 0.001"),
        ("change s1 s2 burst=inf", "'inf' is out of bounds"),
        ("flap s1 s2 0", "flap s1-s2: times: must be a whole number of at least 1"),
        ("flap s1 s2 often", "write flap|often"),
        ("change s1 s2", "write change"),
        ("change s1 s2 colour=red", "is not a property of links"),
        ("partition s1 | s9", "switch 's9'"),
        ("crash s1", "host 's1'"),
        ("restart h1 tomorrow", "kept or lost"),
        ("switch s1 pause", "neither stop nor start"),
        ("broadcast h9 hello", "no host 'h9'"),
        ("fault fault=frobnicate", "the faults are link-down"),
        ("fault fault=drop-message host=h3 kind=Cpoy", "no messages of kind 'Cpoy'; choose from Copy, "),
        ("group alpha h1,h2", "protocol cluster-tree sends every message to everybody and knows no groups"),
        ("multicast h1 h2,h3 hello", "protocol cluster-tree sends every message to everybody and knows no groups"),
        ("join h1 everybody", "fault join h1: protocol cluster-tree knows no membership"),
        ("leave h1", "write leave h3 alpha"),
        ("depart h9", "host 'h9'"),
        ("tree s1", "no host"),
        ("crash 'h1", "No closing quotation"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence_and_not_recorded(lab, line, sentence):
    before = len(lab.faults())
    with pytest.raises(CannotRun, match=sentence):
        lab.do(line)
    assert len(lab.faults()) == before


def test_other_terminals_find_the_network_by_its_name(lab):
    assert f"{lab.name}: clusters-ring-3x2, cluster-tree" in castbed("status", "--name", lab.name).stdout
    (shot,) = json.loads(castbed("status", "--name", lab.name, "--json").stdout)
    assert [host["host"] for host in shot["hosts"]] == [f"h{number}" for number in range(1, 7)]
    assert castbed("fault", "--name", lab.name, "lose", "s1->s2", "0%").stdout == "link-change s1-s2: s1->s2 loss 0%\n"
    refused = castbed("fault", "--name", "nobody", "healall")
    assert refused.returncode == 2
    assert "no network 'nobody' is up" in refused.stderr
    taken = castbed("up", "grid:rows=2,cols=2,hosts=1", "--name", lab.name)
    assert taken.returncode == 2
    assert "is up already" in taken.stderr


def test_watch_fits_a_terminal_of_80_by_24_and_writes_lines_elsewhere(lab):
    lab.do("fail s1 s2")
    lab.do("crash h6")
    watch = Terminal("watch", "--name", lab.name, "--every", "200ms")
    screen = watch.expect("crashed") + watch.expect("DOWN") + watch.expect("s3-s1") + watch.expect("fault: link-down s1-s2")
    watch.process.terminate()
    watch.process.wait()
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).splitlines() for frame in screen.split("\x1b[H")]
    assert all(len(row) <= 80 for frame in frames for row in frame)
    assert all(len(frame) <= 24 for frame in frames)
    lab.do("restart h6")
    with start_castbed("watch", "--name", lab.name, "--every", "100ms") as lines:
        assert "s1-s2 down" in lines.stdout.readline()
        lab.do("heal s1 s2")
        assert any("fault: heal s1-s2" in line for line in lines.stdout)
        lines.terminate()


def test_exit_ends_it_with_balanced_books_a_verdict_and_everything_typed_on_record(lab):
    """The last test of this module: it ends the network."""
    lab.do("healall")
    lab.do("stream off")
    before = lab.stopped()
    watch = start_castbed("watch", "--name", lab.name, "--every", "100ms")
    watch.stdout.readline()
    lab.terminal.type("exit\n")
    status = lab.terminal.process.wait(timeout=240)
    summary = json.loads((lab.results / "cluster-tree" / "summary.json").read_text())
    assert summary["books"]["balanced"], summary["books"]
    assert summary["verdict"] == "holds", summary["verdict_reasons"]
    assert status == 0
    assert not Path(lab.directory).exists()
    told = watch.communicate(timeout=60)[0]
    assert "it has ended, and everybody has every message" in told
    assert f"verdict: holds; {summary['messages']} messages, 100% delivered" in told
    asked = json.loads((lab.results / "cluster-tree" / "scenario.json").read_text())
    assert len(asked["script"]) == sum(before.broadcasts.values())
    assert "heal" in {fault["fault"] for fault in asked["faults"]}
    replayed = castbed("replay", str(lab.results), "--on", "simulator", "--out", str(lab.results.parent / "again"), "--json")
    assert json.loads(replayed.stdout)["runs"][0]["messages"] == len(asked["script"])
