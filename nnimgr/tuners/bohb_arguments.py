"""What the model of BOHB can be told to do differently."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelArguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArguments:
    """NNI's. ``min_points_in_model``: so many results at least are good ones, and as many others are needed;
    None: one more than there are parameters. ``top_n_percent`` of the results are good. ``num_samples``:
    draws, of which the best is taken. ``random_fraction`` of the configurations are drawn from the search
    space. ``bandwidth_factor`` widens the kernels that are drawn from, and none is narrower than
    ``min_bandwidth``.
    """

    min_points_in_model: int | None = None
    top_n_percent: int = 15
    num_samples: int = 64
    random_fraction: float = 1 / 3
    bandwidth_factor: float = 3.0
    min_bandwidth: float = 1e-3
