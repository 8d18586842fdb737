"""Runs travel in an archive and arrive as they left; an archive that is not ours leaves nothing behind."""

import os
import shutil
import stat
import zipfile

import pytest

from analysis.judging.check_run import check_run
from runfiles.archives import pack, unpack
from runfiles.errors import ResultsError
from tests.analysis.synthetic import honest


def quiet(stage, detail=""):
    """No progress."""


def files(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.fixture
def runs(tmp_path):
    """Two runs and their comparison."""
    place = tmp_path / "runs-1.5"
    for name in ("basic", "again/2"):
        honest().write(place / name)
    (place / "plots").mkdir()
    (place / "plots" / "cost.svg").write_text("<svg/>")
    return place


@pytest.fixture
def archive(runs, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    pack(runs, away / "runs.zip", quiet)
    return away / "runs.zip"


def test_what_is_unpacked_is_what_was_packed(runs, archive):
    place = unpack(archive, quiet)
    assert place == archive.parent / "runs"
    assert files(place) == files(runs)
    assert check_run(place / "basic") == check_run(runs / "basic")
    assert {path.name for path in archive.parent.iterdir()} == {"runs", "runs.zip"}


def test_a_single_run_travels_too(runs, tmp_path):
    assert pack(runs / "basic", tmp_path / "one.zip", quiet) == []
    assert files(unpack(tmp_path / "one.zip", quiet)) == files(runs / "basic")


def test_the_same_runs_give_the_same_archive_whoever_packs_them_when(runs, archive, tmp_path):
    copy = tmp_path / "elsewhere" / runs.name
    shutil.copytree(runs, copy)
    for path in copy.rglob("*"):
        path.chmod(0o777)
        os.utime(path, (1, 1))
    pack(copy, tmp_path / "other.zip", quiet)
    assert (tmp_path / "other.zip").read_bytes() == archive.read_bytes()
    with zipfile.ZipFile(archive) as packed:
        assert packed.namelist() == sorted(packed.namelist())
        assert all(name.startswith("runs-1.5/") for name in packed.namelist())


def test_stray_files_stay_where_they_are_and_are_named(runs, tmp_path):
    expected = files(runs)
    (runs / "notes.txt").write_text("mine")
    (runs / "basic" / "old.zip").write_text("mine")
    (runs / "basic" / ".cache").write_text("hidden")
    (runs / "basic" / "captures" / "passwords.pcap").symlink_to("/etc/passwd")
    os.mkfifo(runs / "basic" / "events" / "pipe")
    left_out = pack(runs, tmp_path / "runs.zip", quiet)
    assert left_out == ["basic/captures/passwords.pcap", "basic/events/pipe", "basic/old.zip", "notes.txt"]
    assert files(unpack(tmp_path / "runs.zip", quiet)) == expected


def test_an_archive_that_lies_unpacked_is_used_again_whatever_the_analysis_made_there(archive):
    place = unpack(archive, quiet)
    (place / "basic" / "plots").mkdir()
    (place / "basic" / "plots" / "links.png").write_text("drawn")
    (place / "basic" / "summary.json").write_text("{}")
    before = files(place)
    assert unpack(archive, quiet) == place
    assert files(place) == before


@pytest.mark.parametrize("change", ["altered", "missing", "more"])
def test_another_directory_in_the_way_is_left_alone(change, archive):
    place = unpack(archive, quiet)
    log = place / "basic" / "events" / "h1.jsonl"
    if change == "altered":
        log.write_bytes(log.read_bytes().replace(b"1", b"2", 1))
    elif change == "missing":
        log.unlink()
    else:
        (place / "basic" / "events" / "h9.jsonl").touch()
    before = files(place)
    with pytest.raises(ResultsError, match=r"exists already, and is not what .* holds"):
        unpack(archive, quiet)
    assert files(place) == before


def test_what_cannot_be_packed_is_a_sentence(runs, archive):
    for place, target, sentence in (
        (runs, archive, "exists already: choose another name with --out"),
        (runs, archive.with_suffix(".tar"), r"must end in \.zip"),
        (archive, archive.with_name("x.zip"), "is not a finished run"),
        (archive.parent, archive.with_name("x.zip"), "is not a finished run"),
    ):
        with pytest.raises(ResultsError, match=sentence):
            pack(place, target, quiet)
    assert [path.name for path in archive.parent.iterdir()] == ["runs.zip"]


def member(name, mode=stat.S_IFREG | 0o644, text="{}"):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry, text


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([member("x/basic/../../../up.json")], "holds 'x/basic/../../../up.json', which is no file of a run"),
        ([member("/etc/run.json")], "holds '/etc/run.json', which is no file"),
        ([member("../basic/run.json")], "holds '../basic/run.json', which is no file"),
        ([member("x/basic/events/..\\..\\up.jsonl")], "which is no file of a run"),
        ([member("x/basic/.bashrc")], "holds 'x/basic/.bashrc', which is no file"),
        ([member("x/basic/hack.sh")], "holds 'x/basic/hack.sh', which is no file"),
        ([member("x/basic/captures/link.pcap", stat.S_IFLNK | 0o777, "/etc/passwd")], "as a link or a device"),
        ([member("x/basic/captures/null.pcap", stat.S_IFCHR | 0o666)], "as a link or a device"),
        ([member("y/basic/network.json")], "does not hold each file once, in one folder"),
        ([member("x/basic/events/h1.jsonl", text="0" * 10**7)], "says that it holds 10.0 MB, which no run of its size does"),
    ],
)
def test_an_archive_that_could_do_harm_is_refused_before_anything_is_written(members, sentence, tmp_path):
    archive = tmp_path / "in" / "hostile.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry, text in (member("x/basic/run.json"), *members):
            packed.writestr(entry, text, zipfile.ZIP_DEFLATED)
    with pytest.raises(ResultsError) as refused:
        unpack(archive, quiet)
    assert sentence in str(refused.value)
    assert list(tmp_path.rglob("*")) == [archive.parent, archive]


def test_a_truncated_damaged_or_foreign_archive_is_a_sentence(archive):
    whole = archive.read_bytes()
    with zipfile.ZipFile(archive) as packed:
        start = packed.getinfo("runs-1.5/basic/run.json").header_offset + 60
    foreign = archive.with_name("foreign.zip")
    with zipfile.ZipFile(foreign, "w") as other:
        other.writestr("holiday/photo.jpg", "x")
    spoiled = (
        b"",
        b"hello",
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:start] + bytes(8) + whole[start + 8 :],
        foreign.read_bytes(),
    )
    foreign.unlink()
    for content in spoiled:
        archive.write_bytes(content)
        with pytest.raises(ResultsError, match=r"is not an archive of runs, or a damaged one|holds no run"):
            unpack(archive, quiet)
        assert [path.name for path in archive.parent.iterdir()] == ["runs.zip"]
