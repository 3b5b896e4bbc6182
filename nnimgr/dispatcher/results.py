"""Trials' results as a tuner is given them, and what is wrong with those it is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from nnimgr.dispatcher.messages import ResultReported, TrialFinished
from nnimgr.dispatcher.plain import fault_of_result
from nnimgr.objectives import Objectives, fault_of, with_default

__all__ = ["Result", "Results"]


class Result(NamedTuple):
    """``text``: in JSON; None: there is none. ``value``: as a tuner is given it."""

    text: str | None
    value: Any
    fault: str | None


class Results:
    """``builtin``: the tuner takes numbers only, and knows of one objective by no name."""

    def __init__(self, objectives: Objectives, *, builtin: bool) -> None:
        self._objectives, self._builtin = objectives, builtin

    def of(self, trial: TrialFinished | ResultReported) -> Result:
        """What counts as its result, if anything does, and what is wrong with its own."""
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

    def records_of(self, trial: TrialFinished | ResultReported) -> list[dict[str, Any]]:
        """A trial as NNI's import_data takes it; empty if it has no usable result."""
        text, value, _ = self.of(trial)
        return [] if text is None else [{"parameter": json.loads(trial.parameters), "value": value}]

    def usable(self, records: Iterable[Any]) -> tuple[list[dict[str, Any]], list[str]]:
        """Imported records with their values decoded, and what is wrong with those left out."""
        good, faults = [], []
        for record in records:
            if not isinstance(record, dict) or not {"parameter", "value"} <= record.keys():
                faults.append('has no "parameter" or no "value"')
                continue
            value = record["value"]
            if isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError:
                    pass  # a plain word: whether it means anything is the tuner's business
            fault = self._fault_of(value)
            if fault is None:
                good.append({"parameter": record["parameter"], "value": self._given(value)})
            else:
                faults.append(fault)
        return good, faults

    def _fault_of(self, value: Any) -> str | None:
        if self._objectives:
            return fault_of(value, self._objectives)
        return fault_of_result(value, numeric=self._builtin)

    def _given(self, value: Any) -> Any:
        return with_default(value, self._objectives) if self._builtin else value
