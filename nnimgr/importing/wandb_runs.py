"""Reader of runs of Weights & Biases: an exported CSV file, or the folder of runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from nnimgr.importing.csv_files import check_columns, rows_of
from nnimgr.importing.trials import (
    Foreigners,
    ForeignTrial,
    SourceError,
    Wanted,
    instant,
    json_of,
    number_of,
    parsed,
    result_of,
    text_of,
)
from nnimgr.importing.wandb_files import RunFile, read_run
from nnimgr.rules.terms import TrialStatus

__all__ = ["read_wandb"]

_ENDS = {
    "finished": TrialStatus.SUCCEEDED,
    "failed": TrialStatus.FAILED,
    "crashed": TrialStatus.FAILED,
    "killed": TrialStatus.USER_CANCELED,
    "running": TrialStatus.SYS_CANCELED,
}


def read_wandb(source: str, wanted: Wanted) -> Foreigners:
    """Read exported runs, or runs on this machine. Raise SourceError."""
    path = Path(source)
    return _folder(path, wanted) if path.is_dir() else _exported(path, wanted)


def _exported(path: Path, wanted: Wanted) -> Foreigners:
    columns, rows = rows_of(path)
    for names, option in ((wanted.metrics, "--metric NAME"), (wanted.parameters, "--parameters NAME,NAME")):
        if not names:
            raise SourceError(
                f"{path}: an exported table does not say which columns are parameters and which are metrics; "
                f"the columns are {', '.join(columns)}",
                hint=f"Name them: {{command}} {option}",
            )
        check_columns(path, [name for name in names if name not in columns], columns)
    trials = [_exported_run(path, line, row, wanted) for line, row in rows]
    return Foreigners(title=f"the W&B table {path.name}", trials=trials)


def _exported_run(path: Path, line: int, row: Mapping[str, str], wanted: Wanted) -> ForeignTrial:
    place = f"{path}, line {line}"
    status = _ENDS.get(row.get("State", "finished").lower())
    if status is None:
        raise SourceError(f"{place}: 'State' is {row['State']!r}; valid are {', '.join(_ENDS)}")
    final = result_of(row, wanted.metrics, place=place)
    created = instant(row.get("Created"), place=f"{place}: 'Created'")
    took = number_of(row.get("Runtime", ""))
    return ForeignTrial(
        name=row.get("Name") or row.get("ID") or f"line {line}",
        parameters={name: parsed(row[name]) for name in wanted.parameters if row[name] != ""},
        status=status,
        reason=f"W&B has the state {row.get('State') or 'finished'!r} for it",
        final=final if status is TrialStatus.SUCCEEDED else None,
        created=created,
        started=created,
        ended=None if created is None or took is None else _later(created, took),
        rerun=status is TrialStatus.SYS_CANCELED,
    )


def _folder(root: Path, wanted: Wanted) -> Foreigners:
    found = sorted(
        {path.parent for path in root.glob("*run-*/run-*.wandb")}
        | {path.parent.parent for path in root.glob("*run-*/files/config.yaml")}
    )
    if not found:
        raise SourceError(
            f"{root} has no runs: a run is a folder such as offline-run-... with a file run-*.wandb in it"
        )
    runs = dict(sorted(((run, _run_of(run)) for run in found), key=lambda pair: pair[1].began or 0))
    metrics = wanted.metrics or _metrics_in(root, list(runs.values()))
    trials = [_trial(folder, run, metrics) for folder, run in runs.items()]
    return Foreigners(title=f"the W&B runs in {root.name}", trials=trials)


def _run_of(folder: Path) -> RunFile:
    """Return the run in a folder. Files that W&B has made for an upload are read without its package."""
    file = next(iter(sorted(folder.glob("run-*.wandb"))), None)
    if (folder / "files" / "wandb-summary.json").exists() and (folder / "files" / "config.yaml").exists():
        return _uploaded(folder / "files", folder.name)
    if file is None:
        raise SourceError(f"{folder} has neither a file run-*.wandb nor files/wandb-summary.json")
    return read_run(file)


def _uploaded(files: Path, name: str) -> RunFile:
    """Return a run from ``config.yaml`` and ``wandb-summary.json``, which have no history."""
    import yaml

    try:
        config = yaml.safe_load(text_of(files / "config.yaml"))
    except yaml.YAMLError as error:
        raise SourceError(f"{files / 'config.yaml'} is not YAML: {error}") from error
    summary = json_of(files / "wandb-summary.json")
    for path, body in ((files / "config.yaml", config), (files / "wandb-summary.json", summary)):
        if not isinstance(body, dict):
            raise SourceError(f"{path} must hold a mapping of names to values")
    values = {
        str(key): each["value"] for key, each in config.items() if isinstance(each, dict) and "value" in each
    }
    ended, took = number_of(summary.get("_timestamp")), number_of(summary.get("_runtime"))
    began = None if ended is None or took is None else ended - took
    return RunFile(name=name, config=values, summary=summary, exit_code=0, began=began)


def _metrics_in(root: Path, runs: Sequence[RunFile]) -> tuple[str, ...]:
    names = {
        name: None
        for run in runs
        for name, value in run.summary.items()
        if not name.startswith("_") and number_of(value) is not None
    }
    if len(names) == 1:
        return tuple(names)
    raise SourceError(
        f"the numbers in the summaries of {root} are: {', '.join(names) or 'none'}; it is not stated which "
        "one is the result",
        hint="Name it: {command} --metric NAME",
    )


def _trial(folder: Path, run: RunFile, metrics: Sequence[str]) -> ForeignTrial:
    final = result_of(run.summary, metrics, place=f"{folder}, summary")
    reports = [
        (
            result_of(line, metrics, place=f"{folder}, step {line.get('_step')}"),
            instant(line.get("_timestamp"), place=f"{folder}: '_timestamp'"),
        )
        for line in run.history
        if all(name in line for name in metrics)
    ]
    status, reason = TrialStatus.SUCCEEDED, "it has finished in W&B"
    if run.exit_code is None:
        status, reason = TrialStatus.SYS_CANCELED, "it had not ended in W&B"
    elif run.exit_code or final is None:
        status = TrialStatus.FAILED
        reason = (
            f"it exited with code {run.exit_code} in W&B" if run.exit_code else "its summary has no result"
        )
    return ForeignTrial(
        name=run.name,
        parameters={key: value for key, value in run.config.items() if not key.startswith(("_", "wandb_"))},
        status=status,
        reason=reason,
        final=final if status is TrialStatus.SUCCEEDED else None,
        reports=reports,
        created=instant(run.began, place=str(folder)),
        started=instant(run.began, place=str(folder)),
        ended=instant(run.summary.get("_timestamp"), place=f"{folder}: '_timestamp'"),
        rerun=status is TrialStatus.SYS_CANCELED,
    )


def _later(begin: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(begin.timestamp() + seconds, begin.tzinfo)
