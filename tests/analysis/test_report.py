"""The page of a comparison: what is in it, that it is safe, that it needs nothing else, and that a browser shows it."""

import dataclasses
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from types import UnionType
from typing import get_args, get_origin, get_type_hints
from urllib.parse import unquote

import msgspec
import pyarrow.parquet as pq
import pytest

from analysis.crew import Crew
from analysis.figures.claims import Claim, write_claims
from analysis.pages.report import render
from analysis.pages.view import ReportView
from analysis.pictures.space_time import strokes
from runfiles.errors import ResultsError
from runfiles.format import FaultRecord
from runfiles.reading import load
from testbed.__main__ import parser
from testbed.commands import compare as compare_commands
from tests.analysis.synthetic import START_NS, honest

NASTY = "<script>alert(1)</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--allow-file-access-from-files", "--enable-logging=stderr"),
)
# Loads the page in frames as wide as a phone and as a desktop, and says what is to be seen in them.
HARNESS = """<body><script>
const found = {};
const widths = [360, 1600];
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 1000; frame.src = "report.html";
  frame.onload = () => {
    const page = frame.contentDocument;
    found[width] = {
      scroll: page.documentElement.scrollWidth,
      images: [...page.images].map(image => [image.naturalWidth, image.naturalHeight, image.getBoundingClientRect().width]),
      resources: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name.slice(0, 200)),
      headings: [...page.querySelectorAll("h2")].map(heading => heading.textContent),
      style: frame.contentWindow.getComputedStyle(page.querySelector("h1")).fontWeight,
    };
    if (Object.keys(found).length == widths.length) {
      const told = document.createElement("pre");
      told.id = "found"; told.textContent = JSON.stringify(found); document.body.append(told);
    }
  };
  document.body.append(frame);
}
</script></body>"""


def compare(*words):
    arguments = parser().parse_args(["compare", *map(str, words)])
    return arguments.call(arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two groups of two runs, one of them with a label, a setting and a claim that are not fit for a page, and with a fault."""
    root = tmp_path_factory.mktemp("report") / "a & b"
    for label, protocol in (("first", "basic"), (NASTY, "best-effort")):
        for seed in (1, 2):
            maker = honest(protocol)
            maker.seed = seed
            if protocol == "basic":
                maker.faults += [
                    FaultRecord(fault=fault, target="s2-s3", asked_ns=at_ns, applied_ns=at_ns)
                    for fault, at_ns in (("link-down", START_NS + 300_000_000), ("link-up", START_NS + 400_000_000))
                ]
            directory = maker.write(root / protocol / str(seed))
            record = load(directory).run
            record = msgspec.structs.replace(record, label=label, settings={"loss": '5%"><b>'}, versions={"python": "3"})
            (directory / "run.json").write_bytes(msgspec.json.encode(record))
    write_claims([Claim("1", f"it is {NASTY}", holds=True, figure="a < b")], root)
    return root


@pytest.fixture(scope="module")
def out(place, tmp_path_factory):
    """What a comparison leaves; the first one has to analyse the runs."""
    started = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare_commands, "Crew", lambda master: started.append(master) or Crew(master))
        out = tmp_path_factory.mktemp("compared")
        assert compare(place, "--out", out, "--message", "h1:2") == 0
    assert started == [None]
    return out


@pytest.fixture(scope="module")
def page(out):
    return (out / "report.html").read_text()


class Links(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.links, self.images, self.tags = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if tag == "a" and key == "href"]
        self.images += [value for key, value in attrs if key == "src"]


@pytest.mark.usefixtures("out")
def test_what_is_analysed_is_not_analysed_again(place, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(compare_commands, "Crew", lambda _: pytest.fail("runs were analysed again"))
    assert compare(place / "basic", "--out", tmp_path, "--json") == 0
    told = json.loads(capfdbinary.readouterr().out)
    (group,) = told["comparison"]["groups"]
    assert group["values"]["expensive_packets_per_message"] == [3, 3]
    assert group["estimates"]["expensive_packets_per_message"] == {"median": 3, "low": 3, "high": 3, "method": "t-interval"}
    assert group["verdicts"] == {"holds": 2}
    assert told["claims"][0]["holds"] is True


def test_every_plot_is_there_as_png_and_svg(out):
    names = {path.name for path in (out / "plots").iterdir()}
    stems = ("cost", "links", "delays", "over-time", "load", "space-time", "network")
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    assert all(path.stat().st_size > 1000 for path in (out / "plots").iterdir())


def test_the_page_says_everything(page):
    for text in (
        *(
            "Which of these costs least",
            "4 runs were made on Mininet",
            "two clusters",
            "3.00",
            "link-down s2-s3",
            "0.200 s",
            "0.300 s",
        ),
        *("validity", "holds (2)", "a &lt; b", "datapath", "kernel", "netem", "python", "t-interval", "k - 1", "too few runs"),
    ):
        assert text in page, text


def test_what_users_name_is_shown_and_never_run(page):
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "5%&#34;&gt;&lt;b&gt;" in page
    assert {"script", "b", "iframe"}.isdisjoint(Links(page).tags)
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page


def test_the_page_needs_nothing_else_and_its_links_lead_to_files(page, out):
    found = Links(page)
    assert len(found.images) == 7
    assert all(source.startswith("data:image/") for source in found.images)
    assert not re.findall(r'(?:src|href)="(?:https?:|//|file:)', page)
    files = [link for link in found.links if not link.startswith("#")]
    assert sum(link.endswith("captures/") for link in files) == 4
    assert all((out / unquote(link)).exists() for link in files)
    assert all(f'id="{link[1:]}"' in page for link in found.links if link.startswith("#"))


@pytest.mark.usefixtures("out")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--by", "colour"], "no run has a value for 'colour'"),
        (["--against", "nobody"], "there is no group 'nobody'"),
        (["--message", "h1"], "'h1' is no message: write its origin and its number, such as h1:5"),
        (["--message", "h1:9"], "no run has a message h1:9"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_drawn(place, tmp_path, words, sentence):
    with pytest.raises(ResultsError, match=re.escape(sentence)):
        compare(place, "--out", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("out")
def test_a_message_in_space_and_time_is_made_of_its_packets(place):
    packets = pq.read_table(place / "basic" / "1" / "tables" / "packets.parquet")
    found = [
        (s.sender, s.destination, s.start - START_NS, s.end - START_NS, s.purpose, s.expensive, s.arrived)
        for s in strokes(packets, ("h1", 1), {})
    ]
    ms = 1_000_000
    assert sorted(found) == [
        ("h1", "h2", 101 * ms, 102 * ms, "data", False, True),
        ("h1", "h3", 101 * ms, 103 * ms, "data", True, True),
        ("h1", "h4", 101 * ms, 104 * ms, "data", True, True),
        ("h3", "h1", 111 * ms, 113 * ms, "control", True, True),
        ("h4", "h1", 111 * ms, 114 * ms, "control", True, True),
    ]


@pytest.mark.parametrize(
    ("simulated", "real", "sentence"),
    [
        (1, 0, "1 run was simulated, with a model of the network in virtual time. No real packets were sent."),
        (0, 3, "3 runs were made on Mininet, with real packets through Open vSwitch."),
        (
            2,
            1,
            "2 runs were simulated, with a model of the network in virtual time; 1 run was made on Mininet, with real packets.",
        ),
    ],
)
def test_the_page_says_which_runs_were_simulated(simulated, real, sentence):
    page = render(dataclasses.replace(hostile(ReportView), simulated_runs=simulated, real_runs=real))
    assert sentence in " ".join(re.sub("</?strong>", "", page).split())


def hostile(kind):
    """A value of a type of the view in which every string is markup that would leave an element or an attribute."""
    if dataclasses.is_dataclass(kind):
        return kind(**{name: hostile(hint) for name, hint in get_type_hints(kind).items()})
    if get_origin(kind) is tuple:
        return (hostile(get_args(kind)[0]),) * 2
    if get_origin(kind) is UnionType:
        return hostile(get_args(kind)[0])
    return {str: f"\"'>{NASTY}", int: 1, bool: True}[kind]


def test_every_text_of_the_page_is_escaped():
    page = render(hostile(ReportView))
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 80
    assert NASTY not in page
    assert "script" not in Links(page).tags


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium")
def test_a_browser_shows_it_on_a_phone_and_on_a_desk(out, tmp_path):
    (out / "harness.html").write_text(HARNESS)
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [CHROMIUM, *FLAGS, profile, "--virtual-time-budget=20000", "--dump-dom", (out / "harness.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    (out / "harness.html").unlink()
    assert "CONSOLE" not in done.stderr
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert match, done.stdout[-500:]
    found = json.loads(match[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    for width, seen in found.items():
        assert seen["scroll"] <= int(width), "the page scrolls sideways"
        assert len(seen["images"]) == 7
        assert all(size > 0 for image in seen["images"] for size in image)
        assert [name for name in seen["resources"] if not name.startswith("data:")] == []
        assert seen["style"] == "700"
    assert found["360"]["headings"] == found["1600"]["headings"]
