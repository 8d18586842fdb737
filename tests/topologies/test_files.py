"""Networks in JSON and GraphML files."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import Cost, Link, Network, NetworkError, dump, figure_3_2, load, units

OFFICES = {
    "name": "two offices",
    "hosts": ["h1", "h2"],
    "switches": ["s1", "s2"],
    "links": [
        {"a": "h1", "b": "s1"},
        {"a": "h2", "b": "s2"},
        {
            "a": "s1",
            "b": "s2",
            "cost": "expensive",
            "bandwidth": "10mbit",
            "delay": "20ms",
            "jitter": "1ms",
            "loss": "1%",
            "queue": 100,
        },
    ],
    "positions": {"s1": [0, 0], "s2": [1, 0]},
}
TRUNK = Link("s1", "s2", Cost.EXPENSIVE, 10.0, 20.0, 1.0, 0.01, queue_packets=100)
TIMES = st.just(0.0) | st.floats(units.SHORTEST_MS, units.LONGEST_MS)
SHARES = st.just(0.0) | st.floats(units.SMALLEST_SHARE, 1)


@st.composite
def links_between(draw, a, b):
    delay, jitter = sorted((draw(TIMES), draw(TIMES)), reverse=True)
    bandwidth = draw(st.none() | st.floats(units.SLOWEST_MBIT, units.FASTEST_MBIT))
    queue = draw(st.none() | st.integers(1, 10**6))
    loss, duplicate, reorder = (draw(SHARES) for _ in range(3))
    burst = draw(st.floats(1, 1e6))
    ends = (a, b) if draw(st.booleans()) else (b, a)
    return Link(*ends, draw(st.sampled_from(Cost)), bandwidth, delay, jitter, loss, burst, duplicate, reorder, queue)


@st.composite
def networks(draw):
    """Random trees of switches with a host each, links in any order and either direction."""
    count = draw(st.integers(2, 6))
    links = [Link(f"h{n}", f"s{n}") if draw(st.booleans()) else Link(f"s{n}", f"h{n}") for n in range(count)]
    links += [draw(links_between(f"s{draw(st.integers(0, n - 1))}", f"s{n}")) for n in range(1, count)]
    hosts, switches = (tuple(draw(st.permutations([f"{kind}{n}" for n in range(count)]))) for kind in "hs")
    place = st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2)
    positions = draw(st.dictionaries(st.sampled_from(hosts + switches), place))
    name = draw(st.text(min_size=1).filter(str.isprintable))
    return Network(name, hosts, switches, tuple(draw(st.permutations(links))), positions)


@pytest.mark.parametrize("suffix", [".json", ".graphml"])
@given(network=networks())
@settings(deadline=None)
def test_what_is_written_reads_back_the_same(suffix, network):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network{suffix}"
        dump(network, path)
        again = load(path)
    assert again == network
    assert again.positions == network.positions


def write(path, text):
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


def test_a_file_written_by_hand(tmp_path):
    network = load(write(tmp_path / "offices.json", OFFICES))
    assert network == Network("two offices", ("h1", "h2"), ("s1", "s2"), (Link("h1", "s1"), Link("h2", "s2"), TRUNK))
    assert network.positions == {"s1": (0, 0), "s2": (1, 0)}


def test_a_written_file_leaves_out_defaults_and_has_a_line_for_every_link(tmp_path):
    dump(load(write(tmp_path / "in.json", OFFICES)), tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert json.loads(text) == OFFICES
    assert '    {"a": "h1", "b": "s1"},\n    {"a": "h2", "b": "s2"},\n' in text


def offices(**changes):
    return {**OFFICES, **changes}


def trunk(**changes):
    return offices(links=[*OFFICES["links"][:2], {**OFFICES["links"][2], **changes}])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "this is not JSON: "),
        ("\udce4", "this is not JSON: "),
        ({key: value for key, value in OFFICES.items() if key != "hosts"}, "it needs the field hosts"),
        (offices(colour="red"), "there is no field colour: choose from name, hosts, switches, links, positions"),
        (offices(hosts="h1"), "hosts: Expected array, got str"),
        (offices(links=[{"a": "h1"}]), "link number 1: it needs the field b"),
        (
            trunk(bandwith="1mbit"),
            (
                "link s1-s2: there is no field bandwith: choose from a, b, cost, "
                "bandwidth, delay, jitter, loss, burst, duplicate, reorder, queue"
            ),
        ),
        (trunk(delay="20"), "link s1-s2: '20' is not a time: write a number and a unit, one of us, ms, s"),
        (trunk(delay=20), "link s1-s2: delay: Expected str | null, got int"),
        (trunk(loss="200%"), "link s1-s2: share '200%' must be 0, or between 0.0000001% and 100%"),
        (trunk(cost="dear"), "link s1-s2: cost: Invalid enum value 'dear'"),
        (trunk(queue=-1), "link s1-s2: '-1' is not a whole number"),
        (trunk(jitter="30ms"), "network 'two offices': link s1-s2: jitter of 30.0 ms is more than the delay of 20.0 ms"),
    ],
)
def test_a_bad_json_file_is_refused_with_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else json.dumps(text).encode())
    with pytest.raises(NetworkError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {sentence}")


GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k" for="node" attr.name="kind" attr.type="string"/><key id="c" for="edge" attr.name="cost" attr.type="string"/>
<key id="d" for="edge" attr.name="delay" attr.type="string"/><key id="n" for="edge" attr.name="number" attr.type="string"/>
<key id="w" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="undirected">
<node id="h1"><data key="k">host</data></node><node id="h2"><data key="k">host</data></node>
<node id="s1"><data key="k">switch</data></node><node id="s2"><data key="k">switch</data></node>
<edge source="h1" target="s1"/><edge source="h2" target="s2"/>
<edge source="s1" target="s2"><data key="c">expensive</data><data key="d">5ms</data><data key="w">3.0</data></edge>
</graph></graphml>"""


def test_graphml_from_elsewhere_needs_no_more_than_kinds(tmp_path):
    network = load(write(tmp_path / "drawn.graphml", GRAPHML))
    trunk = Link("s1", "s2", Cost.EXPENSIVE, delay_ms=5.0)
    assert network == Network("drawn", ("h1", "h2"), ("s1", "s2"), (Link("h1", "s1"), Link("h2", "s2"), trunk))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("not xml", "this is not GraphML: "),
        ("<html/>", "this is not GraphML: "),
        (GRAPHML.replace('<data key="k">switch</data>', "", 1), "node 's1': it needs the field kind"),
        (GRAPHML.replace(">host<", ">router<", 1), "node 'h1': kind: Invalid enum value 'router'"),
        (GRAPHML.replace("5ms", "5"), "link s1-s2: '5' is not a time: write a number and a unit, one of us, ms, s"),
        (
            GRAPHML.replace('<data key="w">3.0', '<data key="n">first'),
            "link s1-s2: its attribute number must be a whole number, not 'first'",
        ),
    ],
)
def test_a_bad_graphml_file_is_refused_with_a_sentence(tmp_path, text, sentence):
    path = write(tmp_path / "bad.graphml", text)
    with pytest.raises(NetworkError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {sentence}")


def test_files_that_cannot_be_read_or_written_are_refused_with_a_sentence(tmp_path):
    absent = tmp_path / "absent" / "network.json"
    with pytest.raises(NetworkError, match=f"cannot read {absent}: No such file or directory"):
        load(absent)
    with pytest.raises(NetworkError, match=f"cannot write {absent}: No such file or directory"):
        dump(figure_3_2(), absent)
    with pytest.raises(NetworkError, match=r"cannot tell the format of network.yaml: its name must end in .json or .graphml"):
        load("network.yaml")
