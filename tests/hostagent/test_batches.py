"""Several datagrams with one call of the kernel, and which of them count as unread if their receiver is killed."""

import os
import signal
import socket

import pytest

from hostagent.runtime import counters
from hostagent.runtime.batches import HEADERS, MOST, Batch, handed_over
from hostagent.runtime.counters import NAMES, open_counters, read_counters

LONGEST = 100
EXPENSIVE = 12


@pytest.fixture
def ends():
    """A receiver, and a sender that is connected to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver.setblocking(False)
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        receiver.bind(("127.0.0.1", 0))
        sender.connect(receiver.getsockname())
        yield receiver, sender


@pytest.fixture
def headers():
    return memoryview(bytearray(HEADERS))


@pytest.fixture
def batch(headers):
    return Batch(headers, LONGEST)


def read(batch, receiver):
    """The datagrams of one batch, each with its type of service."""
    found = batch.receive(receiver)
    batch.forget(len(found))
    return [(bytes(batch.data[start : start + length]), service) for start, length, service in found]


def test_nothing_is_no_datagram(ends, batch):
    receiver, _ = ends
    assert read(batch, receiver) == []


def test_one_datagram_is_a_batch(ends, batch):
    receiver, sender = ends
    for payload in (b"one", b"another"):
        sender.send(payload)
        assert read(batch, receiver) == [(payload, 0)]
    assert read(batch, receiver) == []


def test_each_datagram_has_its_length_and_its_type_of_service(ends, batch):
    receiver, sender = ends
    sent = [(b"a" * length, service) for length, service in ((3, 0), (0, EXPENSIVE), (LONGEST, 0), (7, EXPENSIVE))]
    for _ in range(2):
        for payload, service in sent:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, service)
            sender.send(payload)
        assert read(batch, receiver) == sent


def test_what_is_too_long_is_cut(ends, batch):
    receiver, sender = ends
    sender.send(b"b" * (LONGEST + 50))
    sender.send(b"next")
    assert read(batch, receiver) == [(b"b" * LONGEST, 0), (b"next", 0)]


def test_more_than_a_batch_holds_waits_for_the_next(ends, batch):
    receiver, sender = ends
    sent = [b"%d" % number for number in range(MOST + 2)]
    for payload in sent:
        sender.send(payload)
    assert [payload for payload, _ in read(batch, receiver)] == sent[:MOST]
    assert [payload for payload, _ in read(batch, receiver)] == sent[MOST:]


def test_an_error_of_the_socket_is_raised(ends, batch):
    receiver, _ = ends
    receiver.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        batch.receive(receiver)


def test_the_headers_tell_what_was_handed_over_and_not_forgotten(ends, headers, batch):
    receiver, sender = ends
    assert handed_over(headers) == 0
    for payload in (b"", b"a", b"b"):
        sender.send(payload)
    assert len(batch.receive(receiver)) == 3
    assert handed_over(headers) == 3
    batch.forget(3)
    assert handed_over(headers) == 0


@pytest.mark.parametrize("counted", [0, 2, 5])
def test_datagrams_that_a_killed_receiver_did_not_count_are_unread(ends, counted, tmp_path):
    """Each receiver takes five datagrams, counts some of them and is killed. The next one goes on with the counters."""
    receiver, sender = ends
    for life in (1, 2):
        for number in range(5):
            sender.send(b"%d" % number)
        pid = os.fork()
        if pid == 0:
            counts, headers = open_counters(tmp_path / "c")
            if len(Batch(headers, LONGEST).receive(receiver)) == 5:
                counts[counters.RECEIVED] += counted
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        expected = {"received": life * counted, "refused_unread": life * (5 - counted)}
        assert read_counters(tmp_path / "c") == dict.fromkeys(NAMES, 0) | expected
    open_counters(tmp_path / "c")
    assert read_counters(tmp_path / "c") == dict.fromkeys(NAMES, 0) | expected


def test_a_datagram_is_counted_once_at_every_step(ends, tmp_path):
    receiver, sender = ends
    counts, headers = open_counters(tmp_path / "c")
    batch = Batch(headers, LONGEST)
    for total in (3, 6):
        for _ in range(3):
            sender.send(b"")
        assert len(batch.receive(receiver)) == 3
        assert read_counters(tmp_path / "c")["refused_unread"] == 3
        counts[counters.RECEIVED] += 3
        assert read_counters(tmp_path / "c")["refused_unread"] == 0
        batch.forget(3)
        assert read_counters(tmp_path / "c")["refused_unread"] == 0
        counts[counters.BEFORE_BATCH] += 3
        assert read_counters(tmp_path / "c") == dict.fromkeys(NAMES, 0) | {"received": total}
