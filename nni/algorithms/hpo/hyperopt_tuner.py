"""NNI's class ``HyperoptTuner`` under its import path in NNI. It offers TPE, random search and annealing."""

from typing import Any

from nni.algorithms.hpo._validators import validator
from nnimgr.algorithm import ClassArgsValidator, Tuner
from nnimgr.tuners.anneal import AnnealTuner
from nnimgr.tuners.random import RandomTuner
from nnimgr.tuners.tpe_legacy import TpeLegacyTuner

__all__ = ["HyperoptClassArgsValidator", "HyperoptTuner"]


class HyperoptClassArgsValidator(ClassArgsValidator):
    """Check of the arguments of ``HyperoptTuner``."""

    def validate_class_args(self, **kwargs: Any) -> None:
        """Raise ValueError if ``HyperoptTuner`` does not accept these arguments."""
        kwargs.pop("algorithm_name", None)
        validator("tuner", "Anneal")().validate_class_args(**kwargs)


class HyperoptTuner(Tuner):
    """Class whose call returns the tuner for ``algorithm_name``: "tpe", "random_search" or "anneal".

    Raise ValueError for another algorithm name, or for an invalid argument.
    """

    def __new__(  # type: ignore[misc]
        cls,
        algorithm_name: str,
        optimize_mode: str = "minimize",
        parallel_optimize: bool = False,
        constant_liar_type: str = "min",
        seed: int | None = None,
    ) -> Tuner:
        if constant_liar_type not in ("min", "max", "mean"):
            raise ValueError(f"constant_liar_type must be one of min, max, mean, not {constant_liar_type!r}")
        match algorithm_name:
            case "tpe":
                return TpeLegacyTuner(optimize_mode, parallel_optimize, constant_liar_type, seed)
            case "anneal":
                return AnnealTuner(optimize_mode, parallel_optimize, constant_liar_type, seed)
            case "random_search":
                return RandomTuner(optimize_mode, seed)
        raise ValueError(f"algorithm_name must be one of tpe, random_search, anneal, not {algorithm_name!r}")
