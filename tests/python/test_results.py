"""Data frames and what a waiting program shows."""

from __future__ import annotations

import builtins
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pytest

from nnimgr.analysis.binary_columns import PackedColumn, pack
from nnimgr.cli.progress import LiveTrial, Progress
from nnimgr.client.calls import Event
from nnimgr.python.connection import Connection
from nnimgr.python.errors import ArgumentError, Error, NoResult
from nnimgr.python.frames import frame_of
from nnimgr.python.results import Results
from nnimgr.python.show import screen_of
from tests.cli.fake import profile
from tests.python.messages import in_lines

SPACE = {
    "units": {"_type": "randint", "_value": [1, 9]},
    "net": {
        "_type": "choice",
        "_value": [{"_name": "a", "depth": {"_type": "randint", "_value": [1, 9]}}, 1],
    },
}


def packed() -> bytes:
    columns = [
        PackedColumn("sequence", np.array([0, 2], np.uint32)),
        PackedColumn("status", np.array([1, 0], np.uint8), ["FAILED", "SUCCEEDED"]),
        PackedColumn("value", np.array([0.1, np.nan])),
        PackedColumn("created", np.array([0.0, 60.0])),
        PackedColumn("parameters.lr", np.array([0.1, 0.2])),
        PackedColumn("parameters.status", np.array([255, 1], np.uint8), [[1], True]),
        PackedColumn("metrics.lr", np.array([1.0, 2.0])),
        PackedColumn("parameters.units", np.array([3.0, 4.0])),
        PackedColumn("parameters.net/depth", np.array([np.nan, 2.0])),
    ]
    return pack({"originAt": "2026-01-02T03:04:05+00:00", "rows": 2}, columns)


@pytest.mark.parametrize("values", [[3.5, 4.0], [2.0**53, 1.0], [np.inf, 1.0]])
def test_what_may_not_be_whole_numbers_stay_floats(values: list[float]) -> None:
    columns = [
        PackedColumn("sequence", np.array([0, 1], np.uint32)),
        PackedColumn("parameters.units", np.array(values)),
    ]
    frame = frame_of(pack({"originAt": "2026-01-02T03:04:05+00:00", "rows": 2}, columns), SPACE)
    assert list(frame["units"]) == values


def test_a_frame_has_a_row_for_each_trial() -> None:
    frame = frame_of(packed(), SPACE)
    assert list(frame.index) == [0, 2] and frame.index.name == "number"
    assert list(frame.columns) == [
        "parameters.lr", "parameters.status", "units", "net/depth", "value", "metrics.lr", "status", "created"
    ]  # fmt: skip
    assert (str(frame["units"].dtype), str(frame["net/depth"].dtype)) == ("int64", "Int64")
    assert frame["net/depth"].isna()[0] and frame["net/depth"][2] == 2
    assert list(frame["status"]) == ["SUCCEEDED", "FAILED"]
    assert frame["value"][0] == 0.1 and frame["value"].isna()[2]
    assert frame["created"][2] == datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)
    assert frame["parameters.status"].isna()[0] and frame["parameters.status"][2] is True


def test_none_is_a_missing_value() -> None:
    columns = [
        PackedColumn("sequence", np.array([0, 1, 2, 3], np.uint32)),
        PackedColumn("parameters.none_or_3", np.array([0, 1, 255, 1], np.uint8), [None, 3]),
        PackedColumn("parameters.mixed", np.array([2, 1, 0, 255], np.uint8), [1, None, True]),
        PackedColumn("parameters.none", np.array([0, 0, 0, 0], np.uint8), [None]),
    ]
    frame = frame_of(pack({"originAt": "2026-01-02T03:04:05+00:00", "rows": 4}, columns), {})
    assert list(frame["none_or_3"].isna()) == [True, False, True, False]
    assert list(frame["none_or_3"].cat.categories) == [3] and frame["none_or_3"].dropna().mode()[0] == 3
    assert [frame["mixed"][0], frame["mixed"][2]] == [True, 1] and type(frame["mixed"][2]) is int
    assert list(frame["mixed"].isna()) == [False, True, False, True]
    assert frame["none"].isna().all()


def test_the_options_of_a_choice_keep_their_types() -> None:
    options = [2.5, "a", 1, False, [0]]
    columns = [
        PackedColumn("sequence", np.arange(5, dtype=np.uint32)),
        PackedColumn("parameters.any", np.arange(5, dtype=np.uint8), options),
        PackedColumn("parameters.number", np.array([0, 1, 0, 1, 0], np.uint8), [1, 2.5]),
    ]
    frame = frame_of(pack({"originAt": "2026-01-02T03:04:05+00:00", "rows": 5}, columns), {})
    assert [*map(repr, frame["any"])] == ["2.5", "'a'", "1", "False", "'[0]'"]
    assert [*map(repr, frame["number"][:2])] == ["1", "2.5"] and str(frame["any"].dtype) == "category"


def test_without_pandas_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Error, match=in_lines(r"needs pandas, which is not installed.*-m pip install pandas")):
        frame_of(packed(), SPACE)


def ended(number: int, status: str = "SUCCEEDED", reason: str = "") -> Event:
    return Event("TrialEnded", number, {"trialId": f"t{number}", "status": status, "reason": reason})


def test_a_table_grows_by_a_row_for_each_trial(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress.of(profile("abc", optimizeMode="minimize", now="Waits for a machine."))
    for number in range(4):
        trial = LiveTrial(number, {"x": number}, final=None if number in (1, 3) else 2.0 - number)
        trial.final_text = str(trial.final)
        progress.trials[f"t{number}"] = trial
    with screen_of("table") as (screen, terminal):
        moves = [{"status": "DRAINING", "reason": "enough"}, {"status": "STOPPED", "reason": "all failed"}]
        for event in (
            ended(0),
            ended(1, "FAILED", "exited with code 1"),
            ended(2),
            ended(3, reason="no usable result: 'good' is not a number"),
            *(Event("ExperimentMoved", 9, move) for move in moves),
        ):
            screen.see(event, progress)
            screen.tell(str(progress.apply(event)), event)
        screen.tell("The machine gpu1 is silent.")
        screen.draw(progress)
    assert terminal is not None
    assert capsys.readouterr().out.splitlines() == [
        "trial status        result      best        parameters",
        "0     SUCCEEDED     2           2           x=0",
        "1     FAILED        --          2           x=1  exited with code 1",
        "2     SUCCEEDED     0           0           x=2",
        "3     SUCCEEDED     --          0           x=3  no usable result: 'good' is not a number",
        "Experiment STOPPED: all failed",
        "The machine gpu1 is silent.",
    ]


def test_a_table_says_what_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.python.show._QUIET_S", 0.0)
    progress = Progress.of(profile("abc", now="Waits for a machine."))
    with screen_of("table") as (screen, _):
        screen.draw(progress)
        screen.draw(progress)
    assert capsys.readouterr().out == "Waits for a machine.\n"


def test_nothing_is_shown_if_so_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress.of(profile("abc"))
    with screen_of("nothing") as (screen, terminal):
        screen.see(ended(0), progress)
        screen.tell("a")
        screen.draw(progress)
    assert terminal is None and capsys.readouterr().out == ""
    with pytest.raises(
        ArgumentError, match=in_lines(r"show: unknown value 'loud' .valid: auto, live, table, nothing.")
    ):
        with screen_of("loud"):  # type: ignore[arg-type]
            pass


class _Answers:
    """Connection to an experiment with these trials, at most one for each status."""

    id = "abc"

    def __init__(self, reason: str, *, status: str = "STOPPED", **trials: str) -> None:
        self._trials = {
            status: [{"sequence": 3, "id": "t3", "status": status, "reason": why, "cause": "out_of_memory"}]
            for status, why in trials.items()
        }
        counts = dict.fromkeys(trials, 1)
        self._profile = profile("abc", status=status, reason=reason, counts=counts, bestTrial=None)

    def get(self, *path: str, **query: Any) -> Any:
        return {"trials": self._trials.get(query["status"][0], [])} if path else self._profile


@pytest.mark.parametrize(
    ("reason", "trials", "told"),
    [
        (
            "a user stopped it",
            {"FAILED": "was killed"},
            "1 FAILED. Trial 3 (t3) FAILED (out of memory): was killed. "
            "The experiment is STOPPED: a user stopped it.",
        ),
        (
            "a user stopped it",
            {"SUCCEEDED": 'no usable result: "good" is not a number'},
            '1 SUCCEEDED. Trial 3: no usable result: "good" is not a number. '
            "The experiment is STOPPED: a user stopped it.",
        ),
        (
            "the first 5 trials all failed alike: exited with code 1; correct the code",
            {"FAILED": "exited with code 1"},
            "1 FAILED. The experiment is STOPPED: the first 5 trials all failed alike: exited with code 1; "
            "correct the code.",
        ),
        ("", {}, "none was created. The experiment is STOPPED."),
    ],
)
def test_why_there_is_no_result(reason: str, trials: dict[str, str], told: str) -> None:
    results = Results(cast(Connection, _Answers(reason, **trials)))
    with pytest.raises(NoResult) as raised:
        results.best  # noqa: B018 - reading the property raises the error
    sentence, _, _ = str(raised.value).partition("\n  See results.errors")
    expected = f"No trial of experiment abc has a usable result: {told}"
    assert " ".join(sentence.split()) == expected


def test_a_running_experiment_has_no_result_yet() -> None:
    results = Results(cast(Connection, _Answers("runs", status="RUNNING")))
    with pytest.raises(NoResult) as raised:
        results.best  # noqa: B018 - reading the property raises the error
    assert " ".join(str(raised.value).split()) == (
        "No trial of experiment abc has a usable result yet: none was created. The experiment is RUNNING. "
        "To wait for its end: run.wait()"
    )
