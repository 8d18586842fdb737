"""The parent graph over time: what makes it a cluster tree, which clusters there are, and how long a tree takes to form."""

import io

import pytest
from rich.console import Console

from analysis.figures.trees.tree_report import report
from analysis.judging.check_run import history_of
from analysis.judging.connectivity import Connectivity
from analysis.judging.fault_windows import Window, windows
from analysis.judging.findings import not_tested
from analysis.judging.history import BroadcastEvent, History, ParentChange, make
from analysis.judging.judge import CHECKS, Verdict
from analysis.judging.network_state import Ground
from analysis.judging.parents import (
    LeaderChange,
    Reformation,
    circles,
    cluster_tree_problems,
    clusters_around,
    leader_changes,
    named,
    parents_at,
    reformations,
    sources,
)
from analysis.pages.terminal_tables import reformation_table, tree_table
from analysis.pictures.fault_plots import delays_over_time_figure
from analysis.pictures.trees import save_trees
from hostagent.contract.promises import Guarantee
from runfiles.errors import ResultsError
from runfiles.format import Event, FaultRecord
from runfiles.reading import load
from tests.analysis import mutants as m
from tests.analysis import plays
from tests.analysis.stage import SECOND, Stage, numbered, promise
from tests.analysis.synthetic import NETWORK, START_NS, honest
from topologies import clusters, figure_3_2

THREE = (("h1", "h2"), ("h3", "h4", "h5"), ("h6",))
TREE = {"h2": "h1", "h3": "h1", "h4": "h3", "h5": "h3", "h6": "h4"}
NO_PARENT = ""

BROKEN = {
    "a member has no parent": ({"h2": NO_PARENT}, ["h2 has no parent", "h1 and h2 both lead the cluster h1 and h2"]),
    "a leader has no parent": ({"h6": NO_PARENT}, ["h6 has no parent"]),
    "the source has a parent": ({"h1": "h6"}, ["h1 is the source, but a child of h6", "h1 is a child of h6 is a child of h4 is a child of h3 is a child of h1, in a circle"]),  # noqa: E501 - a row of a table
    "two leaders": ({"h4": "h2"}, ["h3 and h4 both lead the cluster h3, h4 and h5"]),
    "all lead": ({"h4": "h2", "h5": "h6"}, ["h3, h4 and h5 all lead the cluster h3, h4 and h5"]),
    "a grandchild in the cluster": ({"h5": "h4"}, ["h5 is a child of h4, but h3 leads their cluster"]),
    "a circle in a cluster": ({"h3": "h4"}, ["h3 is a child of h4 is a child of h3, in a circle"]),
    "a circle of clusters": ({"h3": "h6"}, ["h3 is a child of h6 is a child of h4 is a child of h3, in a circle"]),
    "a parent that is gone": ({"h6": "h9"}, ["h6 is a child of h9, which is down or cut off"]),
    "its own parent": ({"h6": "h6"}, ["h6 is a child of h6, in a circle"]),
}  # fmt: skip


def graph(**changes):
    return {host: parent for host, parent in (TREE | changes).items() if parent}


def test_a_cluster_tree_has_no_problems():
    assert cluster_tree_problems(TREE, THREE, "h1") == ()


@pytest.mark.parametrize(("changes", "sentences"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_cluster_tree_is_told_in_sentences(changes, sentences):
    assert list(cluster_tree_problems(graph(**changes), THREE, "h1")) == sentences


def test_without_its_source_there_is_no_tree():
    assert cluster_tree_problems(TREE, THREE[1:], "h1") == ("h1, the source, is down",)


def test_long_lists_are_cut():
    assert named(["h1"]) == "h1"
    assert named([f"h{n}" for n in range(1, 6)]) == "h1, h2, h3, h4 and h5"
    assert named([f"h{n}" for n in range(1, 9)]) == "h1, h2, h3, h4 and 4 more"


def fault(word, target="", at_s=0.0, **details):
    at_ns = round(at_s * SECOND)
    return FaultRecord(fault=word, target=target, asked_ns=at_ns, applied_ns=at_ns, details=details)


def ground(network, *faults):
    state = Ground(network)
    for one in faults:
        state.apply(one)
    return state


def test_without_faults_the_clusters_are_those_of_the_network():
    for network in (clusters(4, 3, "ring"), figure_3_2(), NETWORK):
        assert ground(network).clusters() == network.clusters


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([fault("crash", "h3")], (("h1", "h2"), ("h4",))),
        ([fault("pause", "h1")], (("h2",), ("h3", "h4"))),
        ([fault("crash", "h3"), fault("restart", "h3", storage="lost")], (("h1", "h2"), ("h3", "h4"))),
        ([fault("link-down", "s2-s3")], (("h1", "h2"), ("h3",), ("h4",))),
        ([fault("link-change", "s2-s3", loss=0.9)], (("h1", "h2"), ("h3",), ("h4",))),
        ([fault("link-down", "s2-s3"), fault("heal")], (("h1", "h2"), ("h3", "h4"))),
        ([fault("link-down", "s1-s2")], (("h1", "h2"), ("h3", "h4"))),
        ([fault("switch-stop", "s3")], (("h1", "h2"), ("h3",), ("h4",))),
    ],
)
def test_faults_change_the_clusters(faults, expected):
    assert ground(NETWORK, *faults).clusters() == expected


def test_a_cheap_link_that_comes_back_joins_clusters_only_when_a_controller_routes_over_it():
    down, stop, up = fault("link-down", "s2-s3"), fault("controller-stop"), fault("link-up", "s2-s3")
    assert ground(NETWORK, down, stop, up).clusters() == (("h1", "h2"), ("h3",), ("h4",))
    assert ground(NETWORK, down, stop, up, fault("controller-start")).clusters() == NETWORK.clusters


def test_only_clusters_that_are_connected_with_the_source_can_be_in_its_tree():
    cut = fault("link-down", "s1-s2")
    assert clusters_around(ground(NETWORK, cut), "h1") == (("h1", "h2"),)
    assert clusters_around(ground(NETWORK, cut), "h4") == (("h3", "h4"),)
    assert clusters_around(ground(NETWORK, fault("crash", "h1")), "h1") == ()


def told(host, at_s, parent, source="h1"):
    return host, round(at_s * SECOND), "parent", "", 0, {"source": source, "parent": parent, "leader": False}


def test_a_restart_leaves_a_host_without_parents():
    start = ("h2", 0, "start", "", 0, {"incarnation": 1})
    again = ("h2", 3 * SECOND, "start", "", 0, {"incarnation": 2})
    history = make(("h1", "h2", "h3"), numbered(start, told("h2", 1, "h1"), told("h2", 2, "h3", "h3"), again), 9 * SECOND, ())
    assert history.parents == (
        ParentChange(SECOND, "h2", "h1", "h1", 2, leads=False),
        ParentChange(2 * SECOND, "h2", "h3", "h3", 3, leads=False),
        ParentChange(3 * SECOND, "h2", "h1", "", 4),
        ParentChange(3 * SECOND, "h2", "h3", "", 4),
    )
    assert sources(history) == ("h1", "h3")
    assert parents_at(history.parents, "h1", 3 * SECOND - 1) == {"h2": "h1"}
    assert parents_at(history.parents, "h1", 3 * SECOND) == {}


def grown(*later, ended_s=60.0):
    """h1 broadcasts at once; after a second there is a tree in which h3 leads h4."""
    first = [("h1", 0, "broadcast", "h1", 1, {}), told("h2", 0.5, "h1"), told("h3", 0.6, "h2"), told("h4", 1.0, "h3")]
    return make(NETWORK.hosts, numbered(*first, *later), round(ended_s * SECOND), ())


def test_a_tree_that_forms_and_forms_again():
    faults = [fault("crash", "h3", 5), fault("restart", "h3", 20)]
    history = grown(
        told("h4", 6, ""), told("h4", 7, "h1"), ("h3", 20 * SECOND, "start", "", 0, {"incarnation": 2}), told("h3", 20.3, "h4")
    )
    assert reformations(NETWORK, faults, history, "h1") == (
        Reformation(0, "first broadcast", SECOND, 2, 3),
        Reformation(5 * SECOND, "crash h3", 2 * SECOND, 1, 2),
        Reformation(20 * SECOND, "restart h3", 300_000_000, 0, 2),
    )
    assert leader_changes(NETWORK, faults, history, "h1") == (
        LeaderChange(500_000_000, ("h1", "h2"), "h1", ""),
        LeaderChange(SECOND, ("h3", "h4"), "h3", ""),
        LeaderChange(5 * SECOND, ("h4",), "h4", "h3"),
    )


def test_a_tree_that_stands_falls_and_never_comes_back():
    faults = [fault("link-down", "s2-s3", 5), fault("link-up", "s2-s3", 10)]
    history = grown(told("h4", 12, ""))
    stood = Reformation(0, "first broadcast", SECOND, 2, 3)
    assert reformations(NETWORK, (), history, "h1") == (Reformation(0, "first broadcast", None, 2, 4),)
    assert reformations(NETWORK, faults, history, "h1") == (
        stood,
        Reformation(5 * SECOND, "link-down s2-s3", 0, 0, 0),
        Reformation(10 * SECOND, "link-up s2-s3", None, 0, 1),
    )
    down = [fault("crash", "h1", 5)]
    assert reformations(NETWORK, down, grown(), "h1") == (stood, Reformation(5 * SECOND, "crash h1", None, 0, 0))


def test_faults_at_one_instant_are_one_change():
    faults = [fault("pause", "h4", 5), fault("link-down", "s2-s3", 5)]
    assert [row.cause for row in reformations(NETWORK, faults, grown(), "h1")] == [
        "first broadcast",
        "pause h4 and link-down s2-s3",
    ]


def judged(history, *faults, patience_ms=5000.0):
    connectivity = Connectivity(NETWORK, faults, history.ended_ns)
    return CHECKS[Guarantee.CLUSTER_TREE](history, promise(patience_ms=patience_ms), connectivity)


def test_the_tree_is_not_tested_where_there_was_no_news_or_no_time():
    assert (judged(grown()).verdict, judged(grown()).cases) == (Verdict.HOLDS, 1)
    assert judged(grown(told("h4", 2, ""))).verdict is Verdict.VIOLATED
    for finding, why in (
        (
            judged(grown(told("h4", 2, "")), fault("pause", "h2", 3), fault("resume", "h2", 4)),
            "nobody broadcast after the last fault",
        ),
        (judged(grown(told("h4", 2, ""), ended_s=4)), "the run ended before the tree had to stand, at 5.000 s"),
        (judged(grown(told("h4", 2, "")), fault("crash", "h2", 3)), "at the end a host was down or cut off"),
    ):
        assert finding == not_tested(why)


def test_without_a_single_parent_event_the_tree_is_violated_or_not_tested_but_never_holds():
    """A run in which nobody says who its parent is shows no tree."""
    silent = grown()._replace(parents=())
    assert judged(silent).verdict is Verdict.VIOLATED
    assert judged(silent).reason.startswith("h2 has no parent, in the tree of h1 when the run ended")
    assert judged(silent._replace(ended_ns=4 * SECOND)).verdict is Verdict.NOT_TESTED


def test_the_checker_looks_at_the_clusters_that_there_are_at_the_end():
    """Without the cheap link between s1 and s2 there are two clusters, joined by the expensive way round."""
    network = figure_3_2(repaired=True)
    apart = figure_3_2()
    leaders = {cluster[0]: "h1" for cluster in apart.clusters[1:]}
    parents = leaders | {host: cluster[0] for cluster in apart.clusters for host in cluster[1:]}
    changes = tuple(ParentChange(2, host, "h1", parent) for host, parent in parents.items())
    history = History(network.hosts, (BroadcastEvent(1, "h1", 1),), (), 60 * SECOND, (), (), changes)
    split = Connectivity(network, [fault("link-down", "s3-s5")], history.ended_ns)
    assert split.clusters == apart.clusters
    check = CHECKS[Guarantee.CLUSTER_TREE]
    assert check(history, promise(), split).verdict is Verdict.HOLDS
    assert "both lead the cluster" in check(history, promise(), Connectivity(network, (), history.ended_ns)).reason


def test_a_counterexample_shows_the_news_and_the_last_parents():
    finding = judged(grown(told("h4", 2, "h1")))
    assert finding.reason == (
        "h3 and h4 both lead the cluster h3 and h4, in the tree of h1 when the run ended at 60.000 s, "
        "though there was news at 0.000 s and no fault since"
    )
    assert [(event.host, event.event, event.at_ns) for event in finding.events] == [
        ("h1", "broadcast", 0),
        ("h3", "parent", 600_000_000),
        ("h4", "parent", 2 * SECOND),
    ]


def test_the_tree_is_asked_of_each_source():
    stage = plays.quiet_day(m.ChildOfTheSource)
    stage.events = [event for event in stage.events if event[2] != "parent" or event[5]["source"] == "h1"]
    finding = CHECKS[Guarantee.CLUSTER_TREE](stage.history(), promise(), stage.connectivity())
    assert finding.reason.startswith("h1 has no parent, in the tree of h2 ")


def test_a_source_that_is_silent_since_the_last_fault_is_not_asked_for_its_tree():
    stage = Stage(m.KeepsToItself)
    stage.broadcast("h1")
    stage.run(1)
    stage.isolate("h3")
    stage.rejoin("h3")
    stage.run(20)
    assert CHECKS[Guarantee.CLUSTER_TREE](stage.history(), promise(), stage.connectivity()).reason.endswith(
        "after the last fault"
    )


def shown(table) -> list[str]:
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines() if line.strip()]


@pytest.fixture
def run(tmp_path):
    """A run directory in which h4 attaches late to the wrong host, and s2-s3 fails for a while."""
    maker = honest("cluster-tree")
    for host, at_s, parent in (("h2", 1, "h1"), ("h3", 1, "h1"), ("h4", 2, "h1"), ("h4", 3, "h3")):
        details = {"source": "h1", "parent": parent, "leader": False}
        maker.events[host].append(Event(at_ns=START_NS + at_s * SECOND, event="parent", details=details))
    for word, at_s in (("link-down", 10), ("link-up", 20)):
        at_ns = START_NS + at_s * SECOND
        maker.faults.append(FaultRecord(fault=word, target="s2-s3", asked_ns=at_ns, applied_ns=at_ns))
    return load(maker.write(tmp_path / "run"))


def test_the_tables_of_a_run(run):
    history = history_of(run)
    found = report(run, history, times_ms=(2500.0, 15_000.0, 59_900.0))
    assert (found.source, found.others) == ("h1", ())
    early, cut, late = found.trees
    assert shown(tree_table("h1", early))[3:5] == ["h1 (the source) h2", "h3, h4 h1, h1 -"]
    assert tree_table("h1", early).caption == "no tree of clusters: h3 and h4 both lead the cluster h3 and h4"
    assert shown(tree_table("h1", cut))[-2:] == ["h4 h3 - cut off", "a tree of clusters"]
    assert shown(tree_table("h1", late))[-2:] == ["h3 h1 h4", "a tree of clusters"]
    assert shown(reformation_table(found, history))[3:] == [
        "0.000 s first broadcast 2900 ms 2 4",
        "9.900 s link-down s2-s3 stood 0 0",
        "19.900 s link-up s2-s3 stood 0 0",
        "until the next fault, or the end",
    ]


def test_the_pictures_of_a_run(run):
    history = history_of(run)
    written = save_trees(run, history, report(run, history, times_ms=(2500.0,)))
    written += save_trees(run, history, report(run, history))
    assert [path.name for path in written] == ["tree-h1-2.5s.png", "tree-h1-2.5s.svg", "tree-h1-end.png", "tree-h1-end.svg"]
    assert all(path.stat().st_size > 1000 for path in written)


def test_what_cannot_be_shown_is_a_sentence(run, tmp_path):
    history = history_of(run)
    with pytest.raises(ResultsError, match=r"has no tree of 'h2': choose from h1"):
        report(run, history, "h2")
    with pytest.raises(ResultsError, match=r"has no tree at 70 s: the run ended at 59.900 s"):
        report(run, history, times_ms=(70_000.0,))
    bare = load(honest().write(tmp_path / "bare"))
    with pytest.raises(ResultsError, match=r"has no tree: no host of basic ever had a parent"):
        report(bare, history_of(bare))


def test_faults_last_until_they_are_mended():
    faults = [
        fault("link-down", "s1-s2", 1),
        fault("link-up", "s2-s1", 2),
        fault("crash", "h3", 2),
        fault("pause", "h1", 3),
        fault("link-change", "s2-s3", 4, loss=0.5, towards="s3"),
        fault("link-change", "s2-s3", 5, loss=0.0, towards="s3"),
        fault("clock", "h2", 6, offset_ms=5.0),
        fault("resume", "h1", 7),
        fault("link-down", "s2-s3", 8),
        fault("heal", "", 9),
    ]
    seconds = [(window.label, window.start_ns / SECOND, window.end_ns / SECOND) for window in windows(faults, 20 * SECOND)]
    assert seconds == [
        ("link-down s1-s2", 1, 2),
        ("crash h3", 2, 20),
        ("pause h1", 3, 7),
        ("link-change s2-s3", 4, 5),
        ("clock h2", 6, 6),
        ("link-down s2-s3", 8, 9),
    ]
    assert windows([], 1) == ()
    assert isinstance(windows(faults, SECOND)[0], Window)


def test_the_plot_of_delays_has_a_dot_for_each_delivery_and_a_lane_for_each_fault(run):
    history = history_of(run)
    delays, faults = delays_over_time_figure(run, history).axes
    assert len(delays.collections[0].get_offsets()) == 2 * 3
    assert [label.get_text() for label in faults.get_yticklabels()] == ["link-down s2-s3"]
    assert [text.get_text() for text in delays.get_legend().get_texts()] == ["a delivery"]
    lost = history._replace(deliveries=history.deliveries[:-1])
    legend = delays_over_time_figure(run, lost).axes[0].get_legend()
    assert legend.get_texts()[1].get_text() == "not delivered everywhere by the end"


def test_many_kinds_of_faults_share_the_last_lane_of_the_plot(run):
    object.__setattr__(run, "faults", tuple(fault("clock", f"h{n}", START_NS / SECOND + n) for n in range(30)))
    _, faults = delays_over_time_figure(run, history_of(run)).axes
    assert [label.get_text() for label in faults.get_yticklabels()][-2:] == ["clock h8", "21 more"]


def test_circles_are_found_once_with_whatever_hangs_below_them():
    parents = {"a": "b", "b": "c", "c": "d", "d": "b", "g": "source"}
    assert list(circles(parents, ["source", "a", "b", "c", "d", "g"])) == [("b", "c", "d")]
