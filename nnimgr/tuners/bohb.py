"""BOHB (Falkner, Klein and Hutter, ICML 2018): Hyperband in which a model suggests the configurations."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from nnimgr import search_space as spaces
from nnimgr.libraries import need
from nnimgr.tuners.bohb_arguments import ModelArguments
from nnimgr.tuners.budgets import BudgetTuner, Schedule, split
from nnimgr.tuners.hyperband import Brackets, most_halvings

if TYPE_CHECKING:
    from nnimgr.tuners.bohb_model import Model

__all__ = ["BOHB", "ModelTuner"]


class ModelTuner(BudgetTuner):
    """Base of the tuners that have a schedule of budgets, and a model of which configurations are good.

    The model uses the results of the largest budget that has enough results. A result without a budget, such
    as an imported one, counts as a result with ``max_budget``.
    """

    def __init__(
        self,
        schedule: Schedule,
        optimize_mode: str,
        seed: int | None,
        max_budget: int,
        arguments: ModelArguments,
    ) -> None:
        super().__init__(schedule, optimize_mode, seed)
        self._max_budget = max_budget
        self._arguments = arguments
        self._model: Model | None = None

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if rng.random() >= self._arguments.random_fraction and self.results:
            found = self._modelled().suggest(rng)
            if found is not None:
                return found
        return spaces.sample(self.space, rng)

    def space_changed(self) -> None:
        super().space_changed()
        self._model = None

    def learned(self, parameters: Any, loss: float) -> None:
        if self._model is not None:
            self._teach(self._model, parameters, loss)

    def _modelled(self) -> Model:
        if self._model is None:
            from nnimgr.tuners.bohb_model import Model  # loads numpy

            self._model = Model(self.space, self._arguments)
            for parameters, loss in self.results:
                self._teach(self._model, parameters, loss)
        return self._model

    def _teach(self, model: Model, parameters: Any, loss: float) -> None:
        configuration, budget = split(parameters)
        known = isinstance(budget, int | float) and not isinstance(budget, bool)
        model.learn(budget if known else self._max_budget, configuration, loss)


class BOHB(ModelTuner):
    """Tuner that adds the parameter ``TRIAL_BUDGET``, which tells a trial how much it may spend.

    The budget is from ``min_budget`` to ``max_budget``. ``config_space``, in NNI a file that repeats the
    search space, must be None. The other arguments are described in ``ModelArguments``. Raise
    ModuleNotFoundError if numpy is not installed.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        min_budget: int = 1,
        max_budget: int = 3,
        eta: int = 3,
        min_points_in_model: int | None = None,
        top_n_percent: int = 15,
        num_samples: int = 64,
        random_fraction: float = 1 / 3,
        bandwidth_factor: float = 3.0,
        min_bandwidth: float = 1e-3,
        config_space: None = None,
        seed: int | None = None,
    ) -> None:
        need("the advisor BOHB", "numpy")
        arguments = ModelArguments(
            min_points_in_model=min_points_in_model,
            top_n_percent=top_n_percent,
            num_samples=num_samples,
            random_fraction=random_fraction,
            bandwidth_factor=bandwidth_factor,
            min_bandwidth=min_bandwidth,
        )
        brackets = Brackets(max_budget, eta, most_halvings(min_budget, max_budget, eta))
        super().__init__(brackets, optimize_mode, seed, max_budget, arguments)
