"""What the packets of a guest cost. They have no header of ours, so nothing tells two of them apart, or which message they are about.

A packet counts as expensive if it arrives at a host with the cost bit, which the switches set on expensive links. One that is lost after an
expensive link is not counted. Packets from before the run began, when the guest was starting, and after it ended are left out.
"""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.books import GUEST
from analysis.tables.scan import packets_table
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import RunInput


class GuestPackets(NamedTuple):
    """The packets of a guest in a run."""

    expensive: int
    """Packets that arrived with the cost bit."""
    crossings: int
    """Sightings on expensive links."""
    wrong_bits: int
    """Packets that came from another cluster without the cost bit, or that left their host with it for the same cluster.

    To other clusters a host itself may send packets with the bit: Linux answers a TCP packet with a reset that has the packet's bits."""


def guest_packets(run: RunInput) -> GuestPackets:
    """Count the packets of a guest."""
    seen = _read(packets_table(run.directory))
    counted, marked = pc.equal(seen["purpose"], GUEST), pc.equal(seen["dscp"], COST_DSCP)
    arriving, leaving = pc.equal(seen["target"], seen["destination"]), pc.equal(seen["source"], seen["sender"])
    cluster = {host: number for number, members in enumerate(run.network.clusters) for host in members}
    hosts, numbers = pa.array(cluster), pa.array(cluster.values())
    of_sender, of_receiver = (numbers.take(pc.index_in(seen[end], hosts)) for end in ("sender", "destination"))
    is_abroad = pc.not_equal(of_sender, of_receiver)
    unmarked = pc.and_(pc.and_(arriving, is_abroad), pc.invert(marked))
    marked_at_home = pc.and_(pc.and_(leaving, pc.invert(is_abroad)), marked)
    return GuestPackets(
        expensive=_count(pc.and_(counted, pc.and_(arriving, marked))),
        crossings=_count(pc.and_(counted, seen["expensive"])),
        wrong_bits=_count(unmarked) + _count(marked_at_home),
    )


def _read(place: Path) -> pa.Table:
    names = ["source", "target", "sender", "destination", "purpose", "dscp", "expensive"]
    return ds.dataset(place, format="parquet").to_table(names, filter=ds.field("purpose").is_valid(), use_threads=False)


def _count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0
