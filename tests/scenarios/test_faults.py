"""The vocabulary of faults: files that read back as they were written, and one clear sentence for each that makes no sense."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios import Scenario, ScenarioError, faults
from scenarios.faults import (
    FAULTS,
    Arrive,
    Clock,
    Crash,
    CutOff,
    Fault,
    FaultError,
    Flap,
    Heal,
    Join,
    LinkChange,
    LinkDown,
    Partition,
    SwitchStop,
    Trigger,
    Waiting,
    check,
    decode,
    encode,
    is_own_crash,
    load,
    name_of,
    steps,
)
from topologies import find

NETWORK = find("clusters:k=3,size=1,shape=ring")
NAMES = st.sampled_from(("", "s1-s2", "h1", "Copy"))
SHARES = st.floats(0, 1)
TIMES = st.floats(0, 1e9)
DETAILS = st.dictionaries(NAMES, st.integers() | st.booleans() | NAMES)
TRIGGERS = st.builds(Trigger, NAMES, NAMES, NAMES, st.integers(0, 9), st.integers(1, 9), TIMES, DETAILS, NAMES)
FIELDS = {
    "at_ms": st.none() | TIMES,
    "when": st.none() | TRIGGERS,
    "bandwidth_mbit": st.none() | st.floats(0.001, 32_000),
    **dict.fromkeys(("delay_ms", "jitter_ms"), st.none() | TIMES),
    **dict.fromkeys(("loss", "duplicate", "reorder"), st.none() | SHARES),
    **dict.fromkeys(("down_ms", "up_ms"), TIMES),
    "burst": st.none() | st.floats(1, 100),
    "sides": st.lists(st.lists(NAMES).map(tuple)).map(tuple),
    "storage": st.sampled_from(("kept", "lost")),
    "offset_ms": st.floats(-1e9, 1e9),
    "drift_ppm": st.floats(-499_999, 999_999),
    **dict.fromkeys(("times", "nth"), st.integers(1, 100)),
    **dict.fromkeys(("link", "towards", "switch", "host", "kind", "group"), NAMES),
}
ANY_FAULT = st.one_of(*(st.builds(kind, **{name: FIELDS[name] for name in kind.__struct_fields__}) for kind in FAULTS.values()))


@given(st.lists(ANY_FAULT))
def test_a_schedule_reads_back_as_it_was_written(schedule):
    assert decode(encode(schedule)) == tuple(schedule)


def test_every_fault_is_in_the_vocabulary_under_its_name():
    assert {kind for kind in Fault.__subclasses__() if kind.__module__ == faults.__name__} == set(FAULTS.values())
    assert [name_of(kind(**_least(kind))) for kind in FAULTS.values()] == list(FAULTS)


def test_the_example_in_the_documentation_is_a_schedule():
    text = faults.__doc__.partition("schedule file:\n")[2].partition("]\n\n")[0] + "]"
    assert [name_of(fault) for fault in decode(text.encode())] == ["link-down", "crash", "join", "arrive"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Input data was truncated"),
        ("[{]", "JSON is malformed"),
        ('{"fault": "heal"}', "Expected `array`, got `object`"),
        ('[{"at_ms": 1}]', "missing required field `fault`"),
        ('[{"fault": "meteor", "at_ms": 1}]', "Invalid value 'meteor'"),
        ('[{"fault": "heal", "att_ms": 1}]', "unknown field `att_ms`"),
        ('[{"fault": "crash", "at_ms": 1}]', "missing required field `host`"),
        ('[{"fault": "link-change", "at_ms": 1, "link": "s1-s2", "loss": 30}]', "Expected `float` <= 1.0"),
        ('[{"fault": "link-change", "at_ms": 1, "link": "s1-s2", "loss": "30%"}]', "Expected `float | null`, got `str`"),
        ('[{"fault": "heal", "at_ms": -1}]', "Expected `float` >= 0.0"),
        ('[{"fault": "crash", "host": "h1", "when": {"event": "send", "nth": 0}}]', "Expected `int` >= 1"),
        ('[{"fault": "clock", "at_ms": 0, "host": "h1", "drift_ppm": -1e6}]', "Expected `float` > -500000.0"),
    ],
)
def test_a_bad_schedule_file_is_refused_in_a_sentence_that_names_it(tmp_path, text, sentence):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FaultError) as refusal:
        load(path)
    message = str(refusal.value)
    assert message.startswith(f"schedule {path}: ")
    assert sentence in message
    assert "link-down, link-up" in message
    assert "\n" not in message


def test_a_schedule_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FaultError, match=r"schedule .*none.json cannot be read: No such file or directory"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (LinkDown(at_ms=0, link="s1-s9"), "a fault names a link that does not exist: .* no link between 's1' and 's9'"),
        (LinkDown(at_ms=0, link="s1"), "'s1' does not name a link: write the switches at its ends, such as s1-s2"),
        (Flap(at_ms=0, link="h1-s1"), "a fault names h1-s1, the access link of a host; only links between switches"),
        (LinkChange(at_ms=0, link="s1-s2", towards="s3"), "fault link-change s1-s2: 's3' is not an end of the link"),
        (SwitchStop(at_ms=0, switch="s9"), "a fault names switch 's9', which network 'clusters-ring-3x1' does not have"),
        (Partition(at_ms=0, sides=(("s1", "h1"),)), "a fault names switch 'h1', which network"),
        (Partition(at_ms=0, sides=(("s1",), ("s1",))), "fault partition: switch s1 is named twice"),
        (Crash(at_ms=0, host="h9"), "a fault names host 'h9', which network"),
        (Crash(when=Trigger("deliver", host="h9"), host="h1"), "a fault names host 'h9', which network"),
        (Crash(when=Trigger("deliver", origin="h9"), host="h1"), "a fault names host 'h9', which network"),
        (Crash(host="h1"), "fault crash h1: give it either a time"),
        (Heal(), "fault heal: give it either a time"),
        (Crash(at_ms=0, when=Trigger("send"), host="h1"), "fault crash h1: give it either a time"),
        (LinkChange(at_ms=0, link="s1-s2", loss=30), "fault link-change s1-s2: .*loss"),
        (Crash(at_ms=-1, host="h1"), "fault crash h1: .*at_ms"),
        (Crash(when=Trigger("send", nth=0), host="h1"), "fault crash h1: .*nth"),
        (Clock(at_ms=0, host="h1", drift_ppm=2_000_000), "fault clock h1: .*drift_ppm"),
        (Clock(at_ms=0, host="h1", offset_ms=math.inf), "fault clock h1: offset_ms: must be a number of at most 1,000,000,000"),
        (Crash(at_ms=math.nan, host="h1"), "fault crash h1: at_ms: must be a number of at least 0"),
        (Crash(at_ms=1e300, host="h1"), "fault crash h1: at_ms: must be a number of at most 1,000,000,000"),
        (
            LinkChange(at_ms=0, link="s1-s2", bandwidth_mbit=1e-300),
            "fault link-change s1-s2: bandwidth_mbit: must be a number of at least 0.001",
        ),
        (Crash(at_ms=0, host=""), "fault crash: name its host"),
        (CutOff(at_ms=0, host=""), "fault cut-off: name its host"),
        (CutOff(at_ms=0, host="s1"), "a fault names host 's1', which network"),
        (Arrive(when=Trigger("deliver"), host=""), "fault arrive: name its host"),
        (Join(at_ms=0, host="h9", group="everybody"), "a fault names host 'h9', which network"),
        (
            Crash(host="", when=Trigger("view", details={"members": ("h1",)})),
            r"fault crash: when.details\[...\]: expected bool \| int \| float \| str, got array",
        ),
        (Flap(at_ms=0, link="s1-s2", times=10**9), "fault flap s1-s2: times: must be a whole number of at most 10,000"),
        (Flap(at_ms=0, link="s1-s2", times=9999, up_ms=1e9), "fault flap s1-s2: it would last more than 1,000,000 s"),
    ],
)
def test_a_fault_that_makes_no_sense_on_a_network_is_refused_in_a_sentence(fault, sentence):
    with pytest.raises(FaultError, match=sentence) as refusal:
        check([fault], NETWORK)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ScenarioError, match=sentence):
        Scenario(network=NETWORK, faults=(fault,))


def test_every_fault_on_what_is_there_is_accepted():
    check([kind(at_ms=0, **_least(kind)) for kind in FAULTS.values()], NETWORK)


def test_a_scenario_lasts_until_the_last_step_of_its_last_fault():
    flap = Flap(at_ms=1000, link="s1-s2", times=3, down_ms=200, up_ms=300)
    scenario = Scenario(network=NETWORK, faults=(flap, Crash(at_ms=1500, host="h1")))
    assert scenario.last_fault_ms == 2200
    assert [after_ms for after_ms, _ in steps(flap, NETWORK)] == [0, 200, 500, 700, 1000, 1200]


def test_a_trigger_without_particulars_fits_every_event_of_its_name():
    assert Trigger("deliver").fits("h1", "deliver", "h2", 3)
    assert not Trigger("deliver").fits("h1", "broadcast", "h2", 3)
    for particular in ({"host": "h2"}, {"origin": "h1"}, {"sequence": 4}):
        assert not Trigger("deliver", **particular).fits("h1", "deliver", "h2", 3)


def test_a_trigger_waits_for_details_and_for_the_host_that_was_the_last_to_log_another_event():
    wants = Trigger("commit", details={"group": 1, "view": 2})
    assert wants.fits("h1", "commit", "h2", 3, {"group": 1, "view": 2, "more": 0})
    assert not wants.fits("h1", "commit", "h2", 3, {"group": 1})
    waiting = Waiting(Crash(host="", when=wants), Trigger("commit", last="token", nth=2))
    events = [("h1", "commit"), ("h1", "token"), ("h2", "commit"), ("h1", "commit"), ("h2", "token"), ("h1", "commit")]
    assert not any(waiting.fires_at(host, event, "", 0, {}) for host, event in events)
    assert waiting.fires_at("h2", "commit", "", 0, {})
    assert waiting.fault.host == "h2"


def test_only_a_crash_that_needs_no_knowledge_of_others_is_done_by_the_host_itself():
    assert is_own_crash(Crash(host="h1", when=Trigger("commit", host="h1", details={"group": 1})))
    for host, when in (
        ("", Trigger("commit")),
        ("h1", Trigger("commit")),
        ("h1", Trigger("commit", host="h1", last="token")),
        ("h1", Trigger("commit", host="h1", after_ms=1)),
    ):
        assert not is_own_crash(Crash(host=host, when=when))


def _least(kind: type[Fault]) -> dict[str, object]:
    """The fewest fields that a fault needs."""
    values = {"link": "s1-s2", "switch": "s1", "host": "h1", "kind": "Copy", "sides": (("s1",),), "group": "everybody"}
    return {field.name: values[field.name] for field in msgspec.structs.fields(kind) if field.required}
