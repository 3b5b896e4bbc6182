"""Arguments of the model of TPE."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TpeArguments"]


@dataclass(frozen=True, slots=True)
class TpeArguments:
    """NNI's ``tpe_args``. The defaults are our own, and suit a model of all parameters together.

    ``constant_liar_type``: the assumed result of running trials: the ``best``, ``worst`` or ``mean`` of all
    so far, but never one that counts as good; None: running trials are left out. ``n_startup_jobs``: the
    number of results before anything is modelled. ``n_ei_candidates``: draws of a parameter set, of which the
    best is taken. ``linear_forgetting``: the number of worst results that have full weight. ``prior_weight``:
    the weight of the search space itself, where a result has 1. ``gamma``: ceil(gamma * sqrt(n)) of n results
    count as good, at most ``linear_forgetting``.
    """

    constant_liar_type: str | None = "worst"
    n_startup_jobs: int = 10
    n_ei_candidates: int = 64
    linear_forgetting: int = 25
    prior_weight: float = 1.0
    gamma: float = 1.0
