"""What users name is shown as they wrote it, wherever it is shown: brackets and colons are neither lost nor taken for markup."""

import dataclasses
import io

import msgspec
import pytest
from rich.table import Table

from analysis.books import balance
from analysis.figures.claims import Claim
from analysis.figures.comparison import compared
from analysis.figures.measured import MeasuredRun
from analysis.figures.repeats import grouped
from analysis.figures.summary import summarise
from analysis.judging.check_run import history_of
from analysis.judging.findings import Finding, Verdict
from analysis.judging.judge import Judgement
from analysis.pages.terminal_tables import claims_table, comparison_tables, judgement_table, summary_table
from hostagent.contract.promises import Guarantee
from runfiles.reading import load
from testbed import terminal
from testbed.live import views
from tests.analysis.synthetic import DELIVERIES, honest
from tests.testbed.conftest import castbed
from topologies import clusters, files

NAME = "[bold]x[/nope] :smile: [1]"


@pytest.fixture
def console(monkeypatch):
    """A wide terminal in place of both."""
    console = terminal.plain_console(width=200, file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr(terminal, "errors", console)
    return console


@pytest.fixture
def run(tmp_path):
    """A run whose label and scenario are named so."""
    found = load(honest().write(tmp_path / "run"))
    found = dataclasses.replace(found, run=msgspec.structs.replace(found.run, label=NAME, scenario=NAME))
    books = balance(found, (), (), ())
    return MeasuredRun(
        found,
        summarise(
            found,
            history_of(found),
            books,
            DELIVERIES,
            reports=(),
            link_costs=(),
            expensive_packets={"data": 4},
            crossings={"data": 4},
        ),
    )


def test_names_are_shown_as_they_are_in_every_kind_of_table(console, run):
    finding = Finding(Verdict.VIOLATED, NAME)
    tables = [
        summary_table([run.summary]),
        claims_table([Claim("1", NAME, True, NAME)]),
        *comparison_tables(compared(grouped([run]), "label")),
        judgement_table(Judgement(verdict=Verdict.VIOLATED, findings={Guarantee.VALIDITY: finding})),
    ]
    for table in tables:
        before = len(console.file.getvalue())
        console.print(table)
        assert NAME in console.file.getvalue()[before:]


def test_names_are_shown_as_they_are_while_one_waits(console):
    with terminal.progress(NAME) as show:
        show(NAME, NAME)
    with terminal.bar(NAME, 1) as advance:
        advance(NAME)
    assert console.file.getvalue().count(NAME) >= 3


def test_the_time_left_follows_how_long_things_take_and_not_how_many_they_are(console, monkeypatch):
    monkeypatch.setattr(terminal, "errors", terminal.plain_console(width=80, file=console.file))
    moments = iter((0.0, 90.0, 95.0, 100.0))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(moments))
    with terminal.bar("simulating", 3, efforts=(18.0, 1.0, 1.0)) as advance:
        for _ in range(3):
            advance("")
    told = console.file.getvalue().splitlines()
    assert [line.split(", ", 1) for line in told] == [
        ["simulating: 1 of 3", "90 s each, 0:00:10 left"],
        ["simulating: 3 of 3", "33 s each, 0:00:00 left"],
    ]


def test_names_are_shown_as_they_are_in_the_views_of_a_live_network():
    table = views.table_of(NAME)
    table.add_row(NAME)
    assert views.text(NAME, table).count(NAME) == 3


def test_a_network_may_be_called_anything(tmp_path):
    network = clusters(2, 1, "line")
    files.dump(type(network)(NAME, network.hosts, network.switches, network.links), tmp_path / "[red]network.json")
    done = castbed("topology", str(tmp_path / "[red]network.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{NAME}: 2 hosts, 2 switches, 3 links" in done.stdout


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_word_is_cut_where_a_column_beside_it_could_be_narrower(width, monkeypatch):
    console = terminal.plain_console(width=width, file=io.StringIO())
    monkeypatch.setattr(terminal, "output", console)
    table = Table(box=None, padding=(0, 2), show_header=False)
    place = "/home/somebody/castbed/results"
    table.add_row("missing", "Python's ryu", "not installed", "run ./setup.sh as root, or in virtual time with --on simulator")
    table.add_row("ok", "results", f"69266 MB free in {place}", "")
    terminal.print_table(table)
    shown = console.file.getvalue()
    assert {place, "./setup.sh", "simulator", "69266", "missing"} <= {*shown.split()}
    assert width < 80 or max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", [40, 80])
def test_no_word_and_no_digit_is_cut_on_a_narrow_terminal_or_in_a_log(run, width, monkeypatch):
    console = terminal.plain_console(width=width, file=io.StringIO())
    monkeypatch.setattr(terminal, "output", console)
    label = "propagation-graph-multicast-loss-5pct"
    summary = msgspec.structs.replace(run.summary, label=label, load_max=1234567)
    summaries = [summary, msgspec.structs.replace(summary, seed=2)]
    runs = [dataclasses.replace(run, summary=each) for each in summaries]
    for table in (summary_table(summaries[:1]), *comparison_tables(compared(grouped(runs), "label"))):
        terminal.print_table(table)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert {*label.split("-")} <= {word for line in shown.split() for word in line.split("-")}
    assert "1234567" in shown
    assert "1,234,567" in shown


def test_repeats_are_told_apart_beneath_the_table(run):
    untested = {1: ("validity",), 2: ("validity",), 3: ()}
    summaries = [
        msgspec.structs.replace(run.summary, label="basic", seed=seed, not_tested=some, messages_per_datagram=1.5 + seed / 4)
        for seed, some in untested.items()
    ]
    caption = str(summary_table(summaries).caption)
    assert "basic, seeds 1, 2: not tested: validity" in caption
    assert "several messages share a packet, on average: basic 1.75 to 2.25" in caption
    assert "basic: not tested: validity" in str(summary_table(summaries[:2]).caption)
    assert "basic, seed 1: not tested: validity" in str(summary_table([summaries[0], summaries[2]]).caption)
    assert "with one packet a message" in caption


@pytest.mark.parametrize(
    ("is_terminal", "lines"),
    [(True, ["expensive packets", "per message:", "differs"]), (False, ["expensive packets per message: differs"])],
)
def test_a_sentence_is_wrapped_between_words_on_a_terminal_and_whole_in_a_file(monkeypatch, is_terminal, lines):
    console = terminal.plain_console(width=18, file=io.StringIO(), force_terminal=is_terminal)
    monkeypatch.setattr(terminal, "output", console)
    terminal.print_sentence("expensive packets per message: differs")
    assert [line.strip() for line in console.file.getvalue().splitlines()] == lines
