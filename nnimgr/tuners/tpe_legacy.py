"""TPE under NNI's old name TPE from hyperopt, with the arguments of hyperopt's TPE."""

from __future__ import annotations

from nnimgr.tuners.tpe import TpeTuner

__all__ = ["TpeLegacyTuner"]

_LIARS = {"min": "best", "max": "worst", "mean": "mean"}


class TpeLegacyTuner(TpeTuner):
    """TPE. With ``parallel_optimize``, open sets count as results with the smallest, largest or mean loss.

    Otherwise they count as by default in TPE, which hyperopt's TPE could not do.
    """

    def __init__(
        self,
        optimize_mode: str = "minimize",
        parallel_optimize: bool = False,
        constant_liar_type: str = "min",
        seed: int | None = None,
    ) -> None:
        lies = {"constant_liar_type": _LIARS[constant_liar_type]} if parallel_optimize else None
        super().__init__(optimize_mode, seed, lies)
