"""Journeys as arrays against journeys as one would write them down."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from analysis.excuses import Excuse
from analysis.tables import journeys
from analysis.tables.scan import PACKETS, batch_of
from hostagent.contract.wire import COST_DSCP

HOSTS = ("h1", "h2", "h10")
NODES = (*HOSTS, "s1", "s2")
SWITCH_OF = {"h1": "s1", "h2": "s1", "h10": "s2"}
CLUSTER_OF = {"h1": 0, "h2": 0, "h10": 1}
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


excuses = st.lists(
    st.builds(
        Excuse,
        start_ns=st.integers(-5, 30),
        end_ns=st.integers(0, 30) | st.just(2**63 - 1),
        certain=st.booleans(),
        nodes=st.frozensets(st.sampled_from(("s1", "s2")), max_size=1),
        places=st.frozensets(st.tuples(st.sampled_from(("s1", "s2")), st.sampled_from(("s1", "s2"))), max_size=2),
        over=st.frozensets(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=2),
    ),
    max_size=3,
)


def explains(excuse, row):
    return excuse.start_ns <= row["at_ns"] <= excuse.end_ns and (
        row["target"] in excuse.nodes
        or (row["target"], SWITCH_OF.get(row["destination"])) in excuse.places
        or (row["source"], row["target"]) in excuse.over
    )


def reference(seen, excuses):
    """The fate of each packet and the cost of each message, packet by packet."""
    packets = defaultdict(list)
    for row in sorted(seen, key=lambda row: row["at_ns"]):
        packets[row["sender"], row["packet"]].append(row)
    fates, costs = defaultdict(int), defaultdict(int)
    for (sender, _), rows in packets.items():
        sources, targets = {row["source"] for row in rows}, {row["target"] for row in rows}
        expensive = any(row["expensive"] for row in rows)
        arrived = [row for row in rows if row["target"] == row["destination"]]
        lost = not arrived and rows[0]["destination"] is not None
        end = ([row for row in rows if row["target"] not in sources] or rows)[-1]
        fate = (
            sources - targets != {sender},
            len({(row["source"], row["target"]) for row in rows}) < len(rows),
            any((row["dscp"] == COST_DSCP) != expensive for row in arrived),
            end["target"] if lost else None,
            any(explains(excuse, row) for excuse in excuses for row in ([end] if lost else rows)),
            not any(explains(excuse, row) for excuse in excuses for row in rows if not excuse.certain),
            lost and not expensive and CLUSTER_OF[sender] != CLUSTER_OF[rows[0]["destination"]],
        )
        fates[fate] += 1
        if expensive:
            costs[rows[0]["origin"], rows[0]["sequence"], rows[0]["purpose"]] += 1
    return fates, costs


def facts(excuses=()):
    return journeys.NetworkFacts(NODES, SWITCH_OF, CLUSTER_OF, tuple(excuses))


@given(sightings, excuses)
def test_journeys_are_what_one_would_say_packet_by_packet(seen, excuses):
    seen = [row | told(row["sender"], row["packet"]) | {"at_ns": at_ns} for at_ns, row in enumerate(seen)]
    columns = {name: [row.get(name) for row in seen] for name in PACKETS.names}
    found = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, len(seen), columns)]), facts(excuses))
    fates, costs = reference(seen, excuses)
    table = journeys._fates(found, pa.array(NODES)).to_pylist()
    names = journeys.FATES.names[:-1]
    assert {tuple(row[name] for name in names): row["packets"] for row in table} == fates
    table = journeys._message_costs(found, pa.array(NODES)).to_pylist()
    assert {tuple(row[name] for name in journeys.MESSAGES.names): row["packets"] for row in table} == costs


def test_an_example_counts_within_the_incarnation_of_its_sender():
    row = {"sender": "h2", "packet": 2**32 + 7, "source": "h2", "target": "s1", "expensive": False, "dscp": 0, "at_ns": 1}
    columns = {name: [row.get(name)] for name in PACKETS.names} | {"purpose": ["data"], "origin": ["h2"], "sequence": [1]}
    found = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, 1, columns)]), facts())
    assert journeys._fates(found, pa.array(NODES))["example"].to_pylist() == ["packet 7 of h2 to nobody"]
