"""The data source as users of Spark see it."""

import json
import struct

import pytest
from pyspark.errors import PySparkException
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from sparkpcap import PcapDataSource, fetch, ipv4_text, reports
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
        ({"path": "hdfs://far/away.pcap"}, None, "copy it with sparkpcap.fetch"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(spark, folder, options, schema, sentence):
    reader = spark.read.format("pcap").options(**({"path": str(folder)} | options))
    reader = reader.schema(schema) if schema else reader
    with pytest.raises(PySparkException, match=sentence):
        reader.load().count()


def test_files_of_a_hadoop_file_system_are_fetched(spark, folder, tmp_path):
    copies = fetch(spark, f"file:{folder}/*.pcap", str(tmp_path / "copies"))
    assert [copy.rpartition("/")[2] for copy in copies] == ["a.pcap", "c.pcap"]
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == ["a.pcap", "c.pcap"]
    assert spark.read.format("pcap").load(str(tmp_path / "copies")).count() == 100
    with pytest.raises(ValueError, match="there is no file"):
        fetch(spark, f"file:{folder}/*.none", str(tmp_path / "copies"))
