from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_services.base import CheckpointReported, FrameSkipped, MetricReported, ParametersWanted
from training_services.frames import Event, read_frame, read_frames


def frame(**changes: object) -> bytes:
    fields = {
        "parameter_id": 7,
        "trial_job_id": "abcde",
        "type": "PERIODICAL",
        "sequence": 3,
        "value": "0.5",
        **changes,
    }
    return json.dumps(fields).encode() + b"\n"


def checkpoint(**changes: object) -> bytes:
    fields = {
        "type": "CHECKPOINT",
        "trial_job_id": "abcde",
        "sequence": 2,
        "step": 5,
        "size": 1000,
        "files": 3,
        "asked": False,
        **changes,
    }
    return json.dumps(fields).encode() + b"\n"


def read(payload: bytes, *, reports: int = 0) -> Event:
    return read_frame("x-abcde-1", "abcde", position=9, payload=payload, reports=reports)


def test_a_metric() -> None:
    assert read(frame()) == MetricReported("x-abcde-1", 9, "PERIODICAL", 3, "7", 0.5, "0.5")


@given(
    parameter=st.none() | st.integers(),
    trial=st.sampled_from(["abcde", "other"]),
    kind=st.sampled_from(["PERIODICAL", "FINAL", "PERIODIC"]),
    sequence=st.integers(),
    value=st.floats().map(json.dumps)
    | st.integers().map(json.dumps)
    | st.from_regex(r"-?0?[0-9]{1,20}(\.[0-9]{0,30})?(e[+-]?[0-9]{1,3})?\n?", fullmatch=True),
    reports=st.integers(0, 5),
)
def test_a_number_is_read_in_any_spelling_of_its_frame(
    parameter: int | None, trial: str, kind: str, sequence: int, value: str, reports: int
) -> None:
    """The frame as libraries write it is read without a JSON parser. Others give the same event."""
    usual = frame(parameter_id=parameter, trial_job_id=trial, type=kind, sequence=sequence, value=value)
    spaced = json.dumps(json.loads(usual), indent=1).encode()
    assert read(usual, reports=reports) == read(spaced, reports=reports)


@pytest.mark.parametrize(
    ("value", "number", "text"),
    [
        ("1", 1.0, "1"),
        ('{"default": 2, "b": "é"}', 2.0, '{"default": 2, "b": "é"}'),
        ('{"default": "2"}', None, '{"default": "2"}'),
        ("NaN", None, "NaN"),
        ("-Infinity", None, "-Infinity"),
        ("1e999", None, "1e999"),
        ("9" * 400, None, "9" * 400),
        ('"text"', None, '"text"'),
        ("true", None, "true"),
        (" 2 ", 2.0, " 2 "),
        (0.25, 0.25, "0.25"),
        ({"default": 4}, 4.0, '{"default": 4}'),
    ],
)
def test_values(value: object, number: float | None, text: str) -> None:
    metric = read(frame(value=value))
    assert isinstance(metric, MetricReported)
    assert (metric.value, metric.text) == (number, text)


@pytest.mark.parametrize(
    ("parameter_id", "text"), [(None, None), (0, "0"), ("a", '"a"'), ("0_0", '"0_0"'), ([1], "[1]")]
)
def test_parameter_ids_are_json_text(parameter_id: object, text: str | None) -> None:
    metric = read(frame(parameter_id=parameter_id))
    assert isinstance(metric, MetricReported)
    assert metric.parameter_id == text


def test_a_request_for_parameters_is_no_metric() -> None:
    wanted = read(
        b'{"trial_job_id": "abcde", "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": 2}'
    )
    assert wanted == ParametersWanted(job_id="x-abcde-1", position=9, index=2)


def test_a_checkpoint() -> None:
    saved = CheckpointReported(job_id="x-abcde-1", position=9, number=2, step=5, size=1000, files=3)
    assert read(checkpoint()) == saved
    assert read(checkpoint(step=None)) == replace(saved, step=None)
    assert read(checkpoint(asked=True)) == replace(saved, asked=True)
    assert read(checkpoint(asked="yes")) == saved  # only true counts: the end after it would be a pause


def test_the_numbers_of_intermediate_results_begin_after_those_of_earlier_attempts() -> None:
    assert read(frame(), reports=10) == MetricReported("x-abcde-1", 9, "PERIODICAL", 13, "7", 0.5, "0.5")
    assert read(frame(type="FINAL"), reports=10) == read(frame(type="FINAL"))
    assert read(checkpoint(), reports=10) == read(checkpoint())
    asked = b'{"trial_job_id": "abcde", "type": "REQUEST_PARAMETER", "parameter_index": 2}'
    assert read(asked, reports=10) == read(asked)
    found = read_frames("x-abcde-2", "abcde", position=4, payloads=[frame(), checkpoint()], reports=10)
    metric, saved = found
    assert isinstance(metric, MetricReported) and isinstance(saved, CheckpointReported)
    assert (metric.position, metric.sequence, saved.position, saved.number) == (4, 13, 5, 2)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "the frame is not JSON"),
        (b"{}x", "the frame is not JSON"),
        (b"\xff{}", "the frame is not UTF-8"),
        (b"[1]", "the frame is not a JSON object"),
        (b"[" * 100_000, "the frame is nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "a number in the frame has too many digits"),
        (frame(trial_job_id="other"), 'the frame\'s trial_job_id is "other", not abcde'),
        (frame(type="LAST"), 'the frame\'s type is "LAST", neither PERIODICAL nor FINAL'),
        (frame(type=["FINAL"]), 'the frame\'s type is ["FINAL"], neither PERIODICAL nor FINAL'),
        (frame(sequence=-1), "the frame's sequence is -1, not a whole number from 0 up"),
        (frame(sequence=2**63), f"the frame's sequence is {2**63}, not a whole number from 0 up"),
        (frame(sequence=True), "the frame's sequence is true, not a whole number from 0 up"),
        (frame(value="0.9 good"), "the frame's value is not JSON"),
        (frame(value="1_0"), "the frame's value is not JSON"),
        (frame(value="01"), "the frame's value is not JSON"),
        (frame(value="\ud800"), "the frame's value is not JSON"),
        (frame(value='"\ud800"'), "the frame is not UTF-8"),
        (b'{"trial_job_id": "abcde", "type": "FINAL", "sequence": 0}', "the frame has no value"),
        (checkpoint(trial_job_id="other"), 'the frame\'s trial_job_id is "other", not abcde'),
        (checkpoint(sequence=None), "the frame's sequence is null, not a whole number from 0 up"),
        (checkpoint(step=-1), "the frame's step is -1, not a whole number from 0 up"),
        (checkpoint(step=1.5), "the frame's step is 1.5, not a whole number from 0 up"),
        (checkpoint(size="big"), 'the frame\'s size is "big", not a whole number from 0 up'),
        (checkpoint(files=True), "the frame's files is true, not a whole number from 0 up"),
    ],
)
def test_what_is_no_metric_keeps_its_position(payload: bytes, reason: str) -> None:
    sentence = f"Frame 9 is not a metric: {reason}."
    assert read(payload) == FrameSkipped(job_id="x-abcde-1", position=9, reason=sentence)


@given(st.binary(max_size=200))
def test_no_bytes_are_an_exception(payload: bytes) -> None:
    assert len(read_frames("x-abcde-1", "abcde", position=0, payloads=[payload, frame()])) == 2


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner)))
def test_no_value_is_an_exception(value: object) -> None:
    metric = read(frame(value=json.dumps(value)))
    assert isinstance(metric, MetricReported)
    metric.text.encode()
