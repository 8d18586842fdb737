"""Packet captures as Spark tables: `spark.dataSource.register(PcapDataSource)`, then `spark.read.format("pcap").load(...)`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkpcap.source import PcapDataSource, ipv4_text, reports

__all__ = ["PcapDataSource", "ipv4_text", "reports"]


def __getattr__(name: str) -> Any:
    """Import Spark when it is first used: captures can be read without it."""
    if name in __all__:
        return getattr(importlib.import_module("sparkpcap.source"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
