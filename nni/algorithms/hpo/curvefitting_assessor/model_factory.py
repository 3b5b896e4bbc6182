"""The class ``CurveModel``, which extrapolates learning curves, under its import path in NNI."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CurveModel"]


class CurveModel:
    """Model that predicts how a learning curve continues. ``target_pos``: the step whose value is
    predicted.

    It uses nnimgr's own curves, so that it lacks the internal methods and attributes of NNI's class.
    """

    def __init__(self, target_pos: int) -> None:
        self.target_pos = target_pos

    def predict(self, trial_history: Sequence[float]) -> float | None:
        """Return the value that is expected at step ``target_pos``, or None if ``trial_history`` has too few
        values.
        """
        from nnimgr.assessors.curves import extrapolated  # loads scipy

        expected = extrapolated(trial_history, self.target_pos)
        return None if expected is None else expected.value
