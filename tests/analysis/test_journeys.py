"""Journeys as arrays against journeys as one would write them down.

h1, h2 - s1 - s2 - h10
"""

from collections import Counter, defaultdict
from typing import NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from analysis.excuses import Excuse, Routing
from analysis.tables import journeys
from analysis.tables.fates import NetworkFacts
from analysis.tables.scan import PACKETS, batch_of
from hostagent.contract.wire import COST_DSCP

HOSTS = ("h1", "h2", "h10")
NODES = (*HOSTS, "s1", "s2")
SWITCH_OF = {"h1": "s1", "h2": "s1", "h10": "s2"}
CLUSTER_OF = {"h1": 0, "h2": 0, "h10": 1}
PURPOSES = ("data", "repair", "control")
SWITCHES = ("s1", "s2")
GROUPS = {0: HOSTS, 1: ("h2", "h10")}
LATER = {0: HOSTS, 1: ("h1", "h10")}
HOPS = {(group, last): {one: last for one in SWITCHES if one != last} for group in GROUPS for last in SWITCHES}
ROUTINGS = (Routing(-(2**63) + 1, GROUPS, HOPS), Routing(15, LATER, HOPS | {(0, "s2"): {}}))

sightings = st.lists(
    st.fixed_dictionaries(
        {
            "sender": st.sampled_from(HOSTS),
            "packet": st.sampled_from([1, 2, 3, 5, 6, 2**32 + 1]),
            "source": st.sampled_from(NODES),
            "target": st.sampled_from(NODES),
            "expensive": st.booleans(),
            "dscp": st.sampled_from([0, COST_DSCP]),
        }
    ),
    max_size=30,
)


def told(sender, packet):
    """What does not change on a packet's way; some go to groups, and some where nobody is."""
    return {
        "destination": {5: "group 0", 6: "group 1"}.get(packet, [*HOSTS, None][packet % 4]),
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
        places=st.frozensets(st.tuples(st.sampled_from(SWITCHES), st.sampled_from((*SWITCHES, *HOPS))), max_size=2),
        over=st.frozensets(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=2),
    ),
    max_size=3,
)


def explains(excuse, row, goal):
    return excuse.start_ns <= row["at_ns"] <= excuse.end_ns and (
        row["target"] in excuse.nodes or (row["target"], goal) in excuse.places or (row["source"], row["target"]) in excuse.over
    )


def touches(excuse, row, group):
    """Whether the tree of a group changes where a sighting ends."""
    goals = {goal for goal in HOPS if goal[0] == group and not excuse.certain} or {None}
    return any(explains(excuse, row, goal) for goal in goals)


def reference(seen, excuses):
    """The fate of each packet or copy and the cost of each message, packet by packet."""
    packets = defaultdict(list)
    for row in sorted(seen, key=lambda row: row["at_ns"]):
        packets[row["sender"], row["packet"]].append(row)
    fates, costs = Counter(), defaultdict(lambda: [0, 0])
    for (sender, _), rows in packets.items():
        to = rows[0]["destination"] or ""
        fates.update(copies(rows, sender, int(to[-1]), excuses) if to.startswith("group") else [packet(rows, sender, excuses)])
        crossings = sum(row["expensive"] for row in rows)
        if crossings:
            cost = costs[rows[0]["origin"], rows[0]["sequence"], rows[0]["purpose"]]
            cost[:] = cost[0] + 1, cost[1] + crossings
    return fates, costs


def packet(rows, sender, excuses):
    sources, targets = {row["source"] for row in rows}, {row["target"] for row in rows}
    expensive = any(row["expensive"] for row in rows)
    arrived = [row for row in rows if row["target"] == row["destination"]]
    lost = not arrived and rows[0]["destination"] is not None
    end = ([row for row in rows if row["target"] not in sources] or rows)[-1]
    goal = SWITCH_OF.get(rows[0]["destination"])
    return (
        bool(sources - targets - {sender}) or sender not in (sources if sender == rows[0]["destination"] else sources - targets),
        len({(row["source"], row["target"]) for row in rows}) < len(rows),
        any((row["dscp"] == COST_DSCP) != expensive for row in arrived),
        end["target"] if lost else None,
        any(explains(excuse, row, goal) for excuse in excuses for row in ([end] if lost else rows)),
        not any(explains(excuse, row, goal) for excuse in excuses for row in rows if not excuse.certain),
        lost and not expensive and CLUSTER_OF[sender] != CLUSTER_OF[rows[0]["destination"]],
        *(False, False, False),
    )


def came_from(row, rows, sender):
    """The sighting before on the way; None if there is none."""
    before = [one for one in rows if one["target"] == row["source"]] if row["source"] != sender else []
    earlier = [one for one in before if one["at_ns"] < row["at_ns"]]
    return earlier[-1] if earlier else before[0] if before else None


class Way(NamedTuple):
    """The sightings on the way to one of them, the last first. A way in a circle has no start, and counts as costly and repeated."""

    rows: list
    gap: bool
    paid: bool
    twice: bool


def way_of(row, rows, sender):
    found, edges = [], Counter((one["source"], one["target"]) for one in rows)
    while row is not None and row not in found:
        found.append(row)
        row = came_from(row, rows, sender)
    circle = row is not None
    return Way(
        found,
        circle or found[-1]["source"] != sender,
        circle or any(one["expensive"] for one in found),
        circle or any(edges[one["source"], one["target"]] > 1 for one in found),
    )


def copies(rows, sender, group, excuses):
    """The fates of all copies of a packet to a group."""
    routing = ROUTINGS[rows[0]["at_ns"] >= ROUTINGS[1].since_ns]
    claimed, vanished = set(), []
    for member in (host for host in routing.members[group] if host != sender):
        arrivals = [row for row in rows if row["target"] == member]
        at, following, goal = sender, SWITCH_OF[sender], (group, SWITCH_OF[member])
        while not arrivals and any(row["target"] == following for row in rows):
            at, following = following, member if following == SWITCH_OF[member] else routing.trees[goal].get(following)
        last = ([row for row in rows if row["target"] == at] or rows[:1])[-1]
        ways = [way_of(row, rows, sender) for row in arrivals or [last]]
        claimed |= {(row["source"], row["target"]) for way in ways for row in way.rows}
        if arrivals:
            excused = ways[0].twice and any(touches(excuse, row, group) for excuse in excuses for row in ways[0].rows)
        else:
            excused = any(explains(excuse, last, goal) for excuse in excuses)
        branches = [branch for node, branch, why in vanished if (node, why) == (at, excused)]
        yield (
            any(way.gap for way in ways),
            any(way.twice for way in ways),
            any((way.rows[0]["dscp"] == COST_DSCP) != way.paid for way in ways if arrivals),
            None if arrivals else at,
            excused,
            not any(explains(excuse, row, goal) for excuse in excuses for row in ways[0].rows if not excuse.certain),
            not arrivals and not ways[0].paid and CLUSTER_OF[sender] != CLUSTER_OF[member],
            False,
            not arrivals and following in branches,
            not arrivals and bool(branches) and following not in branches and all(row["source"] != at for row in rows),
        )
        vanished += [] if arrivals else [(at, following, excused)]
    for source, target in {(row["source"], row["target"]) for row in rows} - claimed:
        row = next(row for row in rows if (row["source"], row["target"]) == (source, target))
        way = way_of(row, rows, sender)
        excused = any(touches(excuse, one, group) for excuse in excuses for one in (row, row | {"target": source}))
        yield way.gap, way.twice, False, None, excused, True, False, True, False, False


def facts(excuses=()):
    return NetworkFacts(NODES, SWITCH_OF, CLUSTER_OF, tuple(excuses), ROUTINGS)


@given(sightings, excuses)
def test_journeys_are_what_one_would_say_packet_by_packet(seen, excuses):
    seen = [row | told(row["sender"], row["packet"]) | {"at_ns": at_ns} for at_ns, row in enumerate(seen)]
    columns = {name: [row.get(name) for row in seen] for name in PACKETS.names}
    found, paid, _ = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, len(seen), columns)]), facts(excuses))
    fates, costs = reference(seen, excuses)
    table = journeys._fates(found, facts()).to_pylist()
    names = journeys.FATES.names[:-1]
    assert {tuple(row[name] for name in names): row["packets"] for row in table} == fates
    table = journeys._message_costs(paid, facts()).to_pylist()
    assert {tuple(row[name] for name in journeys.MESSAGES.names): [row["packets"], row["crossings"]] for row in table} == costs


def test_an_example_counts_within_the_incarnation_of_its_sender():
    row = {"sender": "h2", "packet": 2**32 + 7, "source": "h2", "target": "s1", "expensive": False, "dscp": 0, "at_ns": 1}
    columns = {name: [row.get(name)] for name in PACKETS.names} | {"purpose": ["data"], "origin": ["h2"], "sequence": [1]}
    found, _, _ = journeys.journeys(pa.Table.from_batches([batch_of(PACKETS, 1, columns)]), facts())
    assert journeys._fates(found, facts())["example"].to_pylist() == ["packet 7 of h2 to nobody"]
