"""Arguments of BOHB's model of good configurations."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelArguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArguments:
    """Arguments of BOHB's model, as in NNI.

    ``top_n_percent`` of the results count as good. ``min_points_in_model``: the number of results that are
    needed in each group, good and other; None: the number of parameters plus one. ``num_samples``: the number
    of configurations that are drawn for a suggestion, of which the best one is used. ``random_fraction``: the
    share of configurations that are drawn from the search space without the model. ``bandwidth_factor``
    widens the kernels from which configurations are drawn. ``min_bandwidth`` is the least width of a kernel.
    """

    min_points_in_model: int | None = None
    top_n_percent: int = 15
    num_samples: int = 64
    random_fraction: float = 1 / 3
    bandwidth_factor: float = 3.0
    min_bandwidth: float = 1e-3
