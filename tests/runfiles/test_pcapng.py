"""All captures of a run as one file: links are interfaces, hosts have names, packets come by time."""

import shutil
import subprocess

import pytest
from scapy.utils import RawPcapNgReader

from runfiles.errors import ResultsError
from runfiles.pcapng import write_pcapng
from runfiles.reading import load
from tests.analysis.synthetic import honest
from tests.testbed.conftest import castbed


@pytest.fixture
def run(tmp_path):
    return load(honest().write(tmp_path / "run"))


def test_every_packet_is_there_once_and_by_time(run, tmp_path):
    count = write_pcapng(run, tmp_path / "run.pcapng")
    assert count == sum(capture.captured for capture in run.run.captures)
    with RawPcapNgReader(str(tmp_path / "run.pcapng")) as reader:
        found = [(about.tshigh << 32 | about.tslow, about.ifname) for _, about in reader]
    assert len(found) == count
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert {name.decode() for _, name in found} <= {f"{one.source}-{one.target}" for one in run.run.captures}


@pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
def test_wireshark_reads_it_with_names_of_links_and_hosts(run, tmp_path):
    write_pcapng(run, tmp_path / "run.pcapng")
    fields = [word for name in ("frame.interface_name", "ip.src_host") for word in ("-e", name)]
    words = ["tshark", "-N", "n", "-r", str(tmp_path / "run.pcapng"), "-T", "fields", *fields]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {"h1", "h3", "h4"} == {host for _, host in rows}
    assert "s1-s2" in {link for link, _ in rows}


def test_the_command_writes_it_beside_the_run(run):
    done = castbed("pcapng", str(run.directory))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{run.directory}.pcapng"


def test_each_of_several_runs_gets_a_file_of_its_own(tmp_path):
    for name in ("a", "b"):
        honest().write(tmp_path / "runs" / name)
    done = castbed("pcapng", str(tmp_path / "runs"))
    assert (done.returncode, done.stdout.split()) == (0, [f"{tmp_path}/runs/{name}.pcapng" for name in ("a", "b")])
    done = castbed("pcapng", str(tmp_path / "runs"), "--out", str(tmp_path / "all.pcapng"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_what_is_no_capture_is_a_sentence(run, tmp_path):
    (run.directory / run.run.captures[0].file).write_bytes(b"nonsense that is long enough")
    with pytest.raises(ResultsError, match="is not a capture"):
        write_pcapng(run, tmp_path / "run.pcapng")
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "nothing half-written is left"
