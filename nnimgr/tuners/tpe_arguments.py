"""Arguments of TPE's model of good and bad results."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TpeArguments"]


@dataclass(frozen=True, slots=True)
class TpeArguments:
    """NNI's ``tpe_args``. Their defaults differ from NNI's, and suit a model of all parameters together.

    ``constant_liar_type``: the assumed result of running trials, the ``best``, ``worst`` or ``mean`` result
    so far. Running trials never count as good; with None, they are ignored. ``n_startup_jobs``: the number
    of results before the model is used. ``n_ei_candidates``: the number of parameter sets that are drawn for
    a suggestion, of which the best one is used. ``gamma``: of n results, the best ceil(gamma * sqrt(n)) count
    as good, but at most ``linear_forgetting``. ``linear_forgetting``: the number of worst results that have
    full weight. ``prior_weight``: the weight of the search space's own density; a result has the weight 1.
    """

    constant_liar_type: str | None = "worst"
    n_startup_jobs: int = 10
    n_ei_candidates: int = 64
    linear_forgetting: int = 25
    prior_weight: float = 1.0
    gamma: float = 1.0
