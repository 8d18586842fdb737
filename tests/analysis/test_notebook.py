"""Results as frames and figures: `import castbed`, the example notebook, `castbed plot`, and the numbers of a comparison as files."""

import csv
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import castbed as module
from analysis.notebook.figures import size_cm
from hostagent.protocols import PROTOCOLS
from tests.analysis.synthetic import honest
from tests.testbed.conftest import ROOT, castbed

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SMALL = ("--set", "k=2", "--set", "size=2", "--set", "shape=line", "--set", "messages=20", "--set", "settle=15s", "--repeat", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The runs that the notebook asks for, but smaller."""
    place = tmp_path_factory.mktemp("notebook")
    out = place / "results" / "notebook"
    over = ("--over", "protocol=basic,cluster-tree", "--over", "loss=0%,5%")
    done = castbed("sweep", "clusters", *over, *SMALL, "--on", "simulator", "--out", str(out))
    assert done.returncode == 0, done.stderr + done.stdout
    return place


@pytest.fixture(scope="module")
def runs(place):
    return module.runs(place / "results")


def test_the_example_notebook_runs_from_its_first_cell_to_its_last(place, monkeypatch):
    monkeypatch.chdir(place)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), f"{NOTEBOOK}:{cell['id']}", "exec"), names)
    assert len(names["summaries"]) == 8
    assert Path("against-loss.pdf").read_bytes().startswith(b"%PDF")
    assert isinstance(names["own"], Figure)


def test_summaries_have_what_was_set_and_what_came_of_it(runs):
    found = runs.summaries()
    assert list(found.columns[:5]) == ["run", "scenario", "label", "protocol", "seed"]
    assert sorted(found["loss"].unique()) == ["0%", "5%"]
    assert set(found["verdict"]) == {"holds"}
    assert found["expensive_packets_per_message"].notna().all()
    assert runs.summaries("arrow").num_rows == len(runs) == 8


def test_kinds_of_messages_have_their_names_also_where_the_protocol_is_not_at_hand(place, tmp_path):
    shutil.copytree(place / "results" / "notebook" / "basic-loss-0pct" / "1", tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"protocol": "gossip"}))
    packets = module.runs(tmp_path).table("packets", "arrow")
    assert set(packets["kind_name"].to_pylist()) == {kind.__name__ for kind in PROTOCOLS["basic"].messages}


def test_tables_of_many_runs_are_one_with_the_run_in_front(runs):
    some = runs.where(protocol="basic", loss="0%")
    assert len(some) == 2
    packets = some.table("packets", "arrow")
    assert packets.column_names[:5] == ["run", "scenario", "label", "protocol", "seed"]
    assert set(packets["kind_name"].to_pylist()) == {kind.__name__ for kind in PROTOCOLS["basic"].messages}
    assert packets.num_rows == sum(run.table("packets").num_rows for run in some)
    assert isinstance(some.table("delays"), pd.DataFrame)
    assert isinstance(some.table("delays", "arrow"), pa.Table)


def test_tables_are_frames_of_spark_too(runs, spark):
    found = runs[:2].table("loads", "spark", spark)
    assert found.count() == 8
    assert {"run", "seed", "label", "host"} <= set(found.columns)


def test_one_way_of_spark_reads_the_tables_of_all_repeats(place, spark):
    """The lines in docs/tables.md."""
    lines = (ROOT / "docs" / "tables.md").read_text().splitlines()
    (line,) = [line.strip() for line in lines if line.strip().startswith("spark.read.option")]
    found = eval(line.replace('"results"', repr(str(place / "results"))), {"spark": spark})
    assert found.select("_metadata.file_path").distinct().count() == 8


def test_figures_have_names_and_can_be_changed(runs):
    names = list(runs.figures())
    assert {"cost", "delays", "against-loss", "network", "basic-loss-5pct/1/links"} <= set(names)
    assert isinstance(runs.figure("cost"), Figure)
    with pytest.raises(module.ResultsError, match="have no figure 'nope': choose from against-loss, cost"):
        runs.figure("nope")


def test_what_is_not_there_is_a_sentence(runs, tmp_path):
    with pytest.raises(module.ResultsError, match="there is no table 'nope'"):
        runs.table("nope")
    honest().write(tmp_path / "run")
    with pytest.raises(module.ResultsError, match="is not analysed"):
        module.runs(tmp_path)


@pytest.mark.parametrize("name", ["cost", "against-loss", "basic-loss-5pct/1/links", "links"])
def test_a_title_can_be_left_out_and_panels_keep_their_names(runs, name, tmp_path):
    made = runs.figure(name)
    module.save(made, name, tmp_path / "figure.png", size="10x8cm", title="")
    assert made.get_suptitle() == ""
    assert tuple(made.get_size_inches()) == pytest.approx((10 / 2.54, 8 / 2.54))
    titles = {axes.get_title(loc=place) for axes in made.axes for place in ("left", "center")} - {""}
    assert (
        titles
        == {
            "cost": set(),
            "basic-loss-5pct/1/links": set(),
            "links": {group.name for group in runs.groups()},
            "against-loss": titles,
        }[name]
    )
    assert bool(titles) == (name in {"links", "against-loss"})


def test_a_small_figure_has_small_letters_and_nothing_leaves_it(runs, tmp_path):
    made = runs.figure("against-loss")
    module.save(made, "against-loss", tmp_path / "small.png", size="12x8cm")
    extents = [axes.get_tightbbox() for axes in made.axes] + [legend.get_window_extent() for legend in made.legends]
    assert all(made.bbox.x0 <= box.x0 and box.x1 <= made.bbox.x1 for box in extents)
    assert made.axes[2].xaxis.get_ticklabels()[0].get_fontsize() < 8


def test_plot_saves_a_figure_in_each_format(place, tmp_path):
    files = [tmp_path / f"cost.{kind}" for kind in ("pdf", "svg", "png")]
    words = [word for path in files for word in ("--save", str(path))]
    done = castbed("plot", str(place / "results"), "cost", *words, "--size", "12x8cm", "--no-title")
    assert done.returncode == 0, done.stderr
    pdf, svg, png = (path.read_bytes() for path in files)
    assert pdf.startswith(b"%PDF")
    assert png.startswith(b"\x89PNG")
    assert b'width="340' in svg, "12 cm are 340 points"
    listed = castbed("plot", str(place / "results"), "--json")
    assert "against-loss" in json.loads(listed.stdout)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("cost",), "where should cost be saved?"),
        (("cost", "--save", "x.doc"), "must end in"),
        (("no", "--save", "x.pdf"), "no figure"),
    ],
)
def test_what_cannot_be_plotted_is_a_sentence(place, words, sentence, tmp_path):
    done = castbed("plot", str(place / "results"), *words, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_sizes_have_units():
    assert [size_cm(text) for text in ("12x8", "120x80mm", "5x3in")] == [(12, 8), (12, 8), pytest.approx((12.7, 7.62))]
    for text in ("12", "0x3", "axb", "12x8km"):
        with pytest.raises(ValueError, match="is no size"):
            size_cm(text)


def test_a_comparison_saves_its_numbers(place):
    out = place / "results" / "notebook"
    with (out / "comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    saved = json.loads((out / "comparison.json").read_text())
    (row,) = [row for row in rows if (row["group"], row["figure"]) == ("basic-loss-0pct", "expensive_packets_per_message")]
    (group,) = [group for group in saved["groups"] if group["name"] == "basic-loss-0pct"]
    assert float(row["median"]) == group["estimates"]["expensive_packets_per_message"]["median"]
    assert (row["runs"], row["books_balanced"]) == ("2", "True")


def test_a_script_of_a_user_finds_castbed_and_its_own_modules(tmp_path):
    (tmp_path / "mine.py").write_text("WORD = 'found'")
    (tmp_path / "script.py").write_text(
        "import castbed, mine, sys\nprint(castbed.runs.__name__, mine.WORD, sys.argv[1])\nsys.exit(3)"
    )
    done = castbed("python", str(tmp_path / "script.py"), "word", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "runs found word\n")
