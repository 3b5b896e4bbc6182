"""The Random tuner under its import path in NNI, with NNI's functions that draw parameter sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nni.algorithms.hpo._validators import validator
from nni.common.hpo_utils.formatting import ParameterKey, ParameterSpec
from nnimgr.tuners.random import RandomTuner

__all__ = ["RandomClassArgsValidator", "RandomTuner", "suggest", "suggest_parameter"]

RandomClassArgsValidator = validator("tuner", "Random")


def suggest(rng: Any, space: Mapping[ParameterKey, ParameterSpec]) -> dict[ParameterKey, Any]:
    """Draw a parameter set from a search space. Both are in the formatted form of
    ``nni.common.hpo_utils``.

    ``rng``: a numpy Generator.
    """
    found: dict[ParameterKey, Any] = {}
    for key, spec in space.items():
        if spec.is_activated_in(found):
            found[key] = suggest_parameter(rng, spec)
    return found


def suggest_parameter(rng: Any, spec: ParameterSpec) -> Any:
    """Draw a value of one parameter, in the formatted form of ``nni.common.hpo_utils``.

    ``rng``: a numpy Generator.
    """
    if spec.categorical:
        return rng.integers(spec.size)
    if spec.normal_distributed:
        return rng.normal(spec.mu, spec.sigma)
    return rng.uniform(spec.low, spec.high)
