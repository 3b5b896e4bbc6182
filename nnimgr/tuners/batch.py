"""Batch: the parameter sets that the user has listed, one after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from nnimgr.algorithm import NoMoreTrialError, Past, Tuner

__all__ = ["BatchTuner", "fault_of_space"]


class BatchTuner(Tuner):
    """Gives the options of the one ``choice`` that the search space consists of, as they stand.

    One that is listed twice is given twice. What was given or imported does not come again, not even from a
    new search space.
    """

    learns: ClassVar[bool] = False

    def __init__(self) -> None:
        self._options: list[Any] = []
        self._next = 0  # the options before this one were given, or had been
        self._spent: Counter[str] = Counter()  # given or imported, and not yet met among the options

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.SUGGESTIONS | Past.IMPORTS

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        fault = fault_of_space(search_space)
        if fault is not None:
            raise ValueError(fault)
        self._spent.update(map(_key, self._options[: self._next]))
        (spec,) = search_space.values()
        self._options, self._next = list(spec["_value"]), 0

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        while self._next < len(self._options):
            option = self._options[self._next]
            self._next += 1
            if not self._spent[key := _key(option)]:
                return option
            self._spent[key] -= 1
        raise NoMoreTrialError("every parameter set of the batch was suggested")

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """An earlier process suggested this set."""
        self.generate_parameters(parameter_id)

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass

    def import_data(self, data: list[dict[str, Any]]) -> None:
        self._spent.update(_key(record["parameter"]) for record in data)


def fault_of_space(search_space: Mapping[str, Any]) -> str | None:
    """Why this is no search space for Batch: one sentence, or None."""
    specs = list(search_space.values())
    spec = specs[0] if len(specs) == 1 and isinstance(specs[0], Mapping) else {}
    options = spec.get("_value")
    if spec.get("_type") == "choice" and isinstance(options, list | tuple) and options:
        return None
    return (
        "Batch needs a search space of exactly one parameter, combine_params, of type choice, whose options "
        "are whole parameter sets"
    )


def _key(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True)
