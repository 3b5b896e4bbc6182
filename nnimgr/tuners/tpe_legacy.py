"""NNI's name for the TPE that it had from hyperopt, with the arguments of that one."""

from __future__ import annotations

from nnimgr.tuners.tpe import TpeTuner

__all__ = ["TpeLegacyTuner"]

_LIARS = {"min": "best", "max": "worst", "mean": "mean"}


class TpeLegacyTuner(TpeTuner):
    """TPE. With ``parallel_optimize`` open sets count as results of the smallest, largest or mean loss.

    Without it they count as TPE has it by default, which hyperopt's could not.
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
