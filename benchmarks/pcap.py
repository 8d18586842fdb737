"""Captures to costs: packets per second from pcap over Parquet to the cost of each link, compared with tshark, dpkt, Scapy and a bare read.

Files of 1 MB, 100 MB and 1 GB hold datagrams as agents send them, 78 to 1514 bytes long, on an expensive link. All figures are of the same
machine in the same run. tshark prints the fields that the packets table has; dpkt and Scapy decode a packet up to the UDP payload. These
two get as many packets as they manage in some seconds, and their time for all packets follows from that rate. *Cold* is the time from the
command to the printed table, with the start of Spark. Every measurement of Castbed is a process of its own that reads a small file first.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np

from analysis import spark
from analysis.crew import Crew
from analysis.tables.scan import scan_packets
from benchmarks import report
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Promise
from hostagent.contract.wire import COST_TOS, FIELDS, HEADER, MAGIC, PORT, VERSION
from runfiles.format import CaptureRecord, RunRecord
from runfiles.reading import RunInput
from sparkpcap import PcapDataSource
from testbed.errors import CannotRun
from testbed.terminal import errors
from topologies import clusters

SIZES = {"1 MB": 1 << 20, "100 MB": 100 << 20, "1 GB": 1 << 30}
LARGEST = "1 GB"
RUN = 1
NETWORK = clusters(2, 2, "line")
# How many packets of a file dpkt and Scapy get: some seconds of work each.
DPKT_PACKETS, SCAPY_PACKETS = 100_000, 5_000
TSHARK_FIELDS = (
    *("frame.time_epoch", "frame.cap_len", "frame.len", "ip.src", "ip.dst", "ip.proto", "ip.dsfield.dscp", "ip.len"),
    *("udp.srcport", "udp.dstport", "udp.length", "data.data"),
)
WARM_TARGET, COLD_TARGET, CORES_TARGET, START_TARGET = 25.0, 3.0, 1.6, 0.5
# Windows and batches are as large for a long file as for a short one, so only the memory allocator makes a difference.
MEMORY_TARGET = 1.2


def write_capture(path: Path, size: int) -> int:
    """Write a capture of about `size` bytes. Returns the number of packets in it."""
    generator, written, count, at_ns = np.random.default_rng(1), 24, 0, 1_700_000_000 * 10**9
    source, target = (int(IPv4Address(NETWORK.addresses[host])) for host in (NETWORK.hosts[0], NETWORK.hosts[-1]))
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        while written < size:
            at_ns, length, count = at_ns + 1000, int(generator.integers(78, 1515)), count + 1
            ip = struct.pack("!BBHHHBBHII", 0x45, COST_TOS, length - 14, 0, 0x4000, 64, 17, 0, source, target)
            udp = struct.pack("!HHHH", PORT, PORT, length - 34, 0)
            header = HEADER.pack(MAGIC, VERSION, 1, 0, Purpose(count % 3), RUN, 1, count, 0, 1, count, at_ns)
            record = struct.pack("<IIII", at_ns // 10**9, at_ns % 10**9, length, length)
            written += file.write(record + bytes(12) + b"\x08\x00" + ip + udp + header + bytes(length - 78))
    return count


def run_of(path: Path, directory: Path) -> RunInput:
    """A run whose only capture is this file, on the expensive link."""
    link = next(link for link in NETWORK.links if link.expensive)
    captures = (CaptureRecord(str(path), link.a, link.b, both_ways=False, captured=0, dropped=0),)
    described = RunRecord(
        run=RUN, scenario="benchmark", protocol="basic", engine="mininet", seed=1, settings={}, parameters={}, udp_port=PORT,
        promise=Promise(guarantees=(), patience_ms=0.0, retained=0), started_ns=0, ended_ns=0, versions={}, datapath="", shaping="",
        captures=captures, link_drops=(),
    )  # fmt: skip
    return RunInput(directory, described, NETWORK, {}, ())


def costs(session: Any, path: Path, tables_in: Path) -> list[dict[str, Any]]:
    """From pcap to Parquet to the table of costs."""
    return list(scan_packets(Crew(session=session), [run_of(path, tables_in)]).link_costs.to_pylist())


def parse(session: Any, path: Path) -> None:
    """Bring every field of every packet to Spark's side, and do nothing with it."""
    reader = session.read.format("pcap").option("udp_port", str(PORT)).option("fields", json.dumps(FIELDS))
    reader.load(str(path)).write.format("noop").mode("overwrite").save()


def warm(path: Path, small: Path, cores: int, repeat: int) -> dict[str, Any]:
    """Measure `costs` and `parse` several times with a session that is up, and the peak memory of the workers."""
    # Pinned, since a worker and the JVM would use two cores for one task.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    session = spark.start_session(f"local[{cores}]")
    session.dataSource.register(PcapDataSource)
    with tempfile.TemporaryDirectory(dir=path.parent) as private:
        costs(session, small, Path(private))
        parse(session, small)
        ours = [_seconds(lambda: costs(session, path, Path(private))) for _ in range(repeat)]
        parsing = [_seconds(lambda: parse(session, path)) for _ in range(repeat)]
        packets = sum(row["packets"] for row in costs(session, path, Path(private)))
    return {"costs_s": ours, "parse_s": parsing, "packets": packets, "worker_kb": max(_workers_kb())}


def cold(path: Path, cores: int) -> None:
    """The whole command, as a user would type it, up to the printed table."""
    session = spark.start_session(f"local[{cores}]")
    with tempfile.TemporaryDirectory(dir=path.parent) as private:
        print(json.dumps(costs(session, path, Path(private))))


def start(how: str) -> float:
    """Seconds until a session is up: Castbed's, or PySpark's with its defaults."""
    begin = time.perf_counter()
    if how == "default":
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only here

        os.environ["PYSPARK_PYTHON"] = sys.executable
        SparkSession.builder.getOrCreate()
    else:
        spark.start_session()
    return time.perf_counter() - begin


def _workers_kb() -> Iterator[int]:
    """The peak memory of each Python worker that Spark has started below this process."""
    parents = {int(path.name): path for path in Path("/proc").iterdir() if path.name.isdigit()}
    below, ours = dict[int, int](), {os.getpid()}
    for number, path in parents.items():
        try:
            below[number] = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    while more := {number for number, parent in below.items() if parent in ours} - ours:
        ours |= more
    for number in ours - {os.getpid()}:
        if b"pyspark" in (parents[number] / "cmdline").read_bytes() and b"java" not in (parents[number] / "cmdline").read_bytes():
            status = (parents[number] / "status").read_text()
            yield int(status.partition("VmHWM:")[2].split()[0])


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _child(*arguments: object) -> Any:
    command = [sys.executable, "-m", "benchmarks.pcap", *map(str, arguments)]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if process.returncode:
        raise CannotRun(f"the measurement failed: {' '.join(command)}")
    return json.loads(process.stdout)


def tshark(path: Path) -> float:
    """Packets per second over the whole file, since tshark takes some tenths of a second to start."""
    asked = [word for name in TSHARK_FIELDS for word in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *asked]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        if process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        lines = sum(1 for _ in process.stdout)
    return lines / (time.perf_counter() - begin)


def dpkt_peer(path: Path) -> float:
    """Packets per second."""
    import dpkt  # type: ignore[import-untyped] # noqa: PLC0415 - only benchmarks have it

    count, begin = 0, time.perf_counter()
    with path.open("rb") as file:
        for count, (_, data) in enumerate(dpkt.pcap.Reader(file), 1):
            datagram = dpkt.ethernet.Ethernet(data).data
            _ = (
                datagram.src,
                datagram.dst,
                datagram.tos,
                datagram.len,
                datagram.data.dport,
                HEADER.unpack_from(datagram.data.data),
            )
            if count >= DPKT_PACKETS:
                break
    return count / (time.perf_counter() - begin)


def scapy_peer(path: Path) -> float:
    """Packets per second."""
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415 - takes a second to import
    from scapy.utils import PcapReader  # noqa: PLC0415 - the same

    count, begin = 0, time.perf_counter()
    with PcapReader(str(path)) as packets:
        for count, packet in enumerate(packets, 1):
            _ = (
                packet[IP].src,
                packet[IP].dst,
                packet[IP].tos,
                packet[IP].len,
                packet[UDP].dport,
                HEADER.unpack_from(bytes(packet[UDP].payload)),
            )
            if count >= SCAPY_PACKETS:
                break
    return count / (time.perf_counter() - begin)


def bare_read(path: Path) -> float:
    """Seconds to read the file and do nothing with it."""

    def read() -> None:
        buffer = bytearray(1 << 20)
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    return _seconds(read)


def measure(arguments: argparse.Namespace) -> report.Result:
    """Measure everything in turn."""
    if not spark.ARCHIVE.exists():
        raise CannotRun("there is no archive of Spark's classes: run ./setup.sh first")
    with tempfile.TemporaryDirectory(prefix="castbed-pcap-", dir=arguments.scratch) as private:
        files = {name: Path(private) / f"{size}.pcap" for name, size in SIZES.items()}
        packets = {}
        for name, size in SIZES.items():
            errors.print(f"writing {name}")
            packets[name] = write_capture(files[name], size)
        return _compare(files, packets, arguments.repeat)


def _compare(files: dict[str, Path], packets: dict[str, int], repeat: int) -> report.Result:
    warmed: dict[tuple[str, int], dict[str, Any]] = {}
    peers: dict[str, dict[str, list[float]]] = {name: {"tshark": [], "dpkt": [], "scapy": [], "read": []} for name in files}
    colds: list[float] = []
    starts: dict[str, list[float]] = {"castbed": [], "default": []}
    for number in range(repeat):
        for how in report.in_turn(number, *starts):
            errors.print(f"start of Spark, {how}, {number + 1} of {repeat}")
            starts[how].append(_child("--start", how))
    for name, path in files.items():
        for cores in (1, 2):
            errors.print(f"{name} on {cores} cores")
            warmed[name, cores] = _child("--warm", path, "--small", files["1 MB"], "--cores", cores, "--repeat", repeat)
            if warmed[name, cores]["packets"] != packets[name]:
                raise CannotRun(
                    f"{warmed[name, cores]['packets']} packets instead of {packets[name]}: there is nothing to compare"
                )
        for _ in range(repeat):
            errors.print(f"{name}: tshark, dpkt, Scapy")
            for peer, measured in (("tshark", tshark), ("dpkt", dpkt_peer), ("scapy", scapy_peer), ("read", bare_read)):
                peers[name][peer].append(measured(path))
    for number in range(repeat):
        errors.print(f"cold, {number + 1} of {repeat}")
        colds.append(_seconds(lambda: _child("--cold", files[LARGEST], "--cores", 2)))
    return report.Result(
        "Captures to costs",
        "yardstick",
        [*_speeds(warmed, peers, packets), *_targets(warmed, peers, packets, colds, starts)],
        [f"{name}: {packets[name]:,} packets, {files[name].stat().st_size / 1e6:,.0f} MB" for name in files],
    )


def _speeds(warmed: Any, peers: Any, packets: dict[str, int]) -> Iterator[report.Comparison]:
    for name, count in packets.items():
        for cores in (1, 2):
            rates = [count / seconds for seconds in warmed[name, cores]["costs_s"]]
            target = WARM_TARGET if (name, cores) == (LARGEST, 2) else None
            what = f"{name}, pcap to Parquet to costs, {cores} cores; tshark"
            yield report.Comparison(what, "/s", rates, peers[name]["tshark"], target, more_is_better=True)
            rates = [count / seconds for seconds in warmed[name, cores]["parse_s"]]
            what = f"{name}, pcap to Spark, {cores} cores; tshark"
            yield report.Comparison(what, "/s", rates, peers[name]["tshark"], more_is_better=True)
    count, best = packets[LARGEST], [packets[LARGEST] / seconds for seconds in warmed[LARGEST, 2]["costs_s"]]
    for peer in ("dpkt", "scapy"):
        yield report.Comparison(
            f"{LARGEST}, pcap to Parquet to costs; {peer}", "/s", best, peers[LARGEST][peer], more_is_better=True
        )
    megabytes = SIZES[LARGEST] / 1e6
    reads = [megabytes / seconds for seconds in peers[LARGEST]["read"]]
    for what, key in (("pcap to Parquet to costs", "costs_s"), ("pcap to Spark", "parse_s")):
        rates = [megabytes / seconds for seconds in warmed[LARGEST, 2][key]]
        yield report.Comparison(f"{LARGEST}, {what}; bare read", "MB/s", rates, reads, more_is_better=True)


def _targets(warmed: Any, peers: Any, packets: dict[str, int], colds: list[float], starts: Any) -> Iterator[report.Comparison]:
    whole_s = packets[LARGEST] / statistics.median(peers[LARGEST]["tshark"])
    yield report.Comparison(f"{LARGEST}, cold; tshark, from its rate", "s", colds, [whole_s], 1 / COLD_TARGET)
    one, two = ([packets[LARGEST] / seconds for seconds in warmed[LARGEST, cores]["parse_s"]] for cores in (1, 2))
    yield report.Comparison(f"{LARGEST}, pcap to Spark, 2 cores; 1 core", "/s", two, one, CORES_TARGET, more_is_better=True)
    small, large = ([warmed[name, 2]["worker_kb"] / 1000] for name in ("100 MB", LARGEST))
    yield report.Comparison(f"peak memory of a worker, {LARGEST}; 100 MB", "MB", large, small, MEMORY_TARGET)
    yield report.Comparison("start of Spark; PySpark's default", "s", starts["castbed"], starts["default"], START_TARGET)


def main() -> int:
    """Run the benchmark, or one measurement of it."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.pcap", description="From captures to the cost table, against tshark, dpkt and Scapy."
    )
    parser.add_argument("--repeat", type=report.positive, default=3, metavar="N", help="take the median of N (default 3)")
    parser.add_argument(
        "--scratch", type=Path, metavar="FOLDER", help="where to write captures, 1.2 GB of them (default: the usual one)"
    )
    for name in ("--warm", "--small", "--cold", "--start"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=report.positive, default=2, help=argparse.SUPPRESS)
    one, _ = parser.parse_known_args()
    if one.warm:
        print(json.dumps(warm(Path(one.warm), Path(one.small), one.cores, one.repeat)))
    elif one.cold:
        cold(Path(one.cold), one.cores)
    elif one.start:
        print(json.dumps(start(one.start)))
    else:
        return report.main(parser, measure)
    return report.MET


if __name__ == "__main__":
    sys.exit(main())
