"""NNI's import path of the extrapolation of learning curves."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CurveModel"]


class CurveModel:
    """Model of a learning curve. ``target_pos``: the step whose value is predicted.

    The curves and their fit are nnimgr's own, so that NNI's internals of this class are not there.
    """

    def __init__(self, target_pos: int) -> None:
        self.target_pos = target_pos

    def predict(self, trial_history: Sequence[float]) -> float | None:
        """Return the value that is expected at ``target_pos``, or None if there are too few values."""
        from nnimgr.assessors.curves import extrapolated  # loads scipy

        return extrapolated(trial_history, self.target_pos)
