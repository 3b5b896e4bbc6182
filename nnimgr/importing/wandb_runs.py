"""Reader of runs of Weights & Biases: an exported CSV file, or the folder of runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.importing.csv_files import rows_of
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
    listed = ", ".join(columns)
    for names, option in ((wanted.metrics, "--metric NAME"), (wanted.parameters, "--parameters NAME,NAME")):
        if not names:
            raise SourceError(
                f"{path}: an exported table does not say which columns are parameters and which are metrics; "
                f"the columns are {listed}",
                hint=f"Name them: {{command}} {option}",
            )
        missing = [name for name in names if name not in columns]
        if missing:
            raise SourceError(f"{path}, line 1: there is no column {missing[0]!r}; valid are {listed}")
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
    runs = sorted(
        (path.parent.parent for path in root.glob("*run-*/files/config.yaml")), key=lambda run: run.name
    )
    if not runs:
        raise SourceError(
            f"{root} has no runs: a run is a folder such as offline-run-.../files with config.yaml in it"
        )
    summaries = {run: _summary(run / "files" / "wandb-summary.json") for run in runs}
    metrics = wanted.metrics or _metrics_in(root, list(summaries.values()))
    trials = [_run(run, summaries[run], metrics) for run in runs]
    return Foreigners(title=f"the W&B runs in {root.name}", trials=trials)


def _summary(path: Path) -> dict[str, Any]:
    body = json_of(path) if path.exists() else {}
    if not isinstance(body, dict):
        raise SourceError(f"{path} must hold a JSON object")
    return body


def _metrics_in(root: Path, summaries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = {
        name: None
        for summary in summaries
        for name, value in summary.items()
        if not name.startswith("_") and number_of(value) is not None
    }
    if len(names) == 1:
        return tuple(names)
    raise SourceError(
        f"the numbers in the summaries of {root} are: {', '.join(names) or 'none'}; it is not stated which "
        "one is the result",
        hint="Name it: {command} --metric NAME",
    )


def _run(run: Path, summary: Mapping[str, Any], metrics: Sequence[str]) -> ForeignTrial:
    import yaml

    path = run / "files" / "config.yaml"
    try:
        config = yaml.safe_load(text_of(path))
    except yaml.YAMLError as error:
        raise SourceError(f"{path} is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise SourceError(f"{path} must hold a mapping of names to values")
    parameters = {
        str(name): each["value"]
        for name, each in config.items()
        if isinstance(each, dict) and "value" in each and not str(name).startswith(("_", "wandb_"))
    }
    final = result_of(summary, metrics, place=str(run / "files" / "wandb-summary.json"))
    ended, took = number_of(summary.get("_timestamp")), number_of(summary.get("_runtime"))
    began = None if ended is None or took is None else datetime.fromtimestamp(ended - took, UTC)
    return ForeignTrial(
        name=run.name,
        parameters=parameters,
        status=TrialStatus.FAILED if final is None else TrialStatus.SUCCEEDED,
        reason="its summary has no result" if final is None else "its summary has a result",
        final=final,
        created=began,
        started=began,
        ended=None if ended is None else datetime.fromtimestamp(ended, UTC),
    )


def _later(begin: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(begin.timestamp() + seconds, begin.tzinfo)
