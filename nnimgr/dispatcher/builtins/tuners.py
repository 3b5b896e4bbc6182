"""The built-in tuners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.dispatcher.arguments import integer, number, one_of, optimize_mode
from nnimgr.dispatcher.builtins.builtin import Builtin

__all__ = ["TUNERS"]


def _fault_of_batch(space: Mapping[str, Any]) -> str | None:
    from nnimgr.tuners.batch import fault_of_space

    return fault_of_space(space)


def _fault_of_grid(space: Mapping[str, Any]) -> str | None:
    return None if space else "GridSearch needs at least one parameter"


TUNERS = (
    Builtin(
        role="tuner",
        name="Random",
        target="nnimgr.tuners.random:RandomTuner",
        arguments={"optimize_mode": optimize_mode, "seed": integer(or_null=True)},
        aliases=("RandomTuner",),
        several=True,
    ),
    Builtin(
        role="tuner",
        name="TPE",
        target="nnimgr.tuners.tpe:TpeTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "seed": integer(or_null=True),
            "tpe_args": {
                "constant_liar_type": one_of("best", "worst", "mean", None),
                "n_startup_jobs": integer(at_least=0),
                "n_ei_candidates": integer(at_least=1),
                "linear_forgetting": integer(at_least=1),
                "prior_weight": number(at_least=0),
                "gamma": number(above=0),
            },
        },
        aliases=("TpeTuner",),
    ),
    Builtin(
        role="tuner",
        name="GridSearch",
        target="nnimgr.tuners.gridsearch:GridSearchTuner",
        arguments={"optimize_mode": optimize_mode},
        aliases=("GridSearchTuner",),
        space=_fault_of_grid,
        several=True,
    ),
    Builtin(
        role="tuner",
        name="Batch",
        target="nnimgr.tuners.batch:BatchTuner",
        arguments={},
        aliases=("BatchTuner",),
        space=_fault_of_batch,
        several=True,
    ),
)
