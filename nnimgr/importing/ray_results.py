"""Reader of Ray Tune's result folders. In each trial's folder are ``params.json`` and ``result.json``.

How a trial has ended is noted nowhere in one word. Ray's status is TERMINATED for all that have not failed.
The last line of ``result.json`` has "done": false if the trial's function has returned. It has true if the
trial itself said that it was done, if a stop criterion was met, or if the scheduler has stopped it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

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
# a module in the stored Tuner, which is not unpickled; the default scheduler is in trial_scheduler
_SCHEDULER = re.compile(rb"ray\.tune\.schedulers\.(?!trial_scheduler)\w")
_COUNTER = re.compile(r"_(\d{5,})$")  # number of a trial at the end of its id
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
    longest = (
        max((_iterations(lines) for lines in results.values()), default=0) if _has_scheduler(root) else 0
    )
    latest = datetime.now(UTC)
    found = [
        (_number(_id_of(folder, results[folder])), _trial(folder, results[folder], metrics, states, longest))
        for folder in folders
    ]
    found.sort(key=lambda each: (each[0], each[1].created or latest, each[1].name))
    return Foreigners(title=f"the Ray Tune experiment {root.name}", trials=[trial for _, trial in found])


def _last(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the last result of a trial; {} if it has reported none."""
    return results[-1] if results else {}


def _id_of(folder: Path, results: Sequence[Mapping[str, Any]]) -> str:
    return str(_last(results).get("trial_id") or folder.name)


def _number(trial_id: str) -> int:
    """Return the number of a trial by its id, such as "9a7aa_00004"; 0 for an id of another form."""
    found = _COUNTER.search(trial_id)
    return int(found[1]) if found else 0


def _iterations(results: Sequence[Mapping[str, Any]]) -> float:
    return number_of(_last(results).get("training_iteration")) or len(results)


def _has_scheduler(root: Path) -> bool:
    """Return whether the experiment had a scheduler other than the default one, which never stops a trial."""
    tuner = root / "tuner.pkl"
    return tuner.is_file() and _SCHEDULER.search(tuner.read_bytes()) is not None


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


class _State(NamedTuple):
    """What Ray has noted of a trial. ``criterion``: name of a number -> value at which the trial stops."""

    status: str = ""
    criterion: Mapping[str, Any] = {}


def _states(root: Path) -> dict[str, _State]:
    """Return what Ray has noted of each trial, by its id. Without a file of it, return {}."""
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
            criterion = state.get("stopping_criterion")
            criterion = dict(_flat(criterion)) if isinstance(criterion, dict) else {}
            found[str(state["trial_id"])] = _State(str(state.get("status")), criterion)
    return found


def _trial(
    folder: Path,
    results: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    states: Mapping[str, _State],
    longest: float,
) -> ForeignTrial:
    last = _last(results)
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
    state = states.get(_id_of(folder, results), _State())
    status, reason = _end(folder, state, last, fewer=_iterations(results) < longest)
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


def _end(folder: Path, state: _State, last: Mapping[str, Any], *, fewer: bool) -> tuple[TrialStatus, str]:
    """Return how a trial has ended. ``last``: its last result. ``fewer``: there was a scheduler, and another
    trial has run for more iterations.
    """
    if state.status == "ERROR" or (folder / "error.txt").exists():
        return TrialStatus.FAILED, f"it failed in Ray: see {folder / 'error.txt'}"
    if not last.get("done") and state.status != "TERMINATED":
        return TrialStatus.SYS_CANCELED, "it had not ended in Ray"
    if last.get("done") and fewer and not _meets(last, state.criterion):
        return TrialStatus.EARLY_STOPPED, "Ray's scheduler has stopped it"
    return TrialStatus.SUCCEEDED, "it was done in Ray"


def _meets(result: Mapping[str, Any], criterion: Mapping[str, Any]) -> bool:
    reached = ((number_of(result.get(name)), number_of(limit)) for name, limit in criterion.items())
    return any(number is not None and limit is not None and number >= limit for number, limit in reached)
