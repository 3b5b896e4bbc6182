"""Batch: tries the parameter sets that the user has listed, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from nnimgr.algorithm import NoMoreTrialError, Past, Rules, Tuner
from nnimgr.identity import identity

__all__ = ["BatchTuner", "fault_of_space"]


class BatchTuner(Tuner):
    """Tuner that suggests the options of the search space's only parameter, a ``choice``, in their order.

    An option that is listed twice is suggested twice, unless the experiment forbids repeated parameter sets.
    An option that does not meet the constraints is skipped. An option that was suggested or imported is not
    suggested again, even after the search space has changed, unless its trial was never run.
    """

    learns: ClassVar[bool] = False

    def __init__(self) -> None:
        self._rules = Rules()
        self._options: list[Any] = []
        self._spent: Counter[str] = Counter()  # identity of an option -> how often it was given or imported
        self._left: list[Any] | None = (
            None  # options still to suggest, in reverse order; None: not computed yet
        )

    def obey(self, rules: Rules) -> None:
        self._rules = rules

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.SUGGESTIONS | Past.IMPORTS

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        fault = fault_of_space(search_space)
        if fault is not None:
            raise ValueError(fault)
        (spec,) = search_space.values()
        self._options, self._left = list(spec["_value"]), None

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        if self._left is None:
            self._left = self._unspent()
        while self._left and not self._rules.feasible(self._left[-1]):
            self._left.pop()
        if not self._left:
            raise NoMoreTrialError("every parameter set of the batch was suggested")
        option = self._left.pop()
        self._spent[identity(option)] += 1
        return option

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """Record an option that was suggested before this process started, so that it is not
        suggested again.
        """
        self._spend(parameters)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        """Forget that an option was suggested, because its trial was never run."""
        self._spend(parameters, times=-1)

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass

    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            self._spend(record["parameter"])

    def _spend(self, parameters: Any, *, times: int = 1) -> None:
        self._spent[identity(parameters)] += times
        self._left = None

    def _unspent(self) -> list[Any]:
        spent, left = self._spent.copy(), []
        for option in self._options:
            key = identity(option)
            if spent[key] > 0:
                spent[key] -= 0 if self._rules.never_repeat else 1
                continue
            left.append(option)
            spent[key] += self._rules.never_repeat
        left.reverse()
        return left


def fault_of_space(search_space: Mapping[str, Any]) -> str | None:
    """Return the reason why Batch cannot search this space, as a sentence, or None if it can."""
    specs = list(search_space.values())
    spec = specs[0] if len(specs) == 1 and isinstance(specs[0], Mapping) else {}
    options = spec.get("_value")
    if spec.get("_type") == "choice" and isinstance(options, list | tuple) and options:
        return None
    return (
        "Batch needs a search space of exactly one parameter, combine_params, of type choice, whose options "
        "are whole parameter sets"
    )
