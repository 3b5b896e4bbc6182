"""Constraints on parameter sets: expressions over parameter names, such as ``batch_size * width <= 4096``.

If the evaluation meets a parameter that the set does not have, such as one of an option that was not chosen,
the constraint holds.

Standard library only, because tuners' processes evaluate constraints for every set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnimgr.constraint_values import Absent
from nnimgr.expressions import Condition, ExpressionError, Names

__all__ = ["Constraint", "Constraints"]


class Constraint:
    """Constraint on parameter sets. The constructor raises ExpressionError.

    ``names``: names of parameters that the constraint may use. None: all names are accepted.
    """

    def __init__(self, text: str, names: Names | None = None) -> None:
        self._condition = Condition(text, names)
        self.text = self._condition.text
        if not self._condition.uses_parameters():
            raise ExpressionError("names no parameter, so it is always true or always false")

    def holds(self, parameters: Any) -> bool:
        """Return whether a parameter set meets the constraint.

        A constraint without a value, for example because of a division by zero, is not met.
        """
        try:
            return self._condition.value(parameters)  # type: ignore[no-any-return]
        except Absent:
            return True
        except ExpressionError:
            return False

    def trouble(self, parameters: Any) -> str | None:
        """Return why the constraint has no value for this parameter set. Return None if it has a value."""
        try:
            self._condition.value(parameters)
        except Absent:
            return None
        except ExpressionError as error:
            return str(error)
        return None

    def complaint(self, parameters: Any) -> str:
        """Return why a parameter set does not meet the constraint, as a sentence without its period."""
        given = self._condition.given(parameters)
        trouble = self.trouble(parameters)
        if trouble is not None:
            return f"the constraint {self.text} cannot be worked out with {given}: {trouble}"
        return f"the constraint {self.text} is not met by {given}"


class Constraints:
    """All constraints of an experiment. The constructor raises ExpressionError."""

    def __init__(self, texts: Sequence[str] = (), names: Names | None = None) -> None:
        self._all = [Constraint(text, names) for text in texts]

    def __len__(self) -> int:
        return len(self._all)

    def feasible(self, parameters: Any) -> bool:
        """Return whether a parameter set meets all constraints."""
        return all(constraint.holds(parameters) for constraint in self._all)

    def complaint(self, parameters: Any) -> str | None:
        """Return a sentence about the first constraint that the parameter set does not meet, or None."""
        for constraint in self._all:
            if not constraint.holds(parameters):
                return constraint.complaint(parameters)
        return None
