"""What the packets of a guest cost, from a packets table made by hand."""

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.tables.guests import GuestPackets, guest_packets
from analysis.tables.scan import PACKETS, packets_table
from hostagent.contract.wire import COST_DSCP
from runfiles.reading import load
from tests.analysis.synthetic import Maker


def seen(
    source: str, target: str, sender: str, destination: str, *, marked: bool = False, expensive: bool = False, purpose="guest"
):
    fields = dict.fromkeys(PACKETS.names) | {"source": source, "target": target, "sender": sender, "destination": destination}
    return fields | {"dscp": COST_DSCP if marked else 0, "expensive": expensive, "purpose": purpose}


def count(tmp_path, *rows) -> GuestPackets:
    run = load(Maker().write(tmp_path / "run"))
    packets_table(run.directory).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), PACKETS), packets_table(run.directory) / "part-0.parquet")
    return guest_packets(run)


def test_a_packet_counts_once_where_it_arrives_and_its_crossings_beside_it(tmp_path):
    found = count(
        tmp_path,
        seen("h1", "s1", "h1", "h3"),
        seen("s1", "s2", "h1", "h3", marked=True, expensive=True),
        seen("s2", "h3", "h1", "h3", marked=True),
        seen("h1", "s1", "h1", "h2"),
        seen("s1", "h2", "h1", "h2"),
    )
    assert found == GuestPackets(expensive=1, crossings=1, wrong_bits=0)


def test_packets_from_outside_the_time_of_the_run_and_of_others_cost_nothing(tmp_path):
    found = count(
        tmp_path,
        seen("s1", "s2", "h1", "h3", marked=True, expensive=True, purpose="guest-outside"),
        seen("s2", "h3", "h1", "h3", marked=True, purpose="guest-outside"),
        seen("s2", "h3", None, "h3", marked=True, purpose=None),
    )
    assert found == GuestPackets(expensive=0, crossings=0, wrong_bits=0)


def test_a_cost_bit_that_cannot_be_right_is_counted(tmp_path):
    found = count(
        tmp_path,
        seen("s2", "h3", "h1", "h3"),
        seen("h1", "s1", "h1", "h2", marked=True),
        # An answer to a packet from afar may have its bits.
        seen("h1", "s1", "h1", "h3", marked=True),
    )
    assert found.wrong_bits == 2
