"""What the model of TPE can be told to do differently."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TpeArguments"]


@dataclass(frozen=True, slots=True)
class TpeArguments:
    """NNI's ``tpe_args``; the defaults are ours, and suit a model of all parameters together.

    ``constant_liar_type``: what result running trials are taken to have had: the ``best``, ``worst`` or
    ``mean`` one of all so far, but never one that counts as good; None: they are left out.
    ``n_startup_jobs``: so many results are waited for before anything is modelled. ``n_ei_candidates``: draws
    of a parameter set, of which the best is taken. ``linear_forgetting``: so many of the worst results weigh
    in full. ``prior_weight``: the weight of the search space itself, where a result has 1. ``gamma``:
    ceil(gamma * sqrt(n)) of n results count as good, at most ``linear_forgetting``.
    """

    constant_liar_type: str | None = "worst"
    n_startup_jobs: int = 10
    n_ei_candidates: int = 64
    linear_forgetting: int = 25
    prior_weight: float = 1.0
    gamma: float = 1.0
