"""Reader of JSON files: exports of NNI and of nnimgr, and what the dashboard downloads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nnimgr.importing.csv_files import read_csv, read_download
from nnimgr.importing.trials import (
    Foreigners,
    ForeignTrial,
    SourceError,
    Wanted,
    json_of,
    part_of,
    without_final,
)
from nnimgr.rules.terms import TrialStatus

__all__ = ["read_nni"]

_EXPORT = "Write results to a file: nnictl experiment export ID --intermediate --filename results.json"


def read_nni(source: str, wanted: Wanted) -> Foreigners:
    """Read an exported file. Raise SourceError with the number of the first result that is not valid."""
    path = Path(source)
    if path.is_dir():
        raise SourceError(
            f"{path} is a folder, but the source must be a file that NNI has exported",
            hint=f"Open an experiment's folder as it is: nnictl view --experiment_dir {path}",
        )
    if path.suffix == ".csv":
        return read_csv(source, wanted)
    records = json_of(path)
    if isinstance(records, dict) and isinstance(records.get("trials"), list):
        return read_download(path, records["trials"], wanted)
    if not isinstance(records, list) or not records:
        raise SourceError(f"{path} must hold a list of objects with 'parameter' and 'value'", hint=_EXPORT)
    trials = [
        _trial(record, wanted, f"{path}: the result number {at} of {len(records)}")
        for at, record in enumerate(records, 1)
    ]
    names = {name: None for record in records for name in _names(_plain(record["value"]))}
    missing = next((name for name in wanted.metrics if names and name not in names), None)
    if missing is not None:
        raise SourceError(f"no result in {path} has the number {missing!r}; they have {', '.join(names)}")
    return Foreigners(title=f"the file {path.name}", trials=trials)


def _trial(record: Any, wanted: Wanted, place: str) -> ForeignTrial:
    if not isinstance(record, dict):
        raise SourceError(f"{place} is not an object with 'parameter' and 'value'", hint=_EXPORT)
    for key in ("parameter", "value"):
        if key not in record:
            raise SourceError(f"{place} has no {key!r}", hint=_EXPORT)
    if not isinstance(record["parameter"], dict):
        raise SourceError(f"{place} has a 'parameter' that is not an object", hint=_EXPORT)
    value = _plain(record["value"])
    value = part_of(value, wanted.metrics)
    reports = record.get("intermediate", [])
    if not isinstance(reports, list):
        raise SourceError(f"{place} has an 'intermediate' that is not a list", hint=_EXPORT)
    return ForeignTrial(
        name=str(record.get("trialJobId") or place.rpartition(": ")[2]),
        parameters=record["parameter"],
        status=TrialStatus.SUCCEEDED,
        reason="NNI has exported its result",
        final=value,
        reports=[
            (part_of(report, wanted.metrics), None)
            for report in without_final([_plain(each) for each in reports], value)
        ],
    )


def _names(value: Any) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _plain(value: Any) -> Any:
    """Return a result, which NNI exports as a number, an object, or the JSON text of either."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
