"""Arguments of the model of BOHB."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelArguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArguments:
    """Arguments of the model, as in NNI.

    ``min_points_in_model``: number of results that each half needs, the good and the other one; None: one
    more than the number of parameters. ``top_n_percent`` of the results are good. ``num_samples``: draws, of
    which the best is taken. ``random_fraction`` of the configurations are drawn from the search space.
    ``bandwidth_factor`` widens the kernels that are drawn from, and ``min_bandwidth`` is the least width of a
    kernel.
    """

    min_points_in_model: int | None = None
    top_n_percent: int = 15
    num_samples: int = 64
    random_fraction: float = 1 / 3
    bandwidth_factor: float = 3.0
    min_bandwidth: float = 1e-3
