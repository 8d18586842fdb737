"""The data source as users of Spark see it."""

import gzip
import json
import struct

import pytest
from pyspark.errors import PySparkException
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from sparkpcap import PcapDataSource, ipv4_text, reports
from tests.sparkpcap.making import START_NS, classic

PAYLOAD = struct.Struct("!HBQ")
FIELDS = json.dumps([["magic", 0, ">u2"], ["kind", 2, "u1"], ["serial", 3, ">u8"]])


def frame(number: int, port: int = 9000, magic: int = 0xABCD) -> bytes:
    ip = IP(src=f"10.0.0.{number % 250}", dst="10.9.8.7", tos=12) / UDP(sport=1, dport=port)
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / PAYLOAD.pack(magic, 3, 2**63 + number))


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    """Three files: one whole, one with other traffic and a cut end, one that is no capture; and some that are not to be read."""
    spark.dataSource.register(PcapDataSource)
    folder = tmp_path_factory.mktemp("captures")
    (folder / "a.pcap").write_bytes(classic([(START_NS + number, frame(number)) for number in range(100)]))
    others = [(START_NS, frame(1, port=53)), (START_NS, frame(2, magic=1)), (START_NS, frame(3)), (START_NS, frame(4))]
    (folder / "inner").mkdir()
    (folder / "inner" / "b.pcap").write_bytes(classic(others)[:-1])
    (folder / "c.pcap").write_bytes(b"nothing of the kind")
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


def test_a_directory_is_a_table_with_a_row_a_packet(spark, folder):
    table = spark.read.format("pcap").load(str(folder))
    assert table.count() == 103
    row = table.where(f"at_ns = {START_NS + 7}").select("*", ipv4_text("source").alias("text")).collect()[0]
    assert (row.file, row.captured, row.original) == (str(folder / "a.pcap"), 53, 53)
    assert (row.text, row.destination, row.ip_protocol, row.dscp, row.destination_port) == ("10.0.0.7", 0x0A090807, 17, 3, 9000)
    assert (row.vlan, row.source_ipv6, row.ip_version, row.ip_length, row.udp_length) == (None, None, 4, 39, 19)


def test_packets_and_reports_come_in_one_pass(spark, folder):
    reader = spark.read.format("pcap").option("report", "true").option("udp_port", "9000").option("fields", FIELDS)
    table = reader.option("match", '{"magic": 43981}').option("partitions", "3").load(str(folder)).cache()
    packets = table.where("report is null")
    assert packets.count() == 102
    assert packets.where("magic is null").count() == 1
    assert [row.serial for row in packets.where(f"at_ns = {START_NS + 5}").collect()] == [5 - 2**63]
    found = {row.file: row for row in reports(table).collect()}
    assert tuple(found[str(folder / "a.pcap")])[1:] == (100, 0, 0, [])
    assert tuple(found[str(folder / "inner" / "b.pcap")])[1:4] == (3, 1, 0)
    assert "ends in the middle of a packet" in found[str(folder / "inner" / "b.pcap")].problems[0]
    assert found[str(folder / "c.pcap")].problems == ["is not a pcap file"]
    table.unpersist()


def test_what_does_not_match_can_be_dropped_and_links_can_have_names(spark, folder):
    reader = (
        spark.read.format("pcap").option("fields", FIELDS).option("match", '{"magic": 43981}').option("drop_unmatched", "true")
    )
    table = reader.option("links", '{"a.pcap": "one"}').load([str(folder / "a.pcap"), f"file:{folder}/in*/b.pcap"])
    assert {tuple(row) for row in table.groupBy("link").count().collect()} == {("one", 100), (None, 2)}


def test_a_schema_chooses_columns(spark, folder):
    table = spark.read.format("pcap").schema("destination_port int, at_ns long").load(str(folder / "a.pcap"))
    assert table.columns == ["destination_port", "at_ns"]
    assert table.first()[0] == 9000


@pytest.mark.parametrize(
    ("options", "schema", "sentence"),
    [
        ({}, "at_ns int", "the columns have other types than asked for"),
        ({}, "colour int", "there is no column 'colour'"),
        ({"udp_prt": "1"}, None, "there is no option 'udp_prt'"),
        ({"udp_port": "many"}, None, "must be a port's number"),
        ({"fields": "["}, None, "the option fields is not JSON"),
        ({"fields": '[["a", 0]]'}, None, "must be a list of name, offset and type"),
        ({"fields": '[["a", 0, "f4"]]'}, None, "a type is like u1"),
        ({"fields": '[["source", 0, "u1"]]'}, None, "there would be two columns 'source'"),
        ({"match": '{"a": 1}'}, None, "is not among the fields"),
        ({"partitions": "0"}, None, "must be a whole number above zero"),
        ({"path": "/nowhere/at/all.pcap"}, None, "there is no file /nowhere/at/all.pcap"),
        ({"path": "viewfs://far/away.pcap"}, None, "viewfs://far/away.pcap cannot be listed: .*Empty Mount table"),
        ({"path": "far://away/away.pcap"}, None, "cannot be listed: No FileSystem for scheme"),
        ({"hadoop": "[]"}, None, "the option hadoop must be a JSON object"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(spark, folder, options, schema, sentence):
    reader = spark.read.format("pcap").options(**({"path": str(folder)} | options))
    reader = reader.schema(schema) if schema else reader
    with pytest.raises(PySparkException, match=sentence):
        reader.load().count()


@pytest.fixture(scope="module")
def mounted(folder, tmp_path_factory):
    """How to reach the files, and some others, as a file system of Hadoop's that is not this machine's."""
    more = tmp_path_factory.mktemp("more")
    long = classic([(START_NS + number, bytes(10_000)) for number in range(2000)])
    (more / "long.pcap").write_bytes(long)
    (more / "long.pcap.gz").write_bytes(gzip.compress(long, 1))
    (more / "cut.pcap.gz").write_bytes(gzip.compress(long, 1)[:-1000])
    links = {f"fs.viewfs.mounttable.far.link./{name}": f"file:{path}" for name, path in (("captures", folder), ("more", more))}
    return json.dumps(links)


@pytest.mark.parametrize("uri", ["viewfs://far/captures", "viewfs://far/captures/{,inner/}*.pcap"])
def test_a_file_system_of_hadoops_holds_the_same_table(spark, folder, mounted, uri):
    def table(path):
        found = spark.read.format("pcap").option("report", "true").option("hadoop", mounted).load(path)
        return sorted(tuple(row)[1:] for row in found.where("report is null").collect()), {
            row.file.rpartition("/")[2]: tuple(row)[1:] for row in reports(found).collect()
        }

    assert table(uri) == table(str(folder))


def test_a_long_file_in_a_file_system_of_hadoops_is_cut_like_any_other_unless_it_is_compressed(spark, mounted):
    def load(name):
        reader = spark.read.format("pcap").schema("file string, at_ns long, captured int").option("hadoop", mounted)
        return reader.option("partitions", "2").load(f"viewfs://far/more/{name}")

    assert [load("long.pcap").rdd.getNumPartitions(), load("long.pcap.gz").rdd.getNumPartitions()] == [2, 1]
    rows = [("viewfs://far/more/long.pcap", START_NS + number, 10_000) for number in range(2000)]
    assert sorted(map(tuple, load("long.pcap").collect())) == rows
    assert sorted(map(tuple, load("long.pcap.gz").collect())) == [(f"{file}.gz", *rest) for file, *rest in rows]
    assert 0 < load("cut.pcap.gz").count() < 2000
