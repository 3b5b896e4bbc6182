"""Registry of steps. A step is the function that applies one type of fact to the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState

__all__ = ["Step", "Steps"]

F = TypeVar("F", bound=f.Fact)
Step = Callable[[ExperimentState, F, f.Recorded], None]


class Steps:
    """Registry of the steps (functions that apply facts) in one module. Each type of fact has at most one
    step.
    """

    def __init__(self) -> None:
        self._steps: dict[type[Any], Step[Any]] = {}

    def of(self, kind: type[F]) -> Callable[[Step[F]], Step[F]]:
        """Return a decorator that registers a function as the step for facts of this type."""

        def register(step: Step[F]) -> Step[F]:
            if kind in self._steps:
                raise ValueError(f"{kind.__name__} has two steps")
            self._steps[kind] = step
            return step

        return register

    def __iter__(self) -> Iterator[tuple[type[Any], Step[Any]]]:
        return iter(self._steps.items())
