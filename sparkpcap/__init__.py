"""Packet captures as Spark tables: `spark.dataSource.register(PcapDataSource)`, then `spark.read.format("pcap").load(...)`."""

from sparkpcap.source import PcapDataSource, ipv4_text, reports

__all__ = ["PcapDataSource", "ipv4_text", "reports"]
