"""The agent's datagrams per second, compared with a bare Python loop of recvmsg and sendto in the same run.

Both receivers sit in a network namespace at one end of a veth pair; this process sits at the other end and sends the same datagrams to
each: distinct messages of the protocol `basic`, encoded beforehand, with at most `WINDOW` of them unanswered. The agent, started by its
launcher as in any run, decodes and validates each, delivers it, logs and stores the delivery, and acknowledges it. The bare loop receives a
datagram with its cost bit, and sends as many bytes back as the agent. If a datagram is not answered, nothing is reported.

To do the same work as the bare loop, the agent answers each datagram with one of its own: packing is off. The agent's default, all
acknowledgements of one wake-up in one datagram, is measured too.

In wall time, both receivers also wait for this process, which sends and receives as much as they do. The receiver's own processor time
includes neither that nor other load of the machine: it is the stricter figure. The target applies to both.
"""

import argparse
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks import report
from benchmarks.yardsticks.bare_loop import with_room
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import HEADER, PACK, PORT, Codec
from hostagent.parts.delivery import Copy
from hostagent.protocols.basic import Ack, Basic
from hostagent.runtime.agent import Setting
from hostagent.runtime.control import StartOrder
from hostagent.runtime.launcher import LaunchOrder
from hostagent.runtime.namespace import inside
from testbed.errors import CannotRun
from testbed.network import doctor, record, shell
from testbed.network.record import uninterrupted
from testbed.terminal import errors

ADDRESSES = {"sender": "10.0.0.1", "receiver": "10.0.0.2"}
NUMBERS = {host: number for number, host in enumerate(ADDRESSES, start=1)}
PAYLOAD = b"." * 64
# Enough to keep the receiver busy while the answers to a whole wake-up of the agent are taken in.
WINDOW = 512
TARGET, PACKED_TARGET = 0.6, 1.2
# If a receiver is silent for this long, a datagram was lost.
PATIENCE_S = 5.0


@dataclass(frozen=True)
class Rates:
    """The rates that a receiver reached."""

    per_cpu_s: float
    per_wall_s: float


@contextmanager
def two_namespaces() -> Iterator[dict[str, Path]]:
    """Two network namespaces joined by a veth pair; yields the path of each."""
    with record.claim() as private:
        names = {host: f"{private.name}-{host}" for host in ADDRESSES}
        made = record.Record(namespaces=tuple(names.values()))
        (private / "record.json").write_bytes(msgspec.json.encode(made))
        try:
            shell.ip([f"netns add {name}" for name in names.values()])
            shell.ip([f"link add eth0 netns {names['sender']} type veth peer name eth0 netns {names['receiver']}"])
            for host, name in names.items():
                shell.ip([f"address add {ADDRESSES[host]}/24 dev eth0", "link set eth0 up"], name)
            yield {host: Path("/run/netns", name) for host, name in names.items()}
        finally:
            with uninterrupted():
                record.unmake(made)


@contextmanager
def the_agent(namespaces: dict[str, Path], run: int, pack_ms: float | None) -> Iterator[int]:
    """The receiver as an agent that runs `basic`, with a fresh store; yields its process."""
    with tempfile.TemporaryDirectory() as directory:
        setting = Setting(
            run=run,
            protocol=Basic.name,
            parameters={},
            seed=1,
            port=PORT,
            addresses=ADDRESSES,
            events=directory,
            private=directory,
            pack_ms=pack_ms,
        )
        order = Path(directory, "order.json")
        order.write_bytes(msgspec.json.encode(LaunchOrder(setting, {host: str(path) for host, path in namespaces.items()})))
        with _started(
            [sys.executable, "-m", "hostagent.runtime.launcher", str(order)],
            msgspec.json.encode(StartOrder("receiver", 1)).decode() + "\n",
        ) as (said, _):
            yield int(said.split()[2])


@contextmanager
def the_bare_loop(namespaces: dict[str, Path], run: int) -> Iterator[int]:
    """The receiver as a bare loop that answers as many bytes as the agent does; yields its process."""
    answer = len(_codec(run).encode(NUMBERS["receiver"], 1, Ack(0, "sender", 1), Purpose.CONTROL, time.time_ns()))
    loop = [sys.executable, "-m", "benchmarks.yardsticks.bare_loop", ADDRESSES["receiver"], str(PORT), str(answer)]
    with _started(["nsenter", f"--net={namespaces['receiver']}", *loop]) as (_, pid):
        yield pid


@contextmanager
def _started(command: list[str], orders: str = "") -> Iterator[tuple[str, int]]:
    """A process that prints a line when it is ready; yields that line and the process."""
    process = subprocess.Popen(
        [*shell.WITH_US, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("pipes were asked for")
    with process:
        try:
            process.stdin.write(orders)
            process.stdin.flush()
            said = process.stdout.readline()
            if not said.startswith("ready"):
                raise CannotRun(f"the receiver did not start: {said.strip() or 'see above'}")
            yield said, process.pid
        finally:
            process.kill()


def _codec(run: int) -> Codec:
    return Codec(Basic.number, Basic.messages, run, NUMBERS)


def encoded(run: int, count: int) -> list[bytes]:
    """Distinct messages of the sender, encoded as datagrams."""
    encode, now = _codec(run).encode, time.time_ns()
    return [encode(NUMBERS["sender"], n, Copy(0, "sender", n, PAYLOAD), Purpose.DATA, now) for n in range(1, count + 1)]


def flood(namespace: Path, datagrams: list[bytes], pid: int) -> Rates:
    """Send every datagram and wait for as many answers, packed or not. Returns the rates of the process that answers."""
    unsent, unanswered = iter(datagrams), len(datagrams)
    with inside(namespace):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with udp:
        with_room(udp)
        udp.bind((ADDRESSES["sender"], PORT))
        udp.connect((ADDRESSES["receiver"], PORT))
        udp.settimeout(PATIENCE_S)
        cpu_s, wall_s = report.cpu_s(pid), time.monotonic()
        try:
            answered = WINDOW
            while unanswered:
                for datagram in islice(unsent, answered):
                    udp.send(datagram)
                answered = messages_in(udp.recv(2048))
                unanswered -= answered
        except TimeoutError:
            raise CannotRun(f"no answer for {PATIENCE_S:.0f} s: datagrams were lost, so there is nothing to compare") from None
        return Rates(len(datagrams) / (report.cpu_s(pid) - cpu_s), len(datagrams) / (time.monotonic() - wall_s))


def messages_in(datagram: bytes) -> int:
    """How many messages a datagram carries, read from the first bytes of a pack only: the sender must not be the bottleneck."""
    return int.from_bytes(datagram[HEADER.size + 1 : HEADER.size + 3]) if datagram[4] == PACK else 1


def measure(arguments: argparse.Namespace) -> report.Result:
    """Flood the receivers in turn."""
    doctor.require(Path(tempfile.gettempdir()))
    run = secrets.randbits(32)
    datagrams = encoded(run, arguments.datagrams)
    receivers: dict[str, Callable[[dict[str, Path], int], AbstractContextManager[int]]] = {
        "agent": partial(the_agent, pack_ms=None),
        "agent that packs": partial(the_agent, pack_ms=0.0),
        "bare loop": the_bare_loop,
    }
    rates: dict[str, list[Rates]] = {name: [] for name in receivers}
    with two_namespaces() as namespaces:
        for number in range(arguments.repeat):
            for name in report.in_turn(number, *receivers):
                errors.print(f"datagrams to the {name}, {number + 1} of {arguments.repeat}")
                with receivers[name](namespaces, run) as pid:
                    rates[name].append(flood(namespaces["sender"], datagrams, pid))
    return report.Result(
        "Datagrams received and answered by the agent, per second",
        "bare loop",
        [
            _compare(rates[name], rates["bare loop"], f"{what}{suffix}", figure, target if figure == "per_cpu_s" else None)
            for name, suffix, target in (("agent", "", TARGET), ("agent that packs", ", answers packed", PACKED_TARGET))
            for what, figure in (("processor time", "per_cpu_s"), ("wall time", "per_wall_s"))
        ],
    )


def _compare(ours: list[Rates], bare: list[Rates], what: str, figure: str, target: float | None) -> report.Comparison:
    own, floor = ([getattr(rates, figure) for rates in side] for side in (ours, bare))
    return report.Comparison(what, "/s", own, floor, target, more_is_better=True)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.agent", description="The agent's datagrams per second against a bare loop's."
    )
    parser.add_argument("--repeat", type=report.positive, default=5, metavar="N", help="take the median of N (default 5)")
    parser.add_argument(
        "--datagrams", type=report.positive, default=100_000, metavar="N", help="how many to send (default 100000)"
    )
    return report.main(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
