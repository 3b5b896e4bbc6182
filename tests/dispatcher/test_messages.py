"""Encoding and decoding of the lines between the server and a child."""

from __future__ import annotations

import json

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.hosting import start_line


@pytest.mark.parametrize(
    "message",
    [
        start_line(class_args={"a": [1, None, {"é": "\ud800\n"}]}, constraints=("x < 1",), duplicates="skip"),
        m.Ask(parameter_ids=(1, 2), fed_to=7),
        m.TrialFinished(number=1, trial_id="a", parameter_id=None, parameters="{}", text="NaN", success=True),
        m.Imported(number=1, records="[]"),
        m.SpaceChanged(number=1, search_space={"x": 1}),
        m.SpaceChanged(number=1, search_space={"x": 1}, constraints=("x < 1",)),
        m.SetTried(number=1, parameters="{}"),
        m.Metrics(items=(("a", 1, 0, 0, "0.5"), ("b", 1, 1, 0, '"x"'))),
        m.TrialCreated(number=1, trial_id="a", parameters='{"x": 1}'),
        m.CheckpointSaved(number=1, trial_id="a", attempt=1, checkpoint=2, reports=3, step=4),
        m.TrialPaused(number=1, trial_id="a", by="user"),
        m.TrialContinued(number=1, trial_id="a"),
        m.LegBegan(number=1, trial_id="a", attempt=2, leg=1, parameters="{}", position=4, reports=3),
        m.SlotLent(number=1, trial_id="a"),
        m.NoMoreTrials(number=1),
        m.TrialsAgain(number=1),
        m.DecisionRefused(number=2, trial_id="a", cause=1, kind="pause", reason="it has ended"),
        m.CatchUp(number=3),
        m.Leave(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_lines_to_a_child(message: m.ToChild) -> None:
    line = m.to_line(message)
    assert line.count(b"\n") == 1
    assert m.to_child(line) == message


@pytest.mark.parametrize(
    "message",
    [
        m.Ready(learns=True, note="so so"),
        m.Suggestion(parameter_id=1, parameters="{}", fed_to=1, state=None),
        m.Suggestion(parameter_id=1, parameters="{}", fed_to=1, reuse=("a", "0.5", 0.5)),
        m.Answered(missing=(1, 2), exhausted=False),
        m.Judged(trial_id="a", attempt=1, position=2),
        m.Decided(cause=1, kind="pause", trial_id="a", reason="rank 2 of 3", rung=3, better=("b",)),
        m.Decided(
            cause=1,
            kind="exploit",
            trial_id="a",
            reason="rank 3 of 3",
            parameters="{}",
            donor="b",
            checkpoint=(1, 2),
        ),
        m.Failed(call="x", sentence="s", traceback="t\n", fatal=True),
        m.Noted(trial_id="a", note="n"),
        m.Busy(call="x", seconds=1.5, stack="s"),
        m.Idle(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_lines_from_a_child(message: m.FromChild) -> None:
    assert m.from_child(m.to_line(message)) == message


def test_half_a_surrogate_pair_is_replaced() -> None:
    line = m.to_line(m.Failed(call="x", sentence="no file /é/\udcff", traceback="\ud800"))
    assert m.from_child(line) == m.Failed(call="x", sentence="no file /é/?", traceback="?")


def test_fields_of_another_version_are_left_out() -> None:
    assert m.from_child(json.dumps(["Idle", {"since": 3}]).encode()) == m.Idle()


@pytest.mark.parametrize("line", [b"{}", b"junk", b'["Start"]', b'["Leave", {}]', b'["Other", {}]'])
def test_nonsense_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        m.from_child(line)
