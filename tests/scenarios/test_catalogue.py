"""Scenarios are found by name or file, and their keys are read by type."""

import re
from types import SimpleNamespace

import pytest

from scenarios import Scenario, ScenarioError, Workload, pulled
from scenarios.catalogue import every, find, names
from scenarios.faults import LinkDown, LinkUp
from topologies import clusters


@pytest.mark.parametrize("name", names())
def test_every_scenario_builds_as_it_comes(name):
    definition = find(name)
    assert definition.summary
    variants = definition.build({})
    assert variants
    assert all(isinstance(variant.scenario, Scenario) for variant in variants)


def test_all_scenarios_are_listed():
    assert [definition.name for definition in every()] == names()
    assert {"clusters", "grid", "topology"} <= set(names())


def test_keys_reach_the_function_the_links_and_the_workload():
    settings = {"rows": "2", "cols": "2", "hosts": "3", "bandwidth": "5mbit", "messages": "7", "interval": "0.1s"}
    first, second = find("grid").build(settings)
    scenario = first.scenario
    assert scenario == second.scenario
    assert (first.label, second.label) == ("best-effort", "cluster-tree")
    assert len(scenario.network.hosts) == 12
    assert {link.bandwidth_mbit for link in scenario.network.links if link.expensive} == {5.0}
    assert scenario.workload == Workload(messages=7, interval=100.0)


def test_a_scenario_can_be_a_file_of_the_user(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        '"""Two hosts."""\nfrom scenarios import Scenario\nfrom topologies import clusters\n'
        "def scenario(n: int = 2) -> Scenario:\n    return Scenario(network=clusters(n, 1, 'line'))\n"
    )
    definition = find(str(mine))
    assert (definition.name, definition.summary) == ("mine", "Two hosts.")
    assert len(definition.build({"n": "3"})[0].scenario.network.hosts) == 3


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("gird", {}, "there is no scenario 'gird': did you mean grid"),
        ("catalogue", {}, "there is no scenario 'catalogue'"),
        ("nowhere.py", {}, "there is no scenario 'nowhere.py'"),
        ("grid", {"row": "3"}, "has no key 'row': choose from rows, cols, hosts"),
        ("grid", {"rows": "three"}, "rows: 'three' is not a whole number"),
        ("grid", {"rows": "0"}, "rows"),
        ("grid", {"bandwidth": "5"}, "bandwidth: '5' is not a bandwidth"),
        ("grid", {"messages": "0"}, "there must be at least one"),
        ("grid", {"interval": "0ms"}, "interval must be above zero"),
        ("grid", {"interval": "1us"}, "interval must be above zero: between 0.01ms and 1000000000ms, not 0.001 ms"),
        ("grid", {"interval": "1e-300ms"}, "interval: time '1e-300ms' must be 0ms, or between"),
        ("grid", {"messages": "1000000000"}, "messages=1000000000: there must be at least one, and at most 1,000,000"),
        ("grid", {"messages": "1e9"}, "messages: '1e9' is not a whole number"),
        ("grid", {"messages": "9" * 5000}, "messages: '9{40}' is not a whole number"),
        ("grid", {"messages": "9" * 30}, "messages: '9{30}' is out of bounds: numbers go up to 1,000,000,000,000"),
        ("grid", {"messages": "1000000", "interval": "2s"}, "1,000,000 messages every 2000 ms take longer than 1,000,000 s"),
        ("grid", {"settle": "infms"}, "settle: 'infms' is not a time"),
        ("grid", {"at_once": "1000000"}, "at_once=1000000: there must be at least one broadcast at a time, and at most 10,000"),
        ("grid", {"rows": "1000000000"}, "rows"),
        ("grid", {"burst": "inf"}, "burst: 'inf' is out of bounds"),
        ("grid", {"burst": "nan"}, "burst: 'nan' is out of bounds"),
        ("grid", {"burst": "1e9"}, "burst must be between 1 and 1,000,000 packets, not 1000000000.0"),
        ("grid", {"queue": "1000000000"}, "a queue holds between 1 and 1,000,000 packets, not 1000000000"),
        ("grid", {"delay": "1e9s"}, "delay: time '1e9s' must be 0ms, or between"),
        ("grid", {"bandwidth": "1e-9kbit"}, "bandwidth: bandwidth '1e-9kbit' must be between 0.001mbit and 32000mbit"),
        ("grid", {"arrivals": "sometimes"}, "arrivals=sometimes: choose from steady, poisson, poisson-per-host"),
        ("grid", {"at_once": "0"}, "at_once=0: there must be at least one broadcast at a time"),
        ("grid", {"sources": "h1,h99"}, "source 'h99' is not a host"),
        ("grid", {"payload": "5000"}, "a message has 0 to 1200 bytes"),
        ("grid", {"pull": "s1"}, "does not name a link"),
        ("grid", {"pull": "s1-s9"}, "no link between 's1' and 's9'"),
        ("grid", {"pull": "h1-s1"}, "the access link of a host"),
        ("clusters", {"shape": "blob"}, "there is no shape 'blob'"),
        ("topology", {"of": "nothing"}, "there is no topology 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(name, settings, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        find(name).build(settings)


@pytest.mark.parametrize(("text", "sentence"), [("x = 1", "has no function scenario"), ("def", "cannot be loaded")])
def test_a_file_that_is_no_scenario_is_refused(tmp_path, text, sentence):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ScenarioError, match=sentence):
        find(str(tmp_path / "mine.py"))


def test_the_first_host_is_the_source_unless_others_are_named():
    network = clusters(2, 2, "line")
    assert Scenario(network=network).sources == ("h1",)
    assert Scenario(network=network, sources=("h2", "h3")).sources == ("h2", "h3")
    with pytest.raises(ScenarioError, match="source 'h9' is not a host"):
        Scenario(network=network, sources=("h9",))


def test_a_pulled_link_may_come_back():
    assert pulled("") == ()
    down, up = pulled("s1-s2", at_ms=100, back_ms=300)
    assert (down, up) == (LinkDown(at_ms=100, link="s1-s2"), LinkUp(at_ms=300, link="s1-s2"))


def test_a_scenario_that_fails_is_named_with_its_line(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def scenario(n: int = 0):\n    return 1 / n\n")
    with pytest.raises(ScenarioError, match=rf"scenario mine fails at {mine}:2: ZeroDivisionError"):
        find(str(mine)).build({})


# A script that ends Castbed in each of its parts, always on line 2.
_ENDS = {
    "import": "import sys\nsys.exit(0)\ndef scenario(): ...\n",
    "scenario": "import sys\ndef scenario(): sys.exit(0)\n",
    "claims": "import sys\ndef claims(runs): sys.exit(0)\ndef scenario(): ...\n",
    "sweep": "import sys\ndef sweep(runs): exit(0)\ndef scenario(): ...\n",
    "tables": "import sys\ndef tables(runs): sys.exit(0)\ndef scenario(): ...\n",
}


def play_all_of(script, text):
    """Load a script, build its scenario and have it conclude from one run."""
    script.write_text(text)
    found = find(str(script))
    run = SimpleNamespace(summary=SimpleNamespace(seed=1, label="basic"), label="basic")
    for part in (found.conclude, found.pictures, found.compare_tables):
        part([run])
    found.build({})


@pytest.mark.parametrize("where", _ENDS)
def test_a_scenario_that_calls_sys_exit_is_named_with_its_line(tmp_path, where):
    """Castbed would otherwise end with the status that the script chose."""
    mine = tmp_path / "mine.py"
    with pytest.raises(ScenarioError, match=rf"{mine}:2: SystemExit: sys.exit\(\) was called"):
        play_all_of(mine, _ENDS[where])


@pytest.mark.parametrize("where", _ENDS)
def test_ctrl_c_in_a_scenario_stays_ctrl_c(tmp_path, where):
    with pytest.raises(KeyboardInterrupt):
        play_all_of(tmp_path / "mine.py", re.sub(r"(sys\.)?exit\(0\)", "raise KeyboardInterrupt", _ENDS[where]))
