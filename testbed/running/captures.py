"""Runs one tcpdump for each direction of a link between switches, and one for each access link of a host.

Both directions of a link between switches are captured at its end `b`. That interface is never taken down: a link fails by taking its
end `a` down, and tcpdump stops when its interface goes down. Access links are captured at the switch.
"""

import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hostagent.contract.wire import PORT
from runfiles.format import CaptureRecord
from testbed.errors import CannotRun
from testbed.network.plan import Plan
from testbed.network.shell import WITH_US

# The header of a message ends at byte 78; the rest is room for the tags of a tunnel or a VLAN.
SNAP_BYTES = 96
# More than the longest frame of a network with an MTU of 1500 bytes.
FULL_BYTES = 1600
# Room for about 4,000 packets while tcpdump waits for a core, by how much of a packet is kept.
BUFFER_KIB = {SNAP_BYTES: 1024, FULL_BYTES: 8192}
PATIENCE_S = 60.0


@dataclass
class _Tcpdump:
    capture: CaptureRecord
    process: "subprocess.Popen[bytes]"
    messages: Path


class Captures:
    """The captures of a run, from start to stop."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        private: Path,
        *,
        everything: bool = False,
        full: bool = False,
        at_once: bool = False,
    ) -> None:
        """Start them. With `everything` they have all IPv4 packets, else datagrams of agents only; with `full` they have whole packets.

        With `at_once` each packet is in its file as soon as it is captured, for those who read the files while they grow. (tcpdump can
        also be told to flush, by SIGUSR2. It does so in the middle of whatever it is writing, and spoils the file.)
        """
        kept_bytes = FULL_BYTES if full else SNAP_BYTES
        options = ["-s", str(kept_bytes), "-B", str(BUFFER_KIB[kept_bytes]), *(["-U"] if at_once else [])]
        chosen = "ip" if everything else f"udp port {PORT}"
        directory.mkdir()
        self.planned = planned(plan)
        self.deaths: list[str] = []
        """A sentence for each tcpdump that ended without having been stopped."""
        self._running = [_start(plan, directory, private, capture, [*options, chosen]) for capture in self.planned]
        self._ended: set[str] = set()
        self._stopped = False
        self._wait_until_listening()

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes of the captures."""
        return tuple(tcpdump.process.pid for tcpdump in self._running)

    def stop(self) -> tuple[CaptureRecord, ...]:
        """End every capture and read its counts: the packets that it captured, and those that the kernel dropped."""
        self.notice()
        self._stopped = True
        for tcpdump in self._running:
            tcpdump.process.send_signal(signal.SIGINT)
        return tuple(map(self._account, self._running))

    def kill(self) -> None:
        """Kill every tcpdump that still runs, after an error."""
        for tcpdump in self._running:
            tcpdump.process.kill()
            tcpdump.process.wait()

    def notice(self) -> None:
        """Add a sentence to `deaths` for each tcpdump that has ended by itself."""
        for tcpdump in self._running:
            if not self._stopped and tcpdump.process.poll() is not None:
                self._note_death(tcpdump)

    def _note_death(self, tcpdump: _Tcpdump) -> None:
        file = tcpdump.capture.file
        if file not in self._ended:
            self._ended.add(file)
            said = (tcpdump.messages.read_text().strip().splitlines() or ["nothing"])[-1]
            self.deaths.append(f"the tcpdump of {file} died with status {tcpdump.process.returncode}; its last line was: {said}")

    def _account(self, tcpdump: _Tcpdump) -> CaptureRecord:
        """The record of a capture, with the counts that tcpdump printed at its end. A tcpdump that was killed printed none."""
        tcpdump.process.wait()
        said = tcpdump.messages.read_text()
        captured = re.search(r"(\d+) packets? captured", said)
        dropped = re.search(r"(\d+) packets? dropped by kernel", said)
        if captured is None or dropped is None:
            self._note_death(tcpdump)
            return msgspec.structs.replace(tcpdump.capture, captured=None)
        return msgspec.structs.replace(tcpdump.capture, captured=int(captured[1]), dropped=int(dropped[1]))

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for tcpdump in self._running:
            while b"listening on" not in tcpdump.messages.read_bytes():
                if tcpdump.process.poll() is not None or time.monotonic() > deadline:
                    said = tcpdump.messages.read_text().strip() or "nothing"
                    self.kill()
                    raise CannotRun(f"tcpdump does not capture {tcpdump.capture.file}; it printed: {said}")
                time.sleep(0.01)


def planned(plan: Plan) -> list[CaptureRecord]:
    """The captures that a network needs."""
    captures = []
    for link in plan.network.links:
        if plan.network.is_host(link.a) or plan.network.is_host(link.b):
            host, switch = (link.a, link.b) if plan.network.is_host(link.a) else (link.b, link.a)
            captures.append(CaptureRecord(f"captures/{host}-{switch}.pcap", host, switch, both_ways=True, captured=0, dropped=0))
        else:
            for source, target in ((link.a, link.b), (link.b, link.a)):
                captures.append(
                    CaptureRecord(f"captures/{source}-{target}.pcap", source, target, both_ways=False, captured=0, dropped=0)
                )
    return captures


def _start(plan: Plan, directory: Path, private: Path, capture: CaptureRecord, options: Sequence[str]) -> _Tcpdump:
    if capture.both_ways:
        end, direction = plan.end(capture.target, capture.source), "inout"
    else:
        last = plan.network.link(capture.source, capture.target).b
        end = plan.end(last, capture.source if last == capture.target else capture.target)
        direction = "in" if last == capture.target else "out"
    messages = private / f"{end.interface}.{direction}"
    command = ["tcpdump", "-Z", "root", "-i", end.interface, "-Q", direction, "-n"]
    command += ["--immediate-mode", "--time-stamp-precision=nano", "-w", str(directory.parent / capture.file), *options]
    with messages.open("wb") as output:
        process = subprocess.Popen(
            [*WITH_US, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    return _Tcpdump(capture, process, messages)
