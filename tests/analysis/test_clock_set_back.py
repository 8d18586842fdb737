"""The machine's clock is set back by a minute between two broadcasts: the order at each host is still that of its log."""

import msgspec
import pytest

from analysis.judging.check_run import check_run, history_of
from analysis.judging.findings import Verdict
from analysis.judging.history import make
from analysis.judging.judge import check_of
from analysis.tables import deliveries as tables
from analysis.tables.scan import scan_events
from hostagent.contract.events import Event
from hostagent.contract.promises import Guarantee
from runfiles.reading import load
from testbed.running.growing_logs import EventLogs
from tests.analysis.cast import CAUSAL, MULTIPLE_GROUP, MULTIPLE_SOURCE, SINGLE_SOURCE
from tests.analysis.stage import numbered, promise
from tests.analysis.synthetic import START_NS, Maker, honest
from tests.analysis.test_orders import NETWORK as FOUR_HOSTS

MINUTE = 60_000_000_000
ORDERS = (SINGLE_SOURCE, MULTIPLE_SOURCE, MULTIPLE_GROUP, CAUSAL)


def set_back() -> Maker:
    """An honest run in which everything about the second message is logged with a clock that is a minute behind."""
    maker = honest()
    maker.promise = msgspec.structs.replace(maker.promise, guarantees=(Guarantee.NO_CREATION,), orders=ORDERS)
    for host, events in maker.events.items():
        maker.events[host] = [
            msgspec.structs.replace(event, at_ns=event.at_ns - MINUTE * (event.sequence == 2)) for event in events
        ]
    return maker


def test_a_host_delivered_in_the_order_of_its_log(tmp_path):
    run = load(set_back().write(tmp_path / "run"))
    history = history_of(run)
    for host in run.network.hosts:
        of_host = [delivery for delivery in history.deliveries if delivery.host == host]
        assert [delivery.sequence for delivery in of_host] == [1, 2]
        assert of_host[0].position < of_host[1].position
        assert of_host[0].at_ns > of_host[1].at_ns
    assert [broadcast.sequence for broadcast in history.broadcasts] == [1, 2]


def test_nothing_is_held_against_the_protocol_and_the_verdict_is_unknown(tmp_path):
    judgement = check_run(set_back().write(tmp_path / "run"))
    promised = (str(Guarantee.NO_CREATION), *map(str, ORDERS))
    assert {name: found.verdict for name, found in judgement.findings.items()} == dict.fromkeys(promised, Verdict.UNKNOWN)
    assert "the clock of h1 was set back during the run, so its times cannot be trusted" in judgement.reasons


@pytest.mark.parametrize("order", ORDERS[:3])
def test_what_is_out_of_order_in_a_log_is_found_though_the_times_are_in_order(order, tmp_path):
    """h4 delivers the second message first, and its clock hides that."""
    maker = honest()
    first, second = maker.events["h4"]
    maker.events["h4"] = [second, first]
    run = load(maker.write(tmp_path / "run"))
    assert [delivery.sequence for delivery in history_of(run).deliveries if delivery.host == "h4"] == [2, 1]
    assert check_of(order)(history_of(run), promise(), FOUR_HOSTS).verdict is Verdict.VIOLATED


def test_a_cause_is_what_comes_before_in_the_log_also_at_one_instant():
    """h2 delivers h1's message and answers at once, with the same time in its log; h3 delivers the answer first."""
    asked = ("h1", 0, "broadcast", "h1", 1, {})
    heard, answered = ("h2", 5, "deliver", "h1", 1, {}), ("h2", 5, "broadcast", "h2", 1, {})
    backwards = ("h3", 8, "deliver", "h2", 1, {}), ("h3", 9, "deliver", "h1", 1, {})
    for at_h2, verdict in (((heard, answered), Verdict.VIOLATED), ((answered, heard), Verdict.NOT_TESTED)):
        history = make(("h1", "h2", "h3", "h4"), numbered(asked, *at_h2, *backwards), 100, ())
        assert check_of(CAUSAL)(history, promise(), FOUR_HOSTS).verdict is verdict


def test_the_table_of_deliveries_has_the_first_in_the_log_and_its_line(crew, tmp_path):
    maker = honest()
    first, second = maker.events["h4"]
    maker.events["h4"] = [first, second, msgspec.structs.replace(first, at_ns=START_NS)]
    run = load(maker.write(tmp_path / "run"))
    found = tables.deliveries(scan_events(crew, [run])).sort_by("sequence").to_pylist()
    rows = [row for row in found if row["host"] == "h4"]
    assert [(row["sequence"], row["delivered_ns"], row["position"]) for row in rows] == [
        (1, first.at_ns, 1),
        (2, second.at_ns, 2),
    ]


class Logs:
    """Agents of which only the logs are known."""

    def __init__(self, directory, **events):
        self._paths = {host: directory / f"{host}.jsonl" for host in events}
        for host, lines in events.items():
            self._paths[host].write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in lines))

    def event_logs(self):
        return list(self._paths.items())


def test_a_growing_log_is_read_in_its_own_order(tmp_path):
    """The last word on a host's parent is the last line, not the one with the highest time."""
    h1 = [Event(at_ns=100, event="parent", details={"parent": "h2"}), Event(at_ns=50, event="parent", details={"parent": "h3"})]
    logs = Logs(tmp_path, h1=h1, h2=[Event(at_ns=60, event="start"), Event(at_ns=110, event="stop")])
    news = EventLogs(logs).news()
    assert [event for host, event in news if host == "h1"] == h1
    assert [(host, event.at_ns) for host, event in news] == [("h2", 60), ("h1", 100), ("h1", 50), ("h2", 110)]
