"""TPE, the tree-structured Parzen estimator (Bergstra, Bardenet, Bengio and Kégl, NeurIPS 2011).

This file holds what surrounds the model. The model (``tpe_model``) loads numpy, which takes longer than all
the rest of a tuner's start, and so not before there is something to learn from.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from nnimgr import search_space as spaces
from nnimgr.algorithm import OptimizeMode, Past, Tuner, extract_scalar_reward
from nnimgr.tuners.given import Given, can_repeat
from nnimgr.tuners.tpe_arguments import TpeArguments

if TYPE_CHECKING:
    from nnimgr.tuners.tpe_model import Model

__all__ = ["TpeArguments", "TpeTuner"]


class TpeTuner(Tuner):
    """Draws every parameter from where good results lie denser than bad ones.

    A suggestion is a function of (seed, parameter id, what was told before). Failed trials teach nothing.
    Results of sets that users have tried by hand and imported ones count like its own, as far as they lie in
    the space. No set is given twice, as with Random. ``seed`` None: another one in each process.

    Raises ModuleNotFoundError if there is no numpy.
    """

    _accept_customized = True

    def __init__(
        self,
        optimize_mode: str = "minimize",
        seed: int | None = None,
        tpe_args: Mapping[str, Any] | None = None,
    ) -> None:
        if importlib.util.find_spec("numpy") is None:
            raise ModuleNotFoundError(
                "the tuner TPE needs numpy, which this Python does not have: install it with "
                "`pip install numpy`"
            )
        self._sign = -1.0 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else 1.0
        self._seed = Random().getrandbits(64) if seed is None else seed
        self._arguments = TpeArguments(**(tpe_args or {}))
        self._space = spaces.Space(())
        self._repeats = False
        self._given = Given()
        self._open: dict[int, Any] = {}  # suggested, and not ended
        self._results: list[tuple[Any, float]] = []  # parameters and loss
        self._model: Model | None = None  # knows all results, and the open ones that are in ``_open``

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        repeats = any(can_repeat(spaces.parse(space)) for space in search_spaces)
        return Past.ALL if repeats else Past.ALL & ~Past.SUGGESTIONS

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._space = spaces.parse(search_space)
        self._repeats = can_repeat(self._space)
        self._given.change(self._space)
        self._model = None

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        rng = Random(f"{self._seed}/{parameter_id}")
        if len(self._results) < max(1, self._arguments.n_startup_jobs):
            parameters = spaces.sample(self._space, rng)
        else:
            parameters = self._modelled().suggest(rng)
        if self._repeats and not self._given.add(parameters):
            parameters = self._given.next_of_grid()
        self._opened(parameter_id, parameters)
        return parameters

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """An earlier process suggested this set."""
        self._remember(parameters)
        self._opened(parameter_id, parameters)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        """The set was never tried."""
        self._given.forget(parameters)

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        if parameter_id is None:
            self._remember(parameters)
        else:
            self._closed(parameter_id)
        self._learn(parameters, value)

    def trial_end(self, parameter_id: int | None, success: bool, **kwargs: Any) -> None:
        if parameter_id is not None:
            self._closed(parameter_id)

    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            self._remember(record["parameter"])
            self._learn(record["parameter"], record["value"])

    def _remember(self, parameters: Any) -> None:
        if self._repeats:
            self._given.remember(parameters)

    def _opened(self, parameter_id: int, parameters: Any) -> None:
        self._open[parameter_id] = parameters
        if self._model is not None:
            self._model.open(parameter_id, parameters)

    def _closed(self, parameter_id: int) -> None:
        self._open.pop(parameter_id, None)
        if self._model is not None:
            self._model.close(parameter_id)

    def _learn(self, parameters: Any, value: Any) -> None:
        loss = self._sign * float(extract_scalar_reward(value))
        self._results.append((parameters, loss))
        if self._model is not None:
            self._model.learn(parameters, loss)

    def _modelled(self) -> Model:
        if self._model is None:
            from nnimgr.tuners.tpe_model import Model

            self._model = Model(self._space, self._arguments)
            for parameters, loss in self._results:
                self._model.learn(parameters, loss)
            for parameter_id, parameters in self._open.items():
                self._model.open(parameter_id, parameters)
        return self._model
