"""TPE, the tree-structured Parzen estimator (Bergstra, Bardenet, Bengio and Kégl, NeurIPS 2011).

The model is in ``tpe_model``, which needs numpy. That takes longer to load than everything else here, so it
is loaded in another thread when the first result comes: neither the start of an experiment nor the first
suggestion of the model waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from nnimgr import search_space as spaces
from nnimgr.libraries import need
from nnimgr.tuners.early import import_early
from nnimgr.tuners.learning import LearningTuner
from nnimgr.tuners.tpe_arguments import TpeArguments

if TYPE_CHECKING:
    from nnimgr.tuners.tpe_model import Model

__all__ = ["TpeArguments", "TpeTuner"]


class TpeTuner(LearningTuner):
    """Tuner that draws parameter sets where good results are frequent and bad results are rare.

    Raise ModuleNotFoundError if numpy is not installed.
    """

    def __init__(
        self,
        optimize_mode: str = "minimize",
        seed: int | None = None,
        tpe_args: Mapping[str, Any] | None = None,
    ) -> None:
        need("the tuner TPE", "numpy")
        super().__init__(optimize_mode, seed)
        self._arguments = TpeArguments(**(tpe_args or {}))
        self._model: Model | None = None  # model with all results and the unfinished trials

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if len(self.results) < max(1, self._arguments.n_startup_jobs):
            return spaces.sample(self.space, rng)
        return self._modelled().suggest(rng)

    def space_changed(self) -> None:
        self._model = None

    def opened(self, parameter_id: int, parameters: Any) -> None:
        if self._model is not None:
            self._model.open(parameter_id, parameters)

    def closed(self, parameter_id: int, parameters: Any) -> None:
        if self._model is not None:
            self._model.close(parameter_id)

    def learned(self, parameters: Any, loss: float) -> None:
        if self._model is None:
            import_early("nnimgr.tuners.tpe_model")
        else:
            self._model.learn(parameters, loss)

    def _modelled(self) -> Model:
        if self._model is None:
            from nnimgr.tuners.tpe_model import Model

            self._model = Model(self.space, self._arguments)
            for parameters, loss in self.results:
                self._model.learn(parameters, loss)
            for parameter_id, parameters in self.open.items():
                self._model.open(parameter_id, parameters)
        return self._model
