"""Judges imported results as the tuner will, so that the answer to the user names those with an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.parameter_sets import first_misfits, misfits_of_each, other_misfits
from nnimgr.dispatcher.results import Results

__all__ = ["ImportedResults", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedResults:
    """What becomes of imported results. ``given``: the number of results that the tuner gets.

    ``warnings``: one text about all results that are left out, and one about all parameter sets that are
    outside of the search space. Each names the first one.
    """

    given: int
    warnings: list[str]


def judge(config: ExperimentConfig, records: Sequence[Mapping[str, Any]]) -> ImportedResults:
    """Return how many of the results the tuner of this configuration can use, and which ones have an error.

    ``records``: a list of {"parameter": {...}, "value": number or mapping}.
    """
    results = Results(config.objectives or {}, builtin=config.tuner.builtin("tuner") is not None)
    faults = results.usable(records)[1]
    warnings = []
    for number, fault in list(faults.items())[:1]:
        warnings.append(f"result number {number} was left out: its value {fault}{_more(len(faults) - 1)}")
    given = {number: record for number, record in enumerate(records, 1) if number not in faults}
    sets = (record["parameter"] for record in given.values())
    outside = {
        number: reasons
        for number, reasons in zip(given, misfits_of_each(config, sets), strict=True)
        if reasons
    }
    for number, reasons in list(outside.items())[:1]:
        misfit = f"result number {number} does not fit the search space: {first_misfits(reasons)}"
        others = other_misfits(len(outside) - 1, "result")
        which = "it" if len(outside) == 1 else "them"
        warnings.append(f"{misfit}.{others} The tuner was given {which} all the same, but may ignore {which}")
    return ImportedResults(given=len(given), warnings=warnings)


def _more(count: int) -> str:
    if not count:
        return ""
    return ". Another result was left out" if count == 1 else f". {count} other results were left out"
