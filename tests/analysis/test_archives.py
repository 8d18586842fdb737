"""Runs travel in an archive and arrive as they left; an archive that is not ours leaves nothing behind."""

import os
import shutil
import stat
import zipfile

import msgspec
import pytest

from analysis.judging.check_run import check_run
from runfiles import archives
from runfiles.archives import pack, unpack
from runfiles.decoding import decode
from runfiles.errors import ResultsError
from runfiles.reading import load
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
    with pytest.raises(ResultsError, match=r"exists already and differs from"):
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
        ([member("x/basic/../../../up.json")], "holds 'x/basic/../../../up.json', which is not a file of a run"),
        ([member("/etc/run.json")], "holds '/etc/run.json', which is not a file"),
        ([member("../basic/run.json")], "holds '../basic/run.json', which is not a file"),
        ([member("x/basic/events/..\\..\\up.jsonl")], "which is not a file of a run"),
        ([member("x/basic/.bashrc")], "holds 'x/basic/.bashrc', which is not a file"),
        ([member("x/basic/hack.sh")], "holds 'x/basic/hack.sh', which is not a file"),
        ([member("x/basic/captures/link.pcap", stat.S_IFLNK | 0o777, "/etc/passwd")], "as a link or a device"),
        ([member("x/basic/captures/null.pcap", stat.S_IFCHR | 0o666)], "as a link or a device"),
        ([member("y/basic/network.json")], "does not hold each file once, in one folder"),
        ([member("x/basic/events/h1.jsonl", text="0" * 10**7)], "states that it holds 10.0 MB, which is too much"),
        ([member("x/basic/events/h1.jsonl", text="0" * 10**7)], "1,000,000 files and 1,024 GiB, at most 100 times its own size"),
        ([member(f"x/basic/captures/{'y/' * 500}z")], "was not made by ./castbed export: an archive holds at most"),
        ([member("x/basic/captures"), member("x/basic/captures/s1.pcap")], "does not hold each file once, in one folder"),
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


def test_an_archive_of_too_many_files_is_refused_and_not_made(runs, archive, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_FILES", 20)
    with pytest.raises(ResultsError, match=r"was not made by ./castbed export: .*; nothing was unpacked"):
        unpack(archive, quiet)
    with pytest.raises(ResultsError, match=r"is too large for an archive: .*; pack its runs one by one"):
        pack(runs, tmp_path / "again.zip", quiet)
    assert [path.name for path in archive.parent.iterdir()] == ["runs.zip"]


def rewritten(path, change):
    document = msgspec.json.decode(path.read_bytes())
    change(document)
    path.write_bytes(msgspec.json.encode(document))


@pytest.mark.parametrize(
    "file",
    [
        "/etc/passwd",
        "../../secret.pcap",
        "captures/../../secret.pcap",
        "secret.pcap",
        "",
        "events/h1.jsonl",
        "captures/../run.json",
    ],
)
def test_a_run_that_names_a_capture_elsewhere_is_refused(runs, file):
    rewritten(runs / "basic" / "run.json", lambda run: run["captures"][0].update(file=file))
    with pytest.raises(ResultsError, match=r"run.json names '.*' as a capture, which is not in captures/ of the run"):
        load(runs / "basic")


@pytest.mark.parametrize(
    "name", ["network.json", "run.json", "counters.json", "events/h1.jsonl", "captures/h1-s1.pcap", "events"]
)
def test_a_run_with_a_link_that_leads_out_of_it_is_refused(runs, tmp_path, name):
    path, elsewhere = runs / "basic" / name, tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(ResultsError, match=f"{name} is a link to a file outside the run: put the file itself there"):
        check_run(runs / "basic")


def test_links_to_a_run_and_inside_of_it_are_followed(runs, tmp_path):
    expected = check_run(runs / "basic")
    (runs / "basic" / "network.json").rename(runs / "basic" / "captures" / "network.json")
    (runs / "basic" / "network.json").symlink_to("captures/network.json")
    (tmp_path / "link").symlink_to(runs / "basic")
    assert check_run(tmp_path / "link") == expected


DEEP = b"[" * 100_000 + b"]" * 100_000
HUGE = b"1" + b"0" * 30


@pytest.mark.parametrize("value", [DEEP, DEEP[100_000 - 60 : 100_000 + 60], HUGE, b"1" + b"0" * 5000, b"1e999", b"-1"], ids=len)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("run.json", b'"started_ns":'),
        ("run.json", b'"captured":'),
        ("run.json", b'"retained":'),
        ("counters.json", b'"sent":'),
        ("network.json", b'"name": '),
        ("faults.jsonl", b'"applied_ns":'),
    ],
)
def test_a_record_with_deep_or_huge_values_is_a_sentence(runs, name, field, value):
    path = runs / "basic" / name
    if name == "faults.jsonl":
        path.write_bytes(b'{"fault":"crash","target":"h1","asked_ns":1,"applied_ns":1}\n')
    before = path.read_bytes()
    at = before.index(field) + len(field)
    end = min(place for mark in (b",", b"}", b"\n") if (place := before.find(mark, at)) > 0)
    path.write_bytes(before[:at] + value + before[end:])
    with pytest.raises(ResultsError) as refused:
        check_run(runs / "basic")
    assert str(path) in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("value", [DEEP, HUGE, b"1e999"], ids=len)
@pytest.mark.parametrize("line", [b'{"at_ns":%s,"event":"start"}', b'{"at_ns":1,"event":"start","details":{"x":[%s]}}'])
def test_an_event_log_with_deep_or_huge_values_is_damaged_from_that_line_on(runs, line, value):
    log = runs / "basic" / "events" / "h1.jsonl"
    log.write_bytes(log.read_bytes() + line % value + b"\n")
    number = log.read_bytes().count(b"\n")
    harmless = b"details" in line and value == HUGE
    damage = f"the event log of h1 is damaged from line {number} on"
    assert (damage in check_run(runs / "basic").reasons) is not harmless


def test_brackets_in_texts_are_not_nested():
    assert decode(b'["' + b"[" * 1000 + b'\\"{"]', list[str]) == ["[" * 1000 + '"{']
    assert decode(b"[" + b"[]," * 1000 + b"[]]", list[list[int]]) == [[]] * 1001


def test_a_truncated_damaged_or_foreign_archive_is_a_sentence(archive):
    whole = archive.read_bytes()
    with zipfile.ZipFile(archive) as packed:
        start = packed.getinfo("runs-1.5/basic/run.json").header_offset + 60
        comment = len(packed.comment)
    foreign = archive.with_name("foreign.zip")
    with zipfile.ZipFile(foreign, "w") as other:
        other.writestr("holiday/photo.jpg", "x")
    spoiled = (
        b"",
        b"hello",
        whole[: -comment - 1],
        whole[: len(whole) // 2],
        whole[:start] + bytes(8) + whole[start + 8 :],
        foreign.read_bytes(),
    )
    foreign.unlink()
    for content in spoiled:
        archive.write_bytes(content)
        with pytest.raises(ResultsError, match=r"is not an archive of runs, or is damaged|holds no run"):
            unpack(archive, quiet)
        assert [path.name for path in archive.parent.iterdir()] == ["runs.zip"]
