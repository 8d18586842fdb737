"""Journeys as arrays against journeys as one would write them down."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables import journeys
from analysis.tables.scan import PACKETS, batch_of
from hostagent.contract.wire import COST_DSCP

HOSTS = ("h1", "h2", "h10")
NODES = (*HOSTS, "s1", "s2")
PURPOSES = ("data", "repair", "control")

sightings = st.lists(
    st.fixed_dictionaries(
        {
            "sender": st.sampled_from(HOSTS),
            "packet": st.sampled_from([1, 2, 3, 2**32 + 1]),
            "source": st.sampled_from(NODES),
            "target": st.sampled_from(NODES),
            "expensive": st.booleans(),
            "dscp": st.sampled_from([0, COST_DSCP]),
        }
    ),
    max_size=30,
)


def told(sender, packet):
    """What does not change on a packet's way; some go where nobody is."""
    return {
        "destination": [*HOSTS, None][packet % 4],
        "origin": HOSTS[(packet + len(sender)) % 3],
        "sequence": packet % 2,
        "purpose": PURPOSES[packet % 3],
    }


def reference(seen, disturbed):
    """The fate of each packet and the cost of each message, packet by packet."""
    packets = defaultdict(list)
    for row in sorted(seen, key=lambda row: row["at_ns"]):
        packets[row["sender"], row["packet"]].append(row)
    fates, costs = defaultdict(int), defaultdict(int)
    for (sender, _), rows in packets.items():
        sources, targets = {row["source"] for row in rows}, {row["target"] for row in rows}
        expensive = any(row["expensive"] for row in rows)
        arrived = [row for row in rows if row["target"] == row["destination"]]
        stays = [row["target"] for row in rows if row["target"] not in sources]
        lost = not arrived and rows[0]["destination"] is not None
        fate = (
            sources - targets != {sender},
            len({(row["source"], row["target"]) for row in rows}) < len(rows),
            any((row["dscp"] == COST_DSCP) != expensive for row in arrived),
            (stays or [rows[-1]["target"]])[-1] if lost else None,
            any(start <= rows[-1]["at_ns"] <= end for start, end in disturbed),
        )
        fates[fate] += 1
        if expensive:
            costs[rows[0]["origin"], rows[0]["sequence"], rows[0]["purpose"]] += 1
    return fates, costs


@given(sightings, st.sampled_from([[], [(3, 5)], [(-9, 0), (4, 9), (20, 2**63 - 1)]]))
def test_journeys_are_what_one_would_say_packet_by_packet(seen, disturbed):
    seen = [row | told(row["sender"], row["packet"]) | {"at_ns": at_ns} for at_ns, row in enumerate(seen)]
    columns = {name: [row.get(name) for row in seen] for name in PACKETS.names}
    found = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, len(seen), columns)]), NODES)
    fates, costs = reference(seen, disturbed)
    table = journeys._fates(found, pa.array(NODES), disturbed).to_pylist()
    names = journeys.FATES.names[:-1]
    assert {tuple(row[name] for name in names): row["packets"] for row in table} == fates
    table = journeys._message_costs(found, pa.array(NODES)).to_pylist()
    assert {tuple(row[name] for name in journeys.MESSAGES.names): row["packets"] for row in table} == costs


def test_an_example_counts_within_the_incarnation_of_its_sender():
    row = {"sender": "h2", "packet": 2**32 + 7, "source": "h2", "target": "s1", "expensive": False, "dscp": 0, "at_ns": 1}
    columns = {name: [row.get(name)] for name in PACKETS.names} | {"purpose": ["data"], "origin": ["h2"], "sequence": [1]}
    found = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, 1, columns)]), NODES)
    assert journeys._fates(found, pa.array(NODES), [])["example"].to_pylist() == ["packet 7 of h2 to nobody"]
