"""Converts results of trials to the form that tuners get, and explains why a result is not usable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nnimgr.dispatcher.messages import ResultReported, TrialFinished
from nnimgr.objectives import Objectives, fault_of, with_default

__all__ = ["Result", "Results", "fault_of_result"]


class Result(NamedTuple):
    """Result of a trial for the tuner.

    ``text``: JSON text; None without a result. ``value``: the result in the form that the tuner gets.
    ``fault``: why the trial's own result is not usable, or None.
    """

    text: str | None
    value: Any
    fault: str | None


class Results:
    """Converter of trials' results to the form that one tuner gets.

    ``builtin``: the tuner takes numbers only, and does not know the names of objectives.
    """

    def __init__(self, objectives: Objectives, *, builtin: bool) -> None:
        self._objectives, self._builtin = objectives, builtin

    def of(self, trial: TrialFinished | ResultReported) -> Result:
        """Return the result that the tuner gets for a trial, and the error in the trial's own result.

        If the trial failed or its own result has an error, the stand-in takes the place of the result.
        """
        end = trial if isinstance(trial, TrialFinished) else None
        stand_in, fault = None if end is None else end.stand_in, None
        if end is None or end.success:
            if trial.text is None:
                return Result(None, None, None)
            if end is not None and end.value is not None and self._builtin and not self._objectives:
                return Result(trial.text, end.value, None)
            value = json.loads(trial.text)
            fault = self._fault_of(value)
            if fault is None:
                return Result(trial.text, self._given(value), None)
        return Result(stand_in, None if stand_in is None else self._given(json.loads(stand_in)), fault)

    def intermediate(self, text: str) -> Result:
        """Return an intermediate result in the form that the tuner gets, and the error in it."""
        value = json.loads(text)
        fault = self._fault_of(value)
        return Result(text, self._given(value) if fault is None else None, fault)

    def records_of(self, trial: TrialFinished | ResultReported) -> list[dict[str, Any]]:
        """Return a trial as a list of one record in the format of NNI's import_data.

        The list is empty if the trial has no usable result.
        """
        text, value, _ = self.of(trial)
        return [] if text is None else [{"parameter": json.loads(trial.parameters), "value": value}]

    def usable(self, records: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """Decode imported records. Return the usable records, and the error in each record that is not
        usable, by its number from 1.
        """
        good, faults = [], {}
        for number, record in enumerate(records, 1):
            if not isinstance(record, dict) or not {"parameter", "value"} <= record.keys():
                faults[number] = 'has no "parameter" or no "value"'
                continue
            value = record["value"]
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    pass  # a plain word, which only the tuner can judge
            fault = self._fault_of(value)
            if fault is None:
                good.append({"parameter": record["parameter"], "value": self._given(value)})
            else:
                faults[number] = fault
        return good, faults

    def _fault_of(self, value: Any) -> str | None:
        if self._objectives:
            return fault_of(value, self._objectives)
        return fault_of_result(value, numeric=self._builtin)

    def _given(self, value: Any) -> Any:
        return with_default(value, self._objectives) if self._builtin else value


def fault_of_result(value: Any, *, numeric: bool) -> str | None:
    """Return why a trial's result cannot be used, such as "is NaN", or None if it can be used.

    ``numeric``: the result must be a number or a mapping with a number as ``default``. Otherwise only a
    number that is not finite is an error, and the algorithm interprets other values.
    """
    number, subject = value, "is"
    if isinstance(value, Mapping):
        if "default" not in value:
            return 'is a mapping without "default"' if numeric else None
        number, subject = value["default"], 'has as "default"'
    if not isinstance(number, int | float) or (numeric and isinstance(number, bool)):
        return f"{subject} {number!r:.60}, which is not a number" if numeric else None
    try:
        finite = math.isfinite(number)
    except OverflowError:
        return f"{subject} an integer of more than 308 digits, which is too large"
    return None if finite else f"{subject} {number!r:.60}, which is not finite"
