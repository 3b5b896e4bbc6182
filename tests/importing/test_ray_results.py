"""The reader of Ray Tune's result folders."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.importing.sources import read_source
from nnimgr.importing.trials import SourceError, Wanted
from nnimgr.rules.terms import TrialStatus

S = TrialStatus


def ray_trial(folder: Path, name: str, results: list[dict[str, Any]], **parameters: Any) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "params.json").write_text(json.dumps(parameters))
    lines = [json.dumps({"trial_id": name, "done": False, **result}) + "\n" for result in results]
    (folder / name / "result.json").write_text("".join(lines))


def test_trials_of_ray_tune(tmp_path: Path) -> None:
    one = {"loss": 0.5, "eval": {"f1": 3}, "training_iteration": 1, "timestamp": 1000, "time_total_s": 10}
    two = {"loss": 0.25, "training_iteration": 2, "timestamp": 1010, "time_total_s": 20}
    ray_trial(tmp_path, "d_1", [one, two, {**two, "done": True}], lr=0.1, net={"depth": 2})
    ray_trial(tmp_path, "c_2", [{**one, "timestamp": 1002}], lr=0.2)
    ray_trial(tmp_path, "b_3", [{**one, "timestamp": 1003}], lr=0.3)
    ray_trial(tmp_path, "a_4", [], lr=0.4)
    (tmp_path / "b_3" / "error.txt").write_text("Traceback")
    state = [[json.dumps({"trial_id": "c_2", "status": "TERMINATED"}), "{}"]]
    (tmp_path / "experiment_state-2026.json").write_text(json.dumps({"trial_data": state}))
    with (tmp_path / "b_3" / "result.json").open("a") as file:
        file.write('{"loss": 0.1')  # Ray was killed amid a line
    nested = read_source("ray", str(tmp_path), Wanted(metrics=("eval/f1",))).trials[0]
    assert (nested.final, [value for value, _ in nested.reports]) == (3, [3])
    done, returned, failed, open_ = read_source("ray", str(tmp_path), Wanted(metrics=("loss",))).trials
    assert (done.name, done.parameters) == ("d_1", {"lr": 0.1, "net": {"depth": 2}})
    assert (done.status, done.final, [value for value, _ in done.reports]) == (S.SUCCEEDED, 0.25, [0.5, 0.25])
    assert done.started == datetime.fromtimestamp(990, UTC) and done.ended == datetime.fromtimestamp(
        1010, UTC
    )
    assert (returned.status, returned.final, len(returned.reports)) == (S.SUCCEEDED, 0.5, 1)
    assert (failed.name, failed.status, len(failed.reports)) == ("b_3", S.FAILED, 1)
    assert (open_.name, open_.status, open_.rerun) == ("a_4", S.SYS_CANCELED, True)


def ray_run(root: Path, ends: list[tuple[int, bool]], **criterion: float) -> None:
    """Write an experiment as Ray 2 does. ``ends``: iterations of each trial, and "done" in its last line."""
    noted: list[list[str]] = []
    for number, (iterations, done) in enumerate(ends):
        name = f"1a2b3_{number:05}"
        lines = [
            {"loss": 1 / at, "training_iteration": at, "timestamp": 1000} for at in range(1, iterations + 1)
        ]
        ray_trial(root, f"f_{name}_{number}_x", [{**line, "trial_id": name} for line in lines], x=number)
        if done:
            lines[-1]["done"] = True
            file = root / f"f_{name}_{number}_x" / "result.json"
            file.write_text(
                "".join(json.dumps({"trial_id": name, "done": False, **line}) + "\n" for line in lines)
            )
        state = {"trial_id": name, "status": "TERMINATED", "stopping_criterion": criterion}
        noted.insert(0, [json.dumps(state), "{}"])  # Ray's list is not in the order of creation
    (root / "experiment_state-2026.json").write_text(json.dumps({"trial_data": noted}))


SCHEDULED = b"\x80\x05\x95#ray.tune.schedulers.async_hyperband\x94\x8c\x16AsyncHyperBandScheduler"


@pytest.mark.parametrize(
    ("ends", "scheduler", "criterion", "stopped"),
    [
        ([(2, False), (3, False), (1, False)], b"", {}, []),  # functions that return
        ([(4, True), (6, False), (2, True)], SCHEDULED, {}, [0, 2]),
        ([(2, True), (2, True), (1, True)], SCHEDULED, {}, [2]),  # ASHA ends at its max_t, too
        ([(2, True), (6, True), (1, True)], SCHEDULED, {"training_iteration": 2}, [2]),
        ([(4, True), (6, True), (2, True)], b"ray.tune.schedulers.trial_scheduler", {}, []),
    ],
)
def test_ends_of_rays_trials(
    tmp_path: Path,
    ends: list[tuple[int, bool]],
    scheduler: bytes,
    criterion: dict[str, float],
    stopped: list[int],
) -> None:
    ray_run(tmp_path, ends, **criterion)
    (tmp_path / "tuner.pkl").write_bytes(scheduler)
    found = read_source("ray", str(tmp_path), Wanted(metrics=("loss",))).trials
    assert [trial.parameters["x"] for trial in found] == list(range(len(ends)))
    for number, trial in enumerate(found):
        early = number in stopped
        assert trial.status is (S.EARLY_STOPPED if early else S.SUCCEEDED)
        assert trial.final == (None if early else 1 / ends[number][0])


def test_errors_in_rays_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no trials"):
        read_source("ray", str(tmp_path), Wanted())
    ray_trial(tmp_path, "a", [{"loss": 1, "accuracy": 2}], x=1)
    with pytest.raises(
        SourceError, match="loss, accuracy; it is not stated which one is the result"
    ) as error:
        read_source("ray", str(tmp_path), Wanted())
    assert error.value.hint == "Name it: {command} --metric NAME"
    with pytest.raises(SourceError, match="the number 'los'; reported are: loss, accuracy"):
        read_source("ray", str(tmp_path), Wanted(metrics=("los",)))
    with (tmp_path / "a" / "result.json").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(SourceError, match=r"a/result.json, line 2: it is not JSON"):
        read_source("ray", str(tmp_path), Wanted(metrics=("loss",)))
