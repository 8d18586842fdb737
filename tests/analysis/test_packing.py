"""A pack is one packet: of the purpose and for the message that its header names."""

import pyarrow.parquet as pq
import pytest

from analysis.job import analyse
from analysis.pages.terminal_tables import summary_table
from hostagent.contract.messages import Purpose
from hostagent.contract.wire import PACK
from tests.analysis.synthetic import START_NS, Maker, honest


@pytest.fixture(scope="module")
def analysed(crew, tmp_path_factory):
    """Two messages in one datagram to each host, and two acknowledgements in one from each; and a run in which nobody counted."""
    maker = Maker("packed")
    for sequence in (1, 2):
        maker.broadcast("h1", sequence, START_NS)
    for host in ("h2", "h3", "h4"):
        maker.send("h1", host, START_NS, Purpose.DATA, ("h1", 1), kind=PACK)
        maker.send(host, "h1", START_NS + 10_000_000, Purpose.CONTROL, ("h1", 1), kind=PACK)
    for counters in maker.counters.values():
        counters["messages"] = 2 * counters["sent"]
    root = tmp_path_factory.mktemp("runs")
    directories = [maker.write(root / "packed"), honest().write(root / "honest")]
    return root / "packed", analyse(directories, crew)


def test_costs_count_packets_and_not_what_is_in_them(analysed):
    _, (packed, _) = analysed
    assert packed.balanced, packed.differences
    assert packed.cost.expensive_data_packets_per_message == packed.cost.expensive_control_packets_per_message == 2 / 2
    assert packed.delivered_share == 1.0


def test_the_packets_table_shows_a_pack_with_what_its_header_says(analysed):
    directory, _ = analysed
    rows = pq.read_table(directory / "tables" / "packets.parquet").to_pylist()
    assert {(row["kind"], row["purpose"], row["origin"], row["sequence"]) for row in rows} == {
        (PACK, "data", "h1", 1),
        (PACK, "control", "h1", 1),
    }


def test_the_summary_says_how_many_messages_a_datagram_carried_where_that_was_counted(analysed):
    _, (packed, uncounted) = analysed
    assert (packed.messages_per_datagram, uncounted.messages_per_datagram) == (2.0, None)
    assert "several messages share a packet, on average: packed 2.00" in str(summary_table([packed, uncounted]).caption)
    assert "datagram" not in str(summary_table([uncounted]).caption)
