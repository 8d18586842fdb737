"""The whole analysis on runs made by hand: every figure against a number counted by hand, and every cooked book found out.

The runs are analysed together, as one Spark job costs about as much as twenty.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from analysis import job
from analysis.books import FOREIGN, told_books
from analysis.excuses import REROUTING_NS
from analysis.figures.measured import MeasuredRun
from analysis.figures.summary import Summary, read_summary
from analysis.job import analyse, compare
from analysis.judging.check_run import books_of
from analysis.judging.judge import Verdict
from analysis.pages.terminal_tables import summary_table
from analysis.pictures.space_time import strokes
from analysis.tables import journeys, scan
from analysis.tables.small import small_tables
from hostagent.contract.messages import Purpose
from hostagent.contract.promises import Guarantee
from hostagent.contract.wire import COST_TOS
from runfiles.errors import ResultsError
from runfiles.format import Event, FaultRecord, LinkDrops
from runfiles.reading import load
from sparkpcap.captures import Form, Interface
from sparkpcap.plan import plan as planned
from tests.analysis.synthetic import HOP_NS, PROMISE, RUN, START_NS, Maker, datagram, frame, honest

LATE_NS = START_NS + 500_000_000


def cleared(packet: tuple[int, bytes]) -> tuple[int, bytes]:
    at_ns, data = packet
    return at_ns, data[:15] + b"\0" + data[16:]


def _missing_at_source(maker: Maker) -> None:
    maker.seen["h1", "s1"].pop()


def _missing_at_destination(maker: Maker) -> None:
    maker.seen["s1", "h2"].pop()


def _missing_on_the_expensive_link(maker: Maker) -> None:
    maker.seen["s1", "s2"].pop()


def _missing_on_a_cheap_link(maker: Maker) -> None:
    maker.seen["s2", "s3"].pop()


def _bit_cleared(maker: Maker) -> None:
    maker.seen["s2", "h3"][0] = cleared(maker.seen["s2", "h3"][0])


def _bit_set_for_nothing(maker: Maker) -> None:
    at_ns, data = maker.seen["s1", "h2"][0]
    maker.seen["s1", "h2"][0] = at_ns, data[:15] + bytes([COST_TOS]) + data[16:]


def _repeated_between_switches(maker: Maker) -> None:
    maker.seen["s2", "s3"] *= 2


def _repeated_at_destination(maker: Maker) -> None:
    maker.seen["s1", "h2"].append(maker.seen["s1", "h2"][0])


def _lost_without_a_cause(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")


def _lost_elsewhere_than_dropped(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    maker.link_drops.append(LinkDrops("s2", "s3", 5, 5))


def _lost_after_the_link_was_back(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    before_ns = START_NS - 2 * REROUTING_NS
    maker.faults += [
        FaultRecord(fault="link-down", target="s1-s2", asked_ns=before_ns, applied_ns=before_ns),
        FaultRecord(fault="link-up", target="s1-s2", asked_ns=before_ns, applied_ns=before_ns),
    ]


def _lost_while_a_link_fails_that_it_does_not_cross(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    maker.faults.append(FaultRecord(fault="link-down", target="s2-s3", asked_ns=LATE_NS, applied_ns=LATE_NS))


def _lost_while_its_destination_crashes(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    maker.faults.append(FaultRecord(fault="crash", target="h3", asked_ns=LATE_NS, applied_ns=LATE_NS))


def _lost_on_a_link_that_is_shaped_anew(maker: Maker) -> None:
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    change = {"bandwidth_mbit": 1.0}
    maker.faults.append(FaultRecord(fault="link-change", target="s1-s2", asked_ns=LATE_NS, applied_ns=LATE_NS, details=change))


def _agent_says_more(maker: Maker) -> None:
    maker.counters["h3"]["sent"] += 1


def _agent_received_less(maker: Maker) -> None:
    maker.counters["h3"]["received"] -= 1


def _capture_dropped(maker: Maker) -> None:
    maker.capture_drops["captures/h1-s1.pcap"] = 3


def _problem(maker: Maker) -> None:
    maker.problems = ("the controller died",)


COOKED: dict[Callable[[Maker], None], str] = {
    _missing_at_source: "h1 says it sent 6 datagrams, 5 were seen leaving it",
    _missing_at_destination: "last seen at s1, where 0 were dropped",
    _missing_on_the_expensive_link: "a cost bit that does not match the links crossed",
    _missing_on_a_cheap_link: "1 packet was seen leaving a node that no capture shows reaching it, packet 6 of h1 to h4",
    _bit_cleared: "1 packet was seen to arrive with a cost bit that does not match the links crossed, packet 2 of h1 to h3",
    _bit_set_for_nothing: "a cost bit that does not match the links crossed, packet 1 of h1 to h2",
    _repeated_between_switches: "2 packets were seen more than once in the same direction of a link",
    _repeated_at_destination: "3 datagrams were seen on their way into h2, which says 2 were received",
    _lost_without_a_cause: "1 packet was last seen at s1, where 0 were dropped, packet 7 of h1 to h3",
    _lost_elsewhere_than_dropped: "1 packet was last seen at s1, where 0 were dropped",
    _lost_after_the_link_was_back: "1 packet was last seen at s1, where 0 were dropped",
    _lost_while_a_link_fails_that_it_does_not_cross: "1 packet was last seen at s1, where 0 were dropped, packet 7 of h1 to h3",
    _lost_while_its_destination_crashes: "1 packet was last seen at s1, where 0 were dropped, packet 7 of h1 to h3",
    _lost_on_a_link_that_is_shaped_anew: "1 packet was last seen at s1, where 0 were dropped, packet 7 of h1 to h3",
    _agent_says_more: "h3 says it sent 2 datagrams, 1 were seen leaving it",
    _agent_received_less: "2 datagrams were seen on their way into h3, which says 1 were received",
    _capture_dropped: "captures/h1-s1.pcap misses 3 packets",
    _problem: "the controller died",
}


def multicast() -> Maker:
    """h1 sends a message to everybody and h4 one to {h2, h4}, each in one datagram that switches copy."""
    maker = Maker("multicast", groups=(("h2", "h4"),))
    maker.multicast("h1", 0, LATE_NS)
    maker.broadcast("h1", 1, LATE_NS)
    maker.multicast("h4", 1, LATE_NS, ("h4", 1))
    maker.broadcast("h4", 1, LATE_NS, ("h2", "h4"), to=("h2", "h4"))
    return maker


AGAIN_NS = LATE_NS + 20 * HOP_NS


def _copy_lost(maker: Maker) -> None:
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s2", "s3")])


def _copies_lost_together(maker: Maker) -> None:
    """One datagram, so one drop, for h3 and h4."""
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s1", "s2")])


def _two_branches_lost(maker: Maker) -> None:
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s2", "h3"), ("s2", "s3")])
    maker.link_drops.append(LinkDrops("s2", "s3", 1, 0))


def _marked_before_the_cheap_outputs(maker: Maker) -> None:
    maker.multicast("h1", 0, AGAIN_NS, early_mark=True)


def _marked_too_late(maker: Maker) -> None:
    maker.seen["s2", "h3"][0] = cleared(maker.seen["s2", "h3"][0])


def _copy_to_a_stranger(maker: Maker) -> None:
    at_ns, data = maker.seen["s2", "s1"][0]
    maker.seen["s1", "h1"].append((at_ns, cleared((at_ns, data))[1]))


def _branch_to_no_member(maker: Maker) -> None:
    """A copy for {h1, h2} from h2 that left the cluster."""
    maker.groups = (*maker.groups, ("h1", "h2"))
    maker.multicast("h2", 2, AGAIN_NS)
    at_ns, data = maker.seen["h2", "s1"][-1]
    maker.seen["s1", "s2"].append((at_ns + HOP_NS, data))


def _branch_from_nowhere(maker: Maker) -> None:
    maker.seen["s2", "s3"].pop()


def _copy_repeated(maker: Maker) -> None:
    maker.seen["s3", "h4"] *= 2
    maker.counters["h4"]["received"] += 1


def _copy_lost_while_another_link_fails(maker: Maker) -> None:
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s1", "h2")])
    maker.faults.append(FaultRecord(fault="link-down", target="s2-s3", asked_ns=AGAIN_NS, applied_ns=AGAIN_NS))


COOKED_COPIES: dict[Callable[[Maker], None], str] = {
    _copy_lost: "1 packet was last seen at s2, where 0 were dropped, packet 2 of h1 to group 0 (the copy for h4)",
    _copies_lost_together: "1 packet was last seen at s1, where 0 were dropped, packet 2 of h1 to group 0 (the copy for h3)",
    _two_branches_lost: "2 packets were last seen at s2, where 1 were dropped, packet 2 of h1 to group 0 (the copy for h3)",
    _marked_before_the_cheap_outputs: "1 packet was seen to arrive with a cost bit that does not match the links crossed, "
    "packet 2 of h1 to group 0 (the copy for h2)",
    _marked_too_late: "cost bit that does not match the links crossed, packet 1 of h1 to group 0 (the copy for h3)",
    _copy_to_a_stranger: "1 packet was seen on a link that is on the way to no member of its group, "
    "packet 1 of h4 to group 1 (the copy seen on its way to h1)",
    _branch_to_no_member: "on the way to no member of its group, packet 1 of h2 to group 2 (the copy seen on its way to s2)",
    _branch_from_nowhere: "1 packet was seen leaving a node that no capture shows reaching it, packet 1 of h1 to group 0",
    _copy_repeated: "1 packet was seen more than once in the same direction of a link, packet 1 of h1 to group 0 (the copy for h4)",
    _copy_lost_while_another_link_fails: "1 packet was last seen at s1, where 0 were dropped",
}


def copies_dropped() -> Maker:
    """As many drops as datagrams lost: one of them is for two members."""
    maker = multicast()
    _copies_lost_together(maker)
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s1", "h2")])
    maker.link_drops += [LinkDrops("s1", "s2", 1, 0), LinkDrops("s1", "h2", 0, 1)]
    return maker


def switch_overrun() -> Maker:
    """A switch that does not take a datagram in time makes no copy of it at all."""
    maker = multicast()
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s2", "h3"), ("s2", "s3")])
    maker.link_drops.append(LinkDrops("s2", "s1", 0, 0, overrun=1))
    return maker


def copies_excused() -> Maker:
    """The link to h4 fails, and comes back: what was to cross it is lost, and the copies for h2 and h3 arrive."""
    maker = multicast()
    maker.multicast("h1", 0, AGAIN_NS, lost_on=[("s2", "s3")])
    maker.multicast("h1", 0, AGAIN_NS + 10**11, lost_on=[("s2", "s3")])
    for fault, at_ns in (("link-down", AGAIN_NS), ("link-up", AGAIN_NS + 2 * 10**11)):
        maker.faults.append(FaultRecord(fault=fault, target="s2-s3", asked_ns=at_ns, applied_ns=at_ns))
    return maker


def returned() -> Maker:
    """While trees change, a copy of a packet of h1 comes back from s2 to s1, which sends it to h1."""
    maker = multicast()
    maker.multicast("h1", 0, AGAIN_NS)
    at_ns, marked = maker.seen["s1", "s2"][-1]
    for hops, way in enumerate((("s2", "s1"), ("s1", "h1")), start=1):
        maker.seen[way].append((at_ns + hops * HOP_NS, marked))
    maker.counters["h1"]["refused_from_itself"] = 1
    maker.faults.append(FaultRecord(fault="link-down", target="s1-s2", asked_ns=at_ns, applied_ns=at_ns))
    return maker


def misdelivered() -> Maker:
    """h4 sends to h2; h1 sends to h2 and to itself, and delivers what h4 sent; a message of h1 to h3 gets lost."""
    maker = Maker("misdelivered", msgspec.structs.replace(PROMISE, guarantees=()))
    maker.broadcast("h4", 1, LATE_NS, ("h2", "h1"), to=("h2",))
    maker.broadcast("h1", 1, LATE_NS, ("h1", "h2"), to=("h1", "h2"))
    maker.broadcast("h1", 2, LATE_NS, ("h1",), to=("h1", "h3"))
    maker.broadcast("h2", 1, LATE_NS, ("h2",), to=("h2",))
    return maker


def lossy() -> Maker:
    """One copy lost on the expensive link, one in the access link before any capture, one to a failed link; repaired once."""
    maker = Maker("lossy", msgspec.structs.replace(PROMISE, guarantees=(Guarantee.NO_CREATION,)))
    maker.broadcast("h1", 1, LATE_NS, ("h1", "h2", "h3"))
    maker.send("h1", "h2", LATE_NS)
    maker.send("h1", "h3", LATE_NS, lost_on="s1-s2")
    maker.send("h1", "h4", LATE_NS, lost_on="h1-s1")
    maker.send("h1", "h3", LATE_NS + 50 * HOP_NS, Purpose.REPAIR)
    maker.send("h1", "h4", LATE_NS + 10**11, Purpose.REPAIR, lost_on="s2-s3")
    maker.link_drops += [LinkDrops("s1", "s2", 1, 0), LinkDrops("h1", "s1", 0, 1)]
    maker.faults.append(FaultRecord(fault="link-down", target="s2-s3", asked_ns=LATE_NS + 10**11, applied_ns=LATE_NS + 10**11))
    return maker


def intruded() -> Maker:
    """A datagram of another run and one of no protocol go to h2, which refuses both."""
    maker = honest("intruded")
    for payload in (datagram(1, 1, run=RUN + 1), b"hello"):
        for hop in (("h3", "s2"), ("s2", "s1"), ("s1", "h2")):
            maker.seen[hop].append((LATE_NS, frame("h3", "h2", payload)))
    maker.counters["h2"].update(refused_malformed=1, refused_foreign_run=1)
    return maker


def planted() -> Maker:
    """The hosts of an honest run formed a tree."""
    maker = honest("planted")
    for host, parent in (("h2", "h1"), ("h3", "h1"), ("h4", "h3")):
        maker.events[host].append(Event(at_ns=LATE_NS, event="parent", details={"source": "h1", "parent": parent}))
    return maker


def two_faced() -> Maker:
    maker = honest("two-faced")
    maker.events["h4"].append(maker.events["h4"][-1])
    return maker


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def summaries(crew, root) -> dict[str, Summary]:
    made = {
        "honest": honest(),
        "lossy": lossy(),
        "planted": planted(),
        "intruded": intruded(),
        "two-faced": two_faced(),
        "silent": Maker(),
        "multicast": multicast(),
        "misdelivered": misdelivered(),
        "copies dropped": copies_dropped(),
        "switch overrun": switch_overrun(),
        "copies excused": copies_excused(),
        "returned": returned(),
    }
    directories = [maker.write(root / name) for name, maker in made.items()]
    directories += [_damage_captures(honest().write(root / "damaged")), _damage_events(honest().write(root / "cut short"))]
    found = dict(zip([*made, "damaged", "cut short"], analyse(directories, crew), strict=True))
    cooked = {}
    for cook in (*COOKED, *COOKED_COPIES):
        maker = honest() if cook in COOKED else multicast()
        cook(maker)
        cooked[cook.__name__] = maker.write(root / cook.__name__)
    return found | dict(zip(cooked, analyse(list(cooked.values()), crew, drawing=False), strict=True))


def _damage_captures(directory: Path) -> Path:
    (directory / "captures/h1-s1.pcap").write_bytes(b"garbage")
    (directory / "captures/s1-s2.pcap").unlink()
    tail = directory / "captures/h3-s2.pcap"
    tail.write_bytes(tail.read_bytes()[:-5])
    return directory


def _damage_events(directory: Path) -> Path:
    log = directory / "events/h3.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    (directory / "events/h4.jsonl").unlink()
    return directory


def test_cost_counts_each_host_to_host_packet_once(summaries):
    cost = summaries["honest"].cost
    # Two copies of each of two messages and two acknowledgements crossed s1-s2; h2's copies did not, s2-s3 is cheap.
    assert cost.expensive_data_packets_per_message == 2
    assert cost.expensive_control_packets_per_message == 1
    assert cost.expensive_repair_packets_per_message == 0
    assert cost.expensive_packets_per_message == 3
    assert cost.lower_bound == 1


def test_costs_of_a_lossy_run(summaries):
    summary = summaries["lossy"]
    # The lost copy never came out of the expensive link. Both repairs did; that the second was lost later does not matter.
    assert summary.cost.expensive_data_packets_per_message == 0
    assert summary.cost.expensive_repair_packets_per_message == 2
    assert summary.delivered_share == pytest.approx(2 / 3)
    # The link to h4 went down 100 s later: there was time.
    assert summary.relative_reliability == pytest.approx(2 / 3)
    assert summary.differences == ()
    assert (summary.books.vanished, summary.books.vanished_link_down) == (2, 1)
    assert (summary.books.dropped_loss, summary.books.dropped_queue) == (1, 1)


def test_delays_leave_out_the_origin(summaries):
    delay = summaries["honest"].delay_ms
    # h2 is 2 hops away, h3 3 and h4 4, a millisecond each.
    assert (delay.p50, delay.p99, delay.last_p50) == (3, 4, 4)
    assert (delay.quantiles[0], len(delay.quantiles)) == (2, 201)


def test_the_other_figures_of_an_honest_run(summaries):
    summary = summaries["honest"]
    assert (summary.scenario, summary.protocol, summary.engine, summary.seed) == ("demo", "basic", "mininet", 1)
    assert (summary.hosts, summary.clusters, summary.messages, summary.delivered_share) == (4, 2, 2, 1)
    assert (summary.load_max, summary.load_max_host) == (6 + 2, "h1")
    assert (summary.balanced, summary.differences) == (True, ())
    assert (summary.verdict, summary.verdict_reasons) == (Verdict.HOLDS, ())
    assert sum(report.packets for report in summary.captures) == 6 + 2 + 2 + (2 + 1) + (2 + 1) + (4 + 2) + (2 + 1)


def test_link_costs_by_direction_and_purpose(summaries):
    costs = {(cost.source, cost.target, cost.purpose): cost for cost in summaries["honest"].link_costs}
    size = 14 + 20 + 8 + len(datagram(1, 1))
    assert {key: cost.packets for key, cost in costs.items() if cost.link == "s1-s2"} == {
        ("s1", "s2", "data"): 4,
        ("s2", "s1", "control"): 2,
    }
    assert costs["s1", "s2", "data"].bytes == 4 * size
    assert costs["s1", "s2", "data"].expensive
    assert not costs["s2", "s3", "data"].expensive


@pytest.mark.parametrize("cook", COOKED | COOKED_COPIES, ids=lambda cook: cook.__name__.strip("_"))
def test_cooked_books_are_found_out(summaries, cook):
    summary, sentence = summaries[cook.__name__], (COOKED | COOKED_COPIES)[cook]
    assert not summary.balanced
    assert any(sentence in difference for difference in summary.differences), summary.differences
    assert summary.verdict is Verdict.UNKNOWN


def test_the_books_of_packets_to_groups_balance_copy_by_copy(summaries):
    """The first packet has copies for three hosts, the second for one."""
    books = summaries["multicast"].books
    assert (books.differences, books.packets, books.sent, books.received) == ((), 4, 2, 4)
    dropped = summaries["copies dropped"].books
    assert (dropped.differences, dropped.packets, dropped.vanished, dropped.dropped_loss) == ((), 10, 3, 1)
    assert (summaries["switch overrun"].differences, summaries["switch overrun"].books.vanished) == ((), 2)


def test_a_link_that_fails_excuses_the_copies_that_had_to_cross_it(summaries):
    """The first loss is one that might not have been; the second is certain, as there is no branch any more."""
    books = summaries["copies excused"].books
    assert (books.differences, books.packets, books.vanished, books.vanished_link_down) == ((), 10, 2, 2)
    # Not checked: when the link failed, what crossed it, and the copies for h3 at s2, which may have been sent to s3 and not taken back.
    assert books.checked_share == 0.5


def test_a_copy_that_comes_back_to_its_sender_does_not_leave_it_a_second_time(summaries):
    """The capture of an access link does not show directions; what left a host had no cost bit yet."""
    books = summaries["returned"].books
    assert (books.differences, books.sent, books.seen_leaving, books.refused) == ((), 3, 3, 1)


def test_a_datagram_to_a_group_is_one_packet_and_crosses_as_often_as_it_is_copied(summaries, root):
    assert summaries["multicast"].messages == 2
    packets = pq.read_table(root / "multicast" / "tables" / "packets.parquet").to_pylist()
    assert {(row["sender"], row["destination"]) for row in packets} == {("h1", "group 0"), ("h4", "group 1")}
    costs = pq.read_table(root / "multicast" / "tables" / "message_costs.parquet").to_pylist()
    assert [(row["origin"], row["packets"], row["crossings"]) for row in costs] == [("h1", 1, 1), ("h4", 1, 1)]
    cost = summaries["multicast"].cost
    assert cost.expensive_packets_per_message == cost.expensive_crossings_per_message == 1
    assert (cost.expensive_data_crossings_per_message, cost.expensive_control_crossings_per_message) == (1, 0)


def test_a_packet_to_a_group_is_drawn_as_its_copies(summaries, root):
    assert summaries["copies excused"].balanced
    directory = root / "copies excused"
    found = strokes(pq.read_table(directory / "tables" / "packets.parquet"), ("h1", 1), load(directory).members)
    first = [(s.destination, (s.end - s.start) / HOP_NS, s.expensive, s.arrived) for s in found if s.start < AGAIN_NS]
    assert first == [("h2", 1, False, True), ("h3", 2, True, True), ("h4", 3, True, True)]
    assert [s.arrived for s in found if s.destination == "h4"] == [True, False, False]
    assert MeasuredRun(load(directory), summaries["copies excused"]).reached(("h4", 1), "h4") == ("h2",)


def test_shares_and_delays_are_of_the_destinations_of_a_message(summaries, root):
    """h1 delivers a message that is not for it, which is no delivery that counts; h2 and h4 are two of three pairs."""
    summary = summaries["misdelivered"]
    assert summary.delivered_share == summary.relative_reliability == pytest.approx(2 / 3)
    rows = pq.read_table(root / "misdelivered" / "tables" / "deliveries.parquet").to_pylist()
    assert sorted((row["origin"], row["host"]) for row in rows) == [("h1", "h2"), ("h4", "h2")]
    assert summary.cost.lower_bound == summary.cost.lower_bound_crossings == 0.5


def test_what_a_failed_link_took_along_is_excused_and_the_share_that_was_checked_is_told(summaries, root):
    """Of four packets that were seen, the one to h4 came when the link to it failed."""
    books = summaries["lossy"].books
    assert (books.balanced, books.packets, books.checked_share) == (True, 4, 0.75)
    assert told_books(books) == books_of(root / "lossy") == "books balanced, 75.0 % of packets checked"
    assert (books.vanished, books.vanished_link_down) == (2, 1)
    assert told_books(summaries["silent"].books) == "books balanced, no packets checked"


def test_packets_that_vanish_before_their_first_expensive_link_are_counted_as_unpaid(summaries):
    """One of the lossy run was lost on the expensive link itself, and one behind it. One that no capture shows is not known at all."""
    assert summaries["lossy"].books.unpaid == 1
    assert summaries["intruded"].books.foreign_expensive == 2


def test_the_groups_of_a_run_are_read_from_its_scenario(tmp_path):
    run = load(Maker(groups=(("h4", "h2"),)).write(tmp_path / "run"))
    assert run.members == {0: ("h1", "h2", "h3", "h4"), 1: ("h2", "h4")}
    assert load(honest().write(tmp_path / "old")).members == {0: ("h1", "h2", "h3", "h4")}
    strange = Maker(groups=(("h4", "h5"),)).write(tmp_path / "strange")
    with pytest.raises(ResultsError, match="group 'g1' names 'h5', which is not a host of the network"):
        load(strange)


@pytest.mark.parametrize(
    "details", [{}, {"group": -1, "members": []}, {"group": 1, "members": ["h5"]}, {"group": 1, "members": [[]]}]
)
def test_a_tree_to_what_is_no_host_is_refused(tmp_path, details):
    maker = Maker(groups=(("h4", "h2"),))
    maker.faults.append(FaultRecord(fault="tree", target="group 1", asked_ns=START_NS, applied_ns=START_NS, details=details))
    with pytest.raises(ResultsError, match="group 1 has a tree to members that are not hosts of the network"):
        load(maker.write(tmp_path / "run"))


def test_foreign_datagrams_are_counted_and_change_no_figure(summaries):
    summary = summaries["intruded"]
    assert summary.differences == ()
    assert summary.cost == summaries["honest"].cost
    assert (summary.books.foreign, summary.books.refused) == (2, 2)
    assert {(cost.source, cost.packets) for cost in summary.link_costs if cost.purpose == FOREIGN} == {
        ("h3", 2),
        ("s2", 2),
        ("s1", 2),
    }


def test_damaged_captures_are_reported_by_file_and_the_rest_is_read(summaries):
    problems = {report.file: report.problems for report in summaries["damaged"].captures if report.problems}
    assert problems["captures/h1-s1.pcap"] == ("is not a pcap file",)
    assert problems["captures/s1-s2.pcap"] == ("cannot be read (No such file or directory)",)
    assert "ends in the middle of a packet" in problems["captures/h3-s2.pcap"][0]
    assert len(problems) == 3
    assert not summaries["damaged"].balanced
    assert any(cost.link == "s2-s3" for cost in summaries["damaged"].link_costs)


def test_damaged_event_logs_leave_the_verdict_unknown(summaries):
    summary = summaries["cut short"]
    assert summary.verdict is Verdict.UNKNOWN
    assert "the event log of h3 is damaged from line 2 on" in summary.verdict_reasons[0]
    assert summary.delivered_share == pytest.approx(3 / 6)


def test_a_run_without_messages_has_no_figures_and_no_verdict(summaries):
    summary = summaries["silent"]
    assert (summary.messages, summary.delivered_share, summary.cost.expensive_packets_per_message) == (0, None, None)
    assert (summary.delay_ms.p50, summary.delay_ms.quantiles) == (None, ())
    assert (summary.verdict, summary.verdict_reasons) == (Verdict.NOT_TESTED, ("no message was broadcast",))
    assert summary.balanced


def test_a_broken_promise_is_a_violation(summaries):
    summary = summaries["two-faced"]
    assert summary.verdict is Verdict.VIOLATED
    assert "h4 delivered message 2 of h1 twice" in summary.verdict_reasons[0]


def test_tables_are_left_beside_the_summary(spark, summaries, root):
    tables = root / "honest" / "tables"
    packets = spark.read.parquet(str(tables / "packets.parquet"))
    assert packets.columns == [
        *("link", "source", "target", "expensive", "at_ns", "sender", "destination", "dscp", "bytes"),
        *("protocol", "kind", "purpose", "packet", "group", "origin", "sequence"),
    ]
    seen = [
        tuple(row)
        for row in packets.where("source = 'h1' and destination = 'h4'").select("sender", "origin", "sequence", "dscp").collect()
    ]
    assert sorted(seen) == [("h1", "h1", 1, 0), ("h1", "h1", 2, 0)]
    assert spark.read.parquet(str(tables / "deliveries.parquet")).count() == 6
    costs = spark.read.parquet(str(tables / "message_costs.parquet")).collect()
    assert {(row.origin, row.sequence, row.purpose, row.packets) for row in costs} == {
        ("h1", 1, "data", 2),
        ("h1", 2, "data", 2),
        ("h1", 1, "control", 2),
    }
    assert spark.read.parquet(str(tables / "link_costs.parquet")).count() == len(summaries["honest"].link_costs)
    parents = spark.read.parquet(str(tables / "parents.parquet"))
    assert parents.columns == ["at_ns", "host", "source", "parent", "position"]
    assert parents.count() == 0
    planted = spark.read.parquet(str(root / "planted" / "tables" / "parents.parquet")).collect()
    assert [tuple(row) for row in planted] == [
        (LATE_NS, "h2", "h1", "h1", 3),
        (LATE_NS, "h3", "h1", "h1", 3),
        (LATE_NS, "h4", "h1", "h3", 3),
    ]


def test_summary_json_reads_back_and_has_the_promised_keys(summaries, root):
    assert read_summary(root / "lossy") == summaries["lossy"]
    plain = json.loads((root / "honest" / "summary.json").read_text())
    assert {
        "scenario",
        "protocol",
        "engine",
        "seed",
        "hosts",
        "clusters",
        "messages",
        "delivered_share",
        "balanced",
        "verdict",
    } <= set(plain)
    assert plain["cost"]["lower_bound"] == 1
    assert plain["delay_ms"]["last_p50"] == 4


def test_plots_of_each_run_and_of_all_together(summaries, root):
    assert {path.name for path in (root / "silent" / "plots").iterdir()} == {"links.png", "links.svg", "delays.png", "delays.svg"}
    assert {path.stem for path in (root / "lossy" / "plots").iterdir()} == {"links", "delays", "delays-over-time"}
    assert {path.stem for path in (root / "planted" / "plots").iterdir()} == {"links", "delays", "tree-h1-end"}
    written = compare({name: [summaries[name]] for name in ("honest", "lossy", "silent")}, root / "plots")
    assert {path.name for path in written} == {"cost.png", "cost.svg", "delays.png", "delays.svg"}
    assert all(path.stat().st_size > 1000 for path in written)


def test_the_table_fits_a_terminal_of_80_columns(summaries):
    console = Console(width=80, file=io.StringIO())
    console.print(summary_table([summaries[name] for name in ("honest", "lossy", "silent", "damaged")]))
    text = console.file.getvalue()
    assert "basic" in text
    assert "66.7%" in text
    assert "books: at least 75.0 % of packets checked" in text
    assert "lossy: the cost leaves out 1 packet lost before its first expensive link" in text
    assert "…" not in text


def test_runs_of_one_protocol_are_told_apart_by_their_seeds(summaries):
    again = msgspec.structs.replace(summaries["honest"], seed=4711)
    console = Console(width=80, file=io.StringIO())
    console.print(summary_table([summaries["honest"], again]))
    assert "4711" in console.file.getvalue()
    assert "…" not in console.file.getvalue()


def test_what_is_no_run_is_a_sentence(crew, tmp_path):
    with pytest.raises(ResultsError, match=r"is not a finished run: run.json cannot be read"):
        analyse([tmp_path], crew)
    directory = honest().write(tmp_path / "run")
    (directory / "run.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"run.json is not what a run writes"):
        analyse([directory], crew)


def test_results_that_cannot_be_written_are_a_sentence(crew, tmp_path):
    directory = honest().write(tmp_path / "run")
    (directory / "tables").write_text("in the way")
    with pytest.raises(ResultsError, match=r"cannot be written: .*tables"):
        analyse([directory], crew)


def test_the_small_tables_say_what_the_run_was(summaries, root):
    def rows(name):
        return pq.read_table(root / "honest" / "tables" / f"{name}.parquet").to_pylist()

    assert [(row["origin"], row["sequence"], row["hosts"]) for row in rows("delays")] == [("h1", 1, 3), ("h1", 2, 3)]
    assert all(0 < row["p50_ms"] <= row["last_ms"] for row in rows("delays"))
    assert {row["host"]: (row["sent"], row["received"]) for row in rows("loads")}["h1"] == (6, 2)
    assert {row["guarantee"]: row["verdict"] for row in rows("verdicts")} == {
        str(guarantee): str(found.verdict) for guarantee, found in summaries["honest"].checks.items()
    }
    assert rows("faults") == rows("parents") == []


def test_what_was_cut_wrongly_is_read_anew(crew, tmp_path, monkeypatch):
    """A guess that lands in the middle of a record leaves no trace in tables and reports."""
    run = load(honest().write(tmp_path / "run"))

    def scanned():
        found = scan.scan_packets(crew, [run])
        return sorted(map(str, pq.read_table(scan.packets_table(run.directory)).to_pylist())), found.reports.sort_by("report")

    right, asked = scanned(), []

    def plan(paths, partitions, *, guessing):
        asked.append(guessing)
        found = planned(paths, partitions)
        return [[part for whole in found for one in whole for part in _halves(one)]] if guessing else found

    monkeypatch.setattr(scan, "plan", plan)
    assert scanned() == right
    assert asked == [True, False]


def test_journeys_are_the_same_however_many_tasks_share_them(crew, tmp_path, monkeypatch):
    run = load(honest().write(tmp_path / "run"))
    scan.scan_packets(crew, [run])

    def counted():
        fates, costs, _ = journeys.count_journeys(crew, [run])
        return fates.drop_columns("example").to_pylist(), costs.sort_by([("sequence", "ascending"), ("purpose", "ascending")])

    together, split = counted(), []
    real = journeys._split
    monkeypatch.setattr(journeys, "_split", lambda *some: split.append(some) or real(*some))
    monkeypatch.setattr(journeys, "_SIGHTINGS", 4)
    assert journeys._shares(journeys._sightings_in(scan.packets_table(run.directory))) > 4
    assert counted() == together
    assert split
    monkeypatch.setattr(journeys, "_MOST_READERS", 1000)
    split.clear()
    assert counted() == together
    assert not split
    assert not journeys._shares_of(scan.packets_table(run.directory)).exists()


def _halves(part):
    """A file of records of 112 bytes cut where none starts."""
    if Path(part.path).stat().st_size < 400:
        return [part]
    form = Form(blocks=False, order="<", interfaces=(Interface(1, 9),))
    return [part._replace(end=200), part._replace(start=200, form=form)]


def contents(directory):
    """Every file below a directory, hidden ones too, with its bytes."""
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_an_analysis_that_fails_leaves_every_run_as_it_was(crew, tmp_path, monkeypatch):
    """The second of two runs cannot be analysed: neither counts as analysed, nor is one that was before changed."""
    first, second = (honest().write(tmp_path / name) for name in ("first", "second"))
    analyse([first], crew, drawing=False)
    before = contents(tmp_path)
    monkeypatch.setattr(job, "small_tables", _fails_on("second"))
    with pytest.raises(ResultsError, match="No space left on device"):
        analyse([first, second], crew, drawing=False)
    assert contents(tmp_path) == before
    assert not (second / "summary.json").exists()


def test_an_analysis_that_was_killed_is_made_anew(crew, tmp_path):
    directory = honest().write(tmp_path / "run")
    (directory / ".tables" / "packets.parquet").mkdir(parents=True)
    (directory / ".tables" / "packets.parquet" / "part-99.parquet").write_text("half a table")
    analyse([directory], crew, drawing=False)
    assert not (directory / ".tables").exists()
    assert sorted(path.name for path in (directory / "tables" / "packets.parquet").iterdir()) == ["part-0.parquet"]


def test_there_is_no_summary_while_tables_are_replaced(crew, tmp_path, monkeypatch):
    """Killed in that moment, the run is not analysed."""
    directory = honest().write(tmp_path / "run")
    analyse([directory], crew, drawing=False)
    monkeypatch.setattr(job, "write_summary", lambda *_: Path("/dev/full").write_text("summary"))
    with pytest.raises(ResultsError, match="No space left on device"):
        analyse([directory], crew, drawing=False)
    assert not (directory / "summary.json").exists()


def _fails_on(name):
    def tables(run, *others):
        if run.directory.name == name:
            Path("/dev/full").write_text("table")
        return small_tables(run, *others)

    return tables
