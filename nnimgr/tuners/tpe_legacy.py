"""TPE under the name TPE_legacy, with the arguments of NNI's old TPE, which used the library hyperopt."""

from __future__ import annotations

from nnimgr.tuners.tpe import TpeTuner

__all__ = ["TpeLegacyTuner"]

_LIARS = {"min": "best", "max": "worst", "mean": "mean"}


class TpeLegacyTuner(TpeTuner):
    """TPE tuner with the arguments of NNI's old TPE, which used the library hyperopt.

    With ``parallel_optimize``, unfinished trials count as results with the smallest, largest or mean loss
    (``constant_liar_type``). Otherwise they count as results with the worst loss so far, as in the tuner TPE
    by default. hyperopt has no option for this.
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
