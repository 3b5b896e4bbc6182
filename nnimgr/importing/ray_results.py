"""Reader of Ray Tune's result folders. In each trial's folder are ``params.json`` and ``result.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.importing.trials import (
    Foreigners,
    ForeignTrial,
    SourceError,
    Wanted,
    instant,
    json_of,
    number_of,
    result_of,
    text_of,
)
from nnimgr.rules.terms import TrialStatus

__all__ = ["read_ray"]

# numbers that Ray itself adds to each result
_RAYS_OWN = frozenset(
    (
        *("checkpoint_dir_name", "config", "date", "done", "episodes_total", "experiment_tag", "hostname"),
        *("iterations_since_restore", "node_ip", "pid", "should_checkpoint", "time_since_restore"),
        *("time_this_iter_s", "time_total_s", "timestamp", "timesteps_since_restore", "timesteps_total"),
        *("training_iteration", "trial_id", "warmup_time"),
    )
)
_FOLDER = "the folder of an experiment of Ray Tune has one folder for each trial, with result.json in it"


def read_ray(source: str, wanted: Wanted) -> Foreigners:
    """Read the folder of an experiment. Raise SourceError with file and line of the first bad value."""
    root = Path(source)
    if not root.is_dir():
        raise SourceError(f"{root} is not a folder: {_FOLDER}")
    folders = sorted(
        {path.parent for name in ("result.json", "params.json") for path in root.glob(f"*/{name}")}
    )
    if not folders:
        raise SourceError(f"{root} has no trials: {_FOLDER}")
    states = _states(root)
    results = {folder: _results(folder / "result.json") for folder in folders}
    metrics = _metrics_in(root, results, wanted.metrics)
    trials = [_trial(folder, results[folder], metrics, states) for folder in folders]
    trials.sort(key=lambda trial: (trial.created is None, trial.created or datetime.now(UTC), trial.name))
    return Foreigners(title=f"the Ray Tune experiment {root.name}", trials=trials)


def _results(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a ``result.json``. Drop a last line without an end: Ray was killed amid it."""
    if not path.exists():
        return []
    whole, _, _ = text_of(path).rpartition("\n")
    found = []
    for at, line in enumerate(whole.splitlines(), 1):
        try:
            result = json.loads(line)
        except ValueError as error:
            raise SourceError(f"{path}, line {at}: it is not JSON: {error}") from error
        if not isinstance(result, dict):
            raise SourceError(f"{path}, line {at}: it must be a JSON object")
        found.append(dict(_flat(result)))
    return found


def _flat(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a result. A value in a mapping has a name such as ``eval/f1``."""
    for name, value in result.items():
        if isinstance(value, dict) and name != "config":
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value


def _metrics_in(
    root: Path, results: Mapping[Path, Sequence[Mapping[str, Any]]], wanted: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of the numbers that are results: the wanted ones, or the only one."""
    names = {
        name: None
        for lines in results.values()
        for line in lines
        for name, value in line.items()
        if name not in _RAYS_OWN and number_of(value) is not None
    }
    missing = [name for name in wanted if name not in (*names, *_RAYS_OWN)]
    listed = ", ".join(names) or "none"
    if missing and any(results.values()):
        raise SourceError(
            f"no trial in {root} has reported the number {missing[0]!r}; reported are: {listed}"
        )
    if wanted or len(names) == 1:
        return tuple(wanted or names)
    raise SourceError(
        f"the numbers that the trials in {root} have reported are: {listed}; it is not stated which one "
        "is the result",
        hint="Name it: {command} --metric NAME",
    )


def _states(root: Path) -> dict[str, str]:
    """Return the statuses that Ray has noted: trial id -> status. Without a file of them, return {}."""
    files = sorted(root.glob("experiment_state-*.json"))
    if not files:
        return {}
    body = json_of(files[-1])
    noted = body.get("trial_data") or body.get("checkpoints") or () if isinstance(body, dict) else ()
    found = {}
    for each in noted:
        text = each[0] if isinstance(each, list) and each else each
        try:
            state = json.loads(text) if isinstance(text, str) else text
        except ValueError as error:
            raise SourceError(f"{files[-1]}: the state of a trial is not JSON: {error}") from error
        if isinstance(state, dict) and "trial_id" in state:
            found[str(state["trial_id"])] = str(state.get("status"))
    return found


def _trial(
    folder: Path, results: Sequence[Mapping[str, Any]], metrics: Sequence[str], states: Mapping[str, str]
) -> ForeignTrial:
    last: Mapping[str, Any] = results[-1] if results else {}
    parameters = json_of(folder / "params.json") if (folder / "params.json").exists() else last.get("config")
    if not isinstance(parameters, dict):
        raise SourceError(f"{folder / 'params.json'} must hold an object with the parameters")
    place = folder / "result.json"
    reports = [
        (
            result_of(line, metrics, place=f"{place}, line {at}"),
            instant(line.get("timestamp"), place=f"{place}, line {at}: 'timestamp'"),
        )
        for at, line in enumerate(results, 1)
    ]
    reports = [report for report in reports if report[0] is not None]
    if len(reports) > 1 and last.get("done") and _repeats(results):
        reports.pop()  # Ray writes the last result again when a function ends
    state = states.get(str(last.get("trial_id") or folder.name), "")
    status, reason = _end(folder, state, done=bool(last.get("done")))
    began, took = None, number_of(results[0].get("time_total_s")) if results else None
    if reports and reports[0][1] is not None and took is not None:
        began = instant(reports[0][1].timestamp() - took, place=f"{place}, line 1: 'time_total_s'")
    return ForeignTrial(
        name=folder.name,
        parameters=parameters,
        status=status,
        reason=reason,
        final=reports[-1][0] if reports and status is TrialStatus.SUCCEEDED else None,
        reports=reports,
        created=began,
        started=began,
        ended=instant(last.get("timestamp"), place=f"{place}: 'timestamp'"),
        rerun=status is TrialStatus.SYS_CANCELED,
    )


def _repeats(results: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the last result is the one before, for the same iteration."""
    return results[-1].get("training_iteration") == results[-2].get("training_iteration")


def _end(folder: Path, state: str, *, done: bool) -> tuple[TrialStatus, str]:
    if state == "ERROR" or (folder / "error.txt").exists():
        return TrialStatus.FAILED, f"it failed in Ray: see {folder / 'error.txt'}"
    if done:
        return TrialStatus.SUCCEEDED, "it was done in Ray"
    if state == "TERMINATED":
        return TrialStatus.EARLY_STOPPED, "Ray's scheduler has stopped it"
    return TrialStatus.SYS_CANCELED, "it had not ended in Ray"
