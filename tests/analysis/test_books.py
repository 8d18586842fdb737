"""The decisions behind the books, on sums made by hand. That Spark makes the right sums is shown in test_job.py."""

import dataclasses

import msgspec
import pytest

from analysis.books import Books, CaptureReport, Fates, Forks, LinkCost, balance, reservations_about, told_books
from runfiles.format import FaultRecord, LinkDrops
from runfiles.reading import RunInput, load
from tests.analysis.synthetic import Maker

FINE = Fates(gap=False, repeated=False, wrong_bit=False, vanished_at=None, packets=1, example="packet 1 of h1 to h2")
LOST = msgspec.structs.replace(FINE, vanished_at="s1", packets=3)


@pytest.fixture
def run(tmp_path) -> RunInput:
    """One packet from h1 to h2."""
    maker = Maker()
    maker.send("h1", "h2", 0)
    return load(maker.write(tmp_path / "run"))


def cost(source: str, target: str, packets: int = 1, purpose: str = "data") -> LinkCost:
    return LinkCost(link="l", source=source, target=target, expensive=False, purpose=purpose, packets=packets, bytes=0)


COSTS = [cost("h1", "s1"), cost("s1", "h2")]


def differences(run, costs=COSTS, journeys=(FINE,), **changes) -> tuple[str, ...]:
    run = RunInput(
        directory=run.directory,
        run=msgspec.structs.replace(
            run.run, **{key: value for key, value in changes.items() if key in {"captures", "link_drops", "problems", "guest"}}
        ),
        network=run.network,
        counters=changes.get("counters", run.counters),
        faults=changes.get("faults", ()),
    )
    reports = changes.get("reports", [CaptureReport(capture.file, capture.captured) for capture in run.run.captures])
    books = balance(run, costs, journeys, reports, changes.get("forks", ()), changes.get("wrong_bits", 0))
    assert books.balanced == (not books.differences)
    return books.differences


def drops(source: str, loss: int = 0, queue: int = 0, duplicated: int = 0) -> tuple[LinkDrops, ...]:
    return (LinkDrops(source, "elsewhere", loss, queue, duplicated=duplicated),)


def test_one_packet_balances(run):
    assert differences(run) == ()


def test_what_an_agent_sent_and_nobody_saw_is_a_difference_unless_the_kernel_dropped_it(run):
    counters = run.counters | {"h1": {"sent": 3}}
    (sentence,) = differences(run, counters=counters)
    assert sentence == "h1 says it sent 3 datagrams, 1 were seen leaving it and 0 were dropped before that"
    assert differences(run, counters=counters, link_drops=drops("h1", 1, 1)) == ()
    assert differences(run, counters=counters, link_drops=drops("h1", 1)) != ()
    assert (
        differences(run, counters=counters, faults=(FaultRecord(fault="link-down", target="h1-s1", asked_ns=0, applied_ns=0),))
        == ()
    )


def test_more_seen_than_sent_is_a_difference_whatever_was_dropped(run):
    (sentence,) = differences(run, counters=run.counters | {"h1": {"sent": 0}}, link_drops=drops("h1", 9))
    assert sentence.startswith("h1 says it sent 0")


def test_an_agent_that_is_killed_may_leave_one_datagram_uncounted_each_way(run):
    killed = tuple(FaultRecord(fault="crash", target=host, asked_ns=0, applied_ns=0) for host in ("h1", "h2"))
    uncounted = run.counters | {"h1": {"sent": 0}, "h2": {"received": 0}}
    assert len(differences(run, counters=uncounted)) == 2
    assert differences(run, counters=uncounted, faults=killed) == ()
    two = [cost("h1", "s1", 2), cost("s1", "h2", 2)]
    assert len(differences(run, two, counters=uncounted, faults=killed)) == 2


def test_what_goes_into_a_host_is_received_refused_or_overflowed(run):
    costs = [cost("h1", "s1", 4), cost("s1", "h2", 4), cost("s1", "h2", 1, "foreign")]
    run.counters["h1"]["sent"] = 4
    h2 = {"received": 2, "refused_malformed": 1, "overflowed": 1, "unreachable": 1}
    assert differences(run, costs, counters=run.counters | {"h2": h2}) == ()
    (sentence,) = differences(run, costs, counters=run.counters | {"h2": {"received": 2, "refused_malformed": 1}})
    assert sentence == (
        "5 datagrams were seen on their way into h2, which says 2 were received, "
        "1 refused and 0 lost to a full buffer or to nobody listening"
    )


def test_a_machine_that_is_too_slow_is_named(run):
    """Packets that switches are too slow to take are accounted for, so the books balance, and still are not the network's doing."""
    slow = (LinkDrops("s1", "h1", 0, 0, overrun=3),)
    counted = RunInput(run.directory, msgspec.structs.replace(run.run, link_drops=slow), run.network, run.counters, ())
    reports = [CaptureReport(capture.file, capture.captured) for capture in run.run.captures]
    books = balance(counted, COSTS, (msgspec.structs.replace(FINE, packets=100), LOST), reports)
    assert books.balanced
    (sentence,) = reservations_about(books)
    assert sentence.startswith("3 of 103 packets were lost because the switches did not take them in time")
    assert reservations_about(msgspec.structs.replace(books, packets=1000)) == ()


def test_what_other_programs_send_to_a_port_without_a_listener_opens_no_books(run):
    """A traceroute typed in a live network goes to such ports, and the kernel counts for the whole host."""
    assert differences(run, counters=run.counters | {"h2": {"received": 1, "unreachable": 3}}) == ()
    (sentence,) = differences(run, counters=run.counters | {"h2": {"received": 2, "unreachable": 3}})
    assert sentence.startswith("1 datagrams were seen on their way into h2, which says 2 were received")


def test_duplicates_must_be_those_that_the_kernel_made(run):
    twice, counters = msgspec.structs.replace(FINE, repeated=True), run.counters | {"h2": {"received": 2}}
    costs = [cost("h1", "s1"), cost("s1", "h2", 2)]
    assert differences(run, costs, [twice], counters=counters, link_drops=drops("s1", duplicated=1)) == ()
    elsewhere = differences(run, costs, [twice], counters=counters, link_drops=drops("s2", duplicated=1))
    assert elsewhere == ("1 datagrams were seen on their way into s1 and 2 on their way out, and its links duplicated 0",)
    assert len(differences(run, costs, [twice], counters=counters)) == 2
    change = fault("link-change", "s1-s2", 1)
    assert differences(run, costs, [twice], counters=counters, link_drops=drops("s2", duplicated=1), faults=(change,)) == ()


def test_a_switch_sends_one_copy_of_a_datagram_to_a_group_on_each_branch(run):
    """Four datagrams reached s1, and it made two copies of one of them: more only if its links duplicated."""
    costs, counters = [cost("h1", "s1", 4), cost("s1", "h2", 5)], {"h1": {"sent": 4}, "h2": {"received": 5}, "h3": {}, "h4": {}}

    def found(made: int, excess: int, **changes) -> tuple[str, ...]:
        return differences(run, costs, counters=counters, forks=[Forks(node="s1", made=made, excess=excess)], **changes)

    assert found(1, 0) == ()
    assert found(0, 0) == ("4 datagrams were seen on their way into s1 and 5 on their way out, and its links duplicated 0",)
    again = "s1 sent 1 copies of datagrams to groups on branches that already had theirs, and its links duplicated"
    assert found(1, 1) == (f"{again} 0",)
    assert found(1, 1, link_drops=drops("s1", duplicated=1)) == ()
    assert found(1, 1, link_drops=drops("s2", duplicated=1)) == (f"{again} 0",)


def test_copies_that_vanish_in_one_datagram_need_one_drop(run):
    """Of copies on several branches, each needs its own, unless the switch did not take the datagram in time. s1 has three neighbours."""
    together = msgspec.structs.replace(LOST, shared=True)
    other_branch = msgspec.structs.replace(LOST, perhaps_shared=True)
    assert differences(run, journeys=(FINE, LOST, together), link_drops=drops("s1", 3)) == ()
    (sentence,) = differences(run, journeys=(FINE, LOST, other_branch), link_drops=drops("s1", 5))
    assert sentence.startswith("6 packets were last seen at s1, where 5 were dropped")
    assert differences(run, journeys=(FINE, LOST, other_branch), link_drops=drops("s1", 6)) == ()
    assert differences(run, journeys=(FINE, LOST, other_branch), link_drops=(LinkDrops("s1", "h1", 0, 0, overrun=3),)) == ()
    assert differences(run, journeys=(FINE, LOST, other_branch), link_drops=(LinkDrops("s1", "h1", 0, 0, overrun=2),)) != ()


def test_a_copy_where_no_member_is_is_a_difference_unless_its_tree_was_changing(run):
    stray = msgspec.structs.replace(FINE, stray=True)
    (sentence,) = differences(run, journeys=(FINE, stray))
    assert sentence == "1 packet was seen on a link that is on the way to no member of its group, packet 1 of h1 to h2 for one"
    assert differences(run, journeys=(FINE, msgspec.structs.replace(stray, excused=True))) == ()


def test_the_access_link_of_a_host_may_duplicate_too(run):
    counters, costs = run.counters | {"h2": {"received": 2}}, [cost("h1", "s1", 2), cost("s1", "h2", 2)]
    assert differences(run, costs, counters=counters, link_drops=drops("h1", duplicated=1)) == ()
    (sentence,) = differences(run, costs, counters=counters, link_drops=drops("s1", duplicated=1))
    assert sentence == "h1 says it sent 1 datagrams, 2 were seen leaving it and 0 were dropped before that"


def test_a_host_without_counters_is_a_difference(run):
    assert differences(run, counters={host: run.counters[host] for host in ("h1", "h2", "h3")}) == ("h4 left no counters",)


def test_vanished_packets_need_drops_at_the_node_where_they_vanished(run):
    (sentence,) = differences(run, journeys=(FINE, LOST), link_drops=drops("s1", 2))
    assert sentence == "3 packets were last seen at s1, where 2 were dropped, packet 1 of h1 to h2 for one"
    assert differences(run, journeys=(FINE, LOST), link_drops=drops("s2", 3)) != ()
    assert differences(run, journeys=(FINE, LOST), link_drops=drops("s1", 1, 2)) == ()


def test_a_failed_link_explains_what_vanished_and_what_went_in_circles(run):
    assert differences(run, journeys=(FINE, msgspec.structs.replace(LOST, excused=True))) == ()
    assert differences(run, journeys=(FINE, msgspec.structs.replace(FINE, repeated=True, excused=True))) == ()


@pytest.mark.parametrize("fate", ["gap", "repeated", "wrong_bit"])
def test_what_no_network_does_is_a_difference(run, fate):
    (sentence,) = differences(run, journeys=(msgspec.structs.replace(FINE, **{fate: True}),))
    assert sentence.startswith("1 packet was seen")


def test_problems_of_the_run_and_of_its_captures_are_differences(run):
    assert differences(run, problems=("h3 did not start",)) == ("h3 did not start",)
    reports = [CaptureReport(capture.file, capture.captured) for capture in run.run.captures]
    damaged = [msgspec.structs.replace(reports[0], problems=("is empty",)), *reports[1:]]
    assert differences(run, reports=damaged) == ("capture captures/h1-s1.pcap is empty",)
    fewer = [msgspec.structs.replace(reports[0], packets=0), *reports[1:]]
    assert differences(run, reports=fewer) == ("capture captures/h1-s1.pcap holds 0 packets, but 1 were captured",)
    assert differences(run, reports=reports[1:]) == ("capture captures/h1-s1.pcap was not read",)
    killed = (msgspec.structs.replace(run.run.captures[0], captured=None), *run.run.captures[1:])
    assert differences(run, captures=killed, reports=reports) == (
        "capture captures/h1-s1.pcap was cut off: its tcpdump ended without reporting its counts",
    )


def fault(what: str, target: str, at_s: int) -> FaultRecord:
    return FaultRecord(fault=what, target=target, asked_ns=at_s * 10**9, applied_ns=at_s * 10**9)


def test_a_balance_of_few_packets_says_so(run):
    """It stays a balance: what is not checked is where a fault loses packets anyway."""
    reports = [CaptureReport(capture.file, capture.captured) for capture in run.run.captures]

    def books(unchecked: int) -> Books:
        return balance(run, COSTS, (FINE, msgspec.structs.replace(FINE, checked=False, packets=unchecked)), reports)

    (sentence,) = reservations_about(books(3))
    assert sentence == "only 25.0 % of packets were checked: faults would have excused the loss of the others"
    assert told_books(books(3)) == "books balanced, 25.0 % of packets checked"
    assert reservations_about(books(1)) == ()


def test_packets_of_a_guest_are_accounted_for_at_links_only(run):
    seen = [cost("h1", "s1", 5, "guest"), cost("s1", "h2", 5, "guest")]
    assert differences(run, seen, (), guest=True) == ()
    (lost,) = differences(run, [cost("h1", "s1", 5, "guest"), cost("s1", "h2", 4, "guest")], (), guest=True)
    assert lost == "5 packets were seen on their way into s1, 4 on their way out, and 0 were dropped there"
    dropped = [cost("h1", "s1", 5, "guest"), cost("s1", "h2", 3, "guest"), cost("s1", "h2", 1, "guest-outside")]
    assert differences(run, dropped, (), guest=True, link_drops=drops("s1", loss=1)) == ()
    (made,) = differences(run, [cost("h1", "s1", 4, "guest"), cost("s1", "h2", 5, "guest")], (), guest=True)
    assert "4 datagrams were seen on their way into s1 and 5 on their way out" in made
    assert differences(run, seen, (), guest=True, wrong_bits=2) == (
        "2 packets were seen with a cost bit that does not match the clusters of sender and receiver",
    )


def test_the_books_of_a_guest_say_what_they_do_not_cover(run):
    guest = dataclasses.replace(run, run=msgspec.structs.replace(run.run, guest=True))
    books = balance(guest, [cost("h1", "s1", 1, "guest"), cost("s1", "h2", 1, "guest")], (), _reports(guest))
    assert told_books(books) == "books balanced at links only, as for any guest"
    assert reservations_about(books) == (
        "packets of a guest are counted link by link: they are not told apart by message, and their journeys are not followed",
    )


def _reports(run: RunInput) -> list[CaptureReport]:
    return [CaptureReport(capture.file, capture.captured) for capture in run.run.captures]
