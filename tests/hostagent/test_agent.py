"""Agents in network namespaces: real sockets, real processes, real deaths."""

import itertools
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from hostagent.contract.wire import COST_TOS, HEADER, LONGEST_DATAGRAM
from hostagent.protocols.basic import Basic
from hostagent.runtime.agent import SAMPLE_S
from hostagent.runtime.control import Hush, Offer, StartOrder, Stop, encode_request
from hostagent.runtime.failures import Failure
from hostagent.runtime.namespace import die_with_parent
from tests.hostagent.conftest import HOSTS, alive, until
from tests.hostagent.recording import Crasher, Recorder

pytestmark = pytest.mark.root

RECORDING = (str(Path(__file__).with_name("recording.py")),)


@pytest.fixture
def recorder(launch):
    agents = launch("recorder", RECORDING)
    agents.start("h1")
    return agents


def test_a_broadcast_is_delivered_everywhere_with_two_datagrams_for_each_other_host(launch):
    """The first paper, section 1: 2 (n - 1) datagrams."""
    agents = launch(pack_ms=None, retry_ms=10_000, longest_retry_ms=10_000)
    agents.start(*HOSTS)
    agents.broadcast("h1")
    agents.until(lambda: agents.counters("h1")["received"] == 2)
    assert [agents.delivered(host) for host in HOSTS] == [[("h1", 1)]] * 3
    assert agents.counters("h1") == {"sent": 2, "sent_data": 2, "messages": 2, "received": 2, "broadcast": 1, "delivered": 1}
    # An agent counts a datagram when it has sent it, and the other host may hear of it before.
    agents.until(lambda: agents.counters("h2") == {"sent": 1, "sent_control": 1, "messages": 1, "received": 1, "delivered": 1})
    assert [event.event for event in agents.events("h1")] == ["start", "broadcast", "deliver"]
    assert agents.events("h1", "start")[0].details == {"incarnation": 1}


def test_messages_are_numbered_in_the_order_of_the_requests(launch):
    agents = launch("best-effort", links="none")
    agents.start("h1", "h2")
    for _ in range(50):
        agents.broadcast("h1")
    agents.until(lambda: len(agents.delivered("h2")) == 50)
    assert agents.delivered("h1") == [("h1", n) for n in range(1, 51)]


def test_the_cost_bit_is_one_code_point_whatever_the_congestion_bits(recorder, stranger):
    sender = stranger(Recorder.number)
    services = {COST_TOS: True, 0: False, COST_TOS | 0b01: True, COST_TOS | 0b11: True, 0b101100: False, 0x10: False}
    for sequence, service in enumerate(services, start=1):
        sender.send("h1", sender.copy(sequence), tos=service)
    recorder.until(lambda: len(recorder.events("h1", "message")) == len(services))
    seen = [event.details for event in recorder.events("h1", "message")]
    assert seen == [{"sender": "h3", "sequence": n, "expensive": bit} for n, bit in enumerate(services.values(), start=1)]


def test_what_is_not_for_us_is_counted_by_reason_and_dropped(launch, stranger):
    agents, sender = launch(), stranger(Basic.number)
    agents.start("h1")
    good = sender.copy(1)
    bad = {
        "malformed": (b"", b"\xff" * 100, good[:-1], good[: HEADER.size] + b"\x91" * 1400),
        "foreign_run": (good[:6] + bytes(4) + good[10:],),
        "oversized": (good + bytes(LONGEST_DATAGRAM), bytes(60_000)),
        "unknown_protocol": (good[:3] + b"\xfe" + good[4:],),
        "unknown_kind": (good[:4] + b"\xfe" + good[5:],),
        "unknown_host": (good[:10] + b"\xfe" + good[11:],),
        "from_itself": (good[:10] + b"\0\1" + good[12:],),
    }
    for datagram in (datagram for datagrams in bad.values() for datagram in datagrams):
        sender.send("h1", datagram)
    sender.send("h1", good)
    agents.until(lambda: agents.delivered("h1"))
    refused = {f"refused_{reason}": len(datagrams) for reason, datagrams in bad.items()}
    answered = {"received": 1, "delivered": 1, "sent": 1, "sent_control": 1, "messages": 1}
    agents.until(lambda: agents.counters("h1") == refused | answered)
    assert not agents.errors.read_text()


def test_a_hushed_agent_sends_nothing_more_and_goes_on_counting(launch, stranger):
    agents, sender = launch(retry_ms=1), stranger(Basic.number)
    agents.start("h1")
    agents.broadcast("h1")
    agents.until(lambda: agents.counters("h1")["sent_repair"])
    agents.ask("h1", Hush(held_back=2))
    agents.until(lambda: agents.events("h1", "held-back"))
    agents.broadcast("h1")
    for sequence in range(1, 100):
        sender.send("h1", sender.copy(sequence))
    agents.until(lambda: agents.counters("h1")["delivered"] == 100)
    agents.ask("h1", Stop())
    assert agents.report("died", "h1") == "0"
    assert agents.events("h1", "held-back")[0].details == {"messages": 2}
    assert agents.counters("h1")["broadcast"] == 1
    assert agents.counters("h1")["sent_data"] == 2
    assert agents.counters("h1")["sent_control"] == 0


def test_a_hushed_agent_counts_all_that_its_application_could_not_broadcast(launch):
    """Nobody acknowledges: 256 messages are broadcast, 64 wait at the door, and the others in its socket."""
    agents = launch(retry_ms=100_000, longest_retry_ms=100_000)
    agents.start("h1")
    for _ in range(10):
        agents.socket.sendto(encode_request([Offer(b"hello")] * 32), str(agents.setting.door("h1")))
    agents.until(lambda: agents.counters("h1")["broadcast"] == 256)
    for _ in range(5):
        agents.socket.sendto(encode_request([Offer(b"hello")] * 32), str(agents.setting.door("h1")))
    agents.ask("h1", Hush(held_back=7))
    agents.until(lambda: agents.events("h1", "held-back"))
    assert agents.events("h1", "held-back")[0].details == {"messages": 15 * 32 - 256 + 7}
    assert agents.counters("h1")["broadcast"] == 256


def test_a_hushed_agent_is_sampled_once_more_and_then_not(launch):
    """A second sample of the same moment, or one of enforced silence, would say that it had come to rest."""
    agents = launch()
    agents.start("h1")
    agents.until(lambda: len(agents.events("h1", "sample")) == 2)
    agents.ask("h1", Hush())
    agents.until(lambda: len(agents.events("h1", "sample")) > 2)
    time.sleep(3 * SAMPLE_S)
    taken_ns = [event.at_ns for event in agents.events("h1", "sample")]
    assert len(taken_ns) <= 4
    # Only the last is out of turn.
    assert sum(later - earlier < SAMPLE_S * 0.9e9 for earlier, later in itertools.pairwise(taken_ns)) <= 1


def test_an_agent_asked_to_stop_logs_it_last_and_exits_well(launch):
    agents = launch()
    agents.start("h1")
    agents.broadcast("h1")
    agents.until(lambda: agents.events("h1", "deliver"))
    agents.ask("h1", Stop())
    assert agents.report("died", "h1") == "0"
    assert [event.event for event in agents.events("h1")] == ["start", "broadcast", "deliver", "stop"]
    assert not agents.errors.read_text()


def test_an_agent_that_stops_in_a_flood_logs_nothing_after_its_end(launch, stranger):
    agents, sender = launch("best-effort", links="none"), stranger(1)
    agents.start("h1")
    for sequence in range(1, 3000):
        sender.send("h1", sender.copy(sequence))
        if sequence == 2000:
            agents.ask("h1", Stop())
    assert agents.report("died", "h1") == "0"
    assert [event.event for event in agents.events("h1")].index("stop") == len(agents.events("h1")) - 1
    assert not agents.errors.read_text()


def test_a_killed_source_goes_on_after_its_restart_and_nothing_is_delivered_twice(launch):
    agents = launch(retry_ms=20)
    agents.start("h1", "h2")
    agents.broadcast("h1")
    agents.until(lambda: agents.counters("h1")["received"])
    agents.kill("h1")
    agents.start("h1", incarnation=2)
    agents.start("h3")
    agents.until(lambda: agents.delivered("h3"))
    agents.broadcast("h1")
    agents.until(lambda: all(len(agents.delivered(host)) == 2 for host in HOSTS))
    assert [agents.delivered(host) for host in HOSTS] == [[("h1", 1), ("h1", 2)]] * 3
    assert [event.details["incarnation"] for event in agents.events("h1", "start")] == [1, 2]


def test_a_killed_receiver_acknowledges_again_and_does_not_deliver_again(launch, stranger):
    agents, sender = launch(), stranger(Basic.number)
    for incarnation in (1, 2, 3):
        agents.start("h2", incarnation=incarnation)
        sender.send("h2", sender.copy(1))
        agents.until(lambda incarnation=incarnation: agents.counters("h2")["sent_control"] == incarnation)
        agents.kill("h2")
    assert agents.delivered("h2") == [("h3", 1)]
    acknowledged = [HEADER.unpack_from(sender.socket.recv(100)) for _ in range(3)]
    assert [packet for *_, packet, _, _, _, _ in acknowledged] == [(n << 32) + 1 for n in (1, 2, 3)]


def test_agents_killed_in_a_stream_of_broadcasts_deliver_every_message_once(launch):
    agents = launch(retry_ms=5, longest_retry_ms=20)
    agents.start(*HOSTS)
    for incarnation in range(2, 7):
        for _ in range(30):
            agents.broadcast("h1")
            agents.broadcast("h3")
        agents.until(lambda more_than=60 * (incarnation - 2): len(agents.delivered("h2")) > more_than)
        agents.kill("h2")
        agents.start("h2", incarnation=incarnation)
    everything = sorted((host, n) for host in ("h1", "h3") for n in range(1, 151))
    agents.until(lambda: all(len(agents.delivered(host)) >= 300 for host in HOSTS))
    assert [sorted(agents.delivered(host)) for host in HOSTS] == [everything] * 3


@pytest.mark.parametrize("pack_ms", [None, 0.0, 5.0])
def test_what_the_socket_has_no_room_for_leaves_as_soon_as_it_has(launch, lan, pack_ms):
    qdisc = f"tc -n {lan.namespace('h1').name} qdisc %s dev eth0 root"
    # Slower than the agent, with a queue longer than the socket's buffer.
    subprocess.run(f"{qdisc % 'add'} tbf rate 4mbit burst 2kb limit 1mb".split(), check=True)
    try:
        agents = launch("best-effort", pack_ms=pack_ms, links="none")
        agents.start("h1", "h2")
        for _ in range(1000):
            agents.broadcast("h1", bytes(100))
        agents.until(lambda: len(agents.delivered("h2")) == 1000)
        agents.until(lambda: agents.counters("h1")["messages"] == 2000)
        assert not agents.counters("h1")["send_failed"]
        # What waits for room is packed, unless that is off.
        assert agents.counters("h1")["sent"] == 2000 if pack_ms is None else agents.counters("h1")["sent"] < 1500
    finally:
        subprocess.run((qdisc % "delete").split(), check=True)


def test_a_datagram_that_cannot_be_sent_is_counted_and_the_agent_lives_on(launch, lan):
    link = ("ip", "-n", lan.namespace("h1").name, "link", "set", "eth0")
    agents = launch(retry_ms=5, longest_retry_ms=5)
    agents.start(*HOSTS)
    subprocess.run((*link, "down"), check=True)
    try:
        agents.broadcast("h1")
        agents.until(lambda: agents.counters("h1")["send_failed"] >= 2)
    finally:
        subprocess.run((*link, "up"), check=True)
    agents.until(lambda: agents.delivered("h2") == agents.delivered("h3") == [("h1", 1)])


def test_timers_fire_once_in_the_order_of_their_times_unless_cancelled_or_moved(recorder):
    plan = ("timer late 0.02", "timer early 0.01", "timer gone 0.005", "cancel gone", "timer moved 0.001", "timer moved 0.03")
    recorder.broadcast("h1", "\n".join(plan).encode())
    recorder.until(lambda: [event.details["name"] for event in recorder.events("h1", "timer")] == ["early", "late", "moved"])


def test_a_timer_does_not_wait_until_the_application_has_nothing_more_to_broadcast(recorder):
    """A token would be kept as long as messages came faster than the agent could broadcast them."""
    os.kill(recorder.pids["h1"], signal.SIGSTOP)
    recorder.broadcast("h1", b"timer soon 0")
    for _ in range(10):
        recorder.socket.sendto(encode_request([Offer(b"")] * 32), str(recorder.setting.door("h1")))
    os.kill(recorder.pids["h1"], signal.SIGCONT)
    recorder.until(lambda: len(recorder.events("h1", "broadcast")) == 321)
    names = [event.event for event in recorder.events("h1")]
    assert "broadcast" in names[names.index("timer") :]


def test_an_agent_whose_core_fails_dies_and_nothing_of_the_half_done_wake_up_stays(launch, stranger):
    agents, sender = launch("crasher", RECORDING), stranger(Crasher.number)
    agents.start("h1")
    agents.until(lambda: agents.events("h1"))
    sender.send("h1", sender.copy(13))
    assert agents.report("died", "h1") == "1"
    assert agents.errors.read_text().splitlines()[-1] == "RuntimeError: cannot stand 13"
    failure = msgspec.json.decode(agents.setting.failure("h1").read_bytes(), type=Failure)
    assert (failure.host, failure.event) == ("h1", "when Copy h3:13 arrived from h3")
    assert (failure.place.file, failure.place.function) == ("tests/hostagent/recording.py", "on_message")
    assert not failure.is_users
    assert [event.event for event in agents.events("h1")] == ["start"]


def test_an_agent_without_room_for_its_log_dies_rather_than_go_on_unrecorded(launch):
    agents = launch()
    agents.start("h1", "h2")
    agents.broadcast("h1")
    agents.until(lambda: agents.counters("h1")["received"])
    full = agents.setting.event_log("h1").stat().st_size + 10
    resource.prlimit(agents.pids["h1"], resource.RLIMIT_FSIZE, (full, full))
    agents.broadcast("h1")
    assert agents.report("died", "h1") == "1"
    agents.start("h1", incarnation=2)
    agents.until(lambda: len(agents.events("h1", "start")) == 2)
    assert agents.delivered("h2") == agents.delivered("h1") == [("h1", 1)]


def test_a_broadcast_too_large_for_a_datagram_ends_the_agent_with_a_sentence(launch):
    agents = launch()
    agents.start("h1")
    agents.broadcast("h1", bytes(2000))
    assert agents.report("died", "h1") == "1"
    assert agents.errors.read_text().splitlines()[-1] == "ValueError: a Copy message of 2040 bytes exceeds 1472"


def test_an_agent_that_cannot_start_is_reported(launch):
    agents = launch()
    os.write(agents.launcher.stdin.fileno(), msgspec.json.encode(StartOrder("nobody", 1)) + b"\n")
    assert agents.report("died", "nobody") == "1"
    assert agents.errors.read_text().splitlines()[-1] == "KeyError: 'nobody'"


def test_many_deaths_at_once_are_all_reported(launch):
    agents = launch()
    for _ in range(5):
        agents.start(*HOSTS)
        for host in HOSTS:
            os.kill(agents.pids[host], signal.SIGKILL)
        assert [agents.report("died", host) for host in HOSTS] == ["-9"] * 3


def test_agents_die_when_the_launcher_is_killed(launch):
    agents = launch()
    agents.start(*HOSTS)
    agents.launcher.kill()
    until(lambda: not any(map(alive, agents.pids.values())))


def test_agents_die_and_the_launcher_exits_well_when_its_input_ends(launch):
    agents = launch()
    agents.start(*HOSTS)
    agents.launcher.stdin.close()
    until(lambda: agents.launcher.poll() == 0)
    until(lambda: not any(map(alive, agents.pids.values())))


def test_a_process_whose_parent_died_before_it_could_ask_dies_all_the_same():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        parent = os.getpid()
        if os.fork() == 0:
            until(lambda: os.getppid() != parent)
            die_with_parent(parent)
            os.write(write, b"alive")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 10) == b""
    os.close(read)


def test_an_agent_samples_what_it_sent_and_keeps(launch):
    agents = launch()
    agents.start("h1")
    agents.until(lambda: len(agents.events("h1", "sample")) >= 2)
    assert [set(event.details) for event in agents.events("h1", "sample")[:2]] == [{"sent", "items", "processor_ms"}] * 2
