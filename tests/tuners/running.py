"""A tuner at work without processes: a fixed number of concurrent trials, with computed results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nnimgr.algorithm import NoMoreTrialError, Tuner


class Life:
    """Makes the calls that a tuner's host makes. ``told`` holds all calls, for a rebuild."""

    def __init__(self, make: Callable[[], Any], space: dict[str, Any]) -> None:
        self._make, self._space = make, space
        self.tuner: Any = make()
        self.tuner.update_search_space(space)
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.open: dict[int, Any] = {}  # parameter id -> set, in the order of arrival
        self.given: list[Any] = []
        self.exhausted = False

    def ask(self, count: int) -> int:
        """Ask for ``count`` sets. Return how many the tuner gives."""
        ids = list(range(len(self.given), len(self.given) + count))
        try:
            found = self.tuner.generate_multiple_parameters(ids)
        except NoMoreTrialError:
            self.exhausted = True
            return 0
        for parameter_id, parameters in zip(ids, found, strict=False):
            parameters = json.loads(json.dumps(parameters))
            self.open[parameter_id] = parameters
            self.given.append(parameters)
            self.told.append(("recall", (parameter_id, parameters)))
        return len(found)

    def end(self, parameter_id: int, value: float | None) -> None:
        """End a trial. ``value`` is None for a failed trial."""
        parameters = self.open.pop(parameter_id)
        if value is not None:
            self._tell("receive_trial_result", parameter_id, parameters, value)
        self._tell("trial_end", parameter_id, value is not None)

    def run(self, trials: int, concurrency: int, value: Callable[[int, Any], float | None]) -> None:
        """Run until ``trials`` sets were given, or there are no more.

        The cheapest and oldest trial ends next.
        """
        while True:
            wanted = min(concurrency - len(self.open), trials - len(self.given))
            if wanted > 0:
                self.ask(wanted)
            if not self.open:
                assert self.exhausted or len(self.given) == trials, "it waits, and nothing runs"
                return
            first = min(self.open, key=lambda each: (self.open[each].get("TRIAL_BUDGET", 0) + each, each))
            self.end(first, value(first, self.open[first]))

    def rebuilt(self) -> Tuner:
        """Return another tuner that is rebuilt from the same calls."""
        tuner: Any = self._make()
        tuner.update_search_space(self._space)
        for call, arguments in self.told:
            getattr(tuner, call)(*arguments)
        return tuner  # type: ignore[no-any-return]

    def _tell(self, call: str, *arguments: Any) -> None:
        getattr(self.tuner, call)(*arguments)
        self.told.append((call, arguments))
