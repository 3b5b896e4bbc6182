"""Descriptions of the built-in tuners: names, classes and checks of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.builtins.arguments import (
    Arguments,
    boolean,
    integer,
    mapping,
    number,
    one_of,
    optimize_mode,
    text,
)
from nnimgr.builtins.builtin import Builtin

__all__ = ["TUNERS"]


def _fault_of_batch(space: Mapping[str, Any]) -> str | None:
    from nnimgr.tuners.batch import fault_of_space

    return fault_of_space(space)


def _fault_of_grid(space: Mapping[str, Any]) -> str | None:
    return None if space else "GridSearch needs at least one parameter"


def _fault_of_sampler(sampler: Any) -> str | None:
    from nnimgr.tuners.optuna_samplers import fault_of_sampler

    return fault_of_sampler(sampler)


def _fault_of_optuna(arguments: Mapping[str, Any], several: bool) -> tuple[tuple[str, ...], str] | None:
    from nnimgr.tuners.optuna_samplers import fault_of_arguments

    return fault_of_arguments(arguments, several)


_HYPEROPT: Arguments = {
    "optimize_mode": optimize_mode,
    "parallel_optimize": boolean,
    "constant_liar_type": one_of("min", "max", "mean"),
    "seed": integer(or_null=True),
}

TUNERS = (
    Builtin(
        role="tuner",
        name="Random",
        target="nnimgr.tuners.random:RandomTuner",
        nni="random_tuner.RandomTuner",
        arguments={"optimize_mode": optimize_mode, "seed": integer(or_null=True)},
        aliases=("RandomTuner",),
        several=True,
    ),
    Builtin(
        role="tuner",
        name="TPE",
        needs=("numpy",),
        minimises=True,
        target="nnimgr.tuners.tpe:TpeTuner",
        nni="tpe_tuner.TpeTuner",
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
        nni="gridsearch_tuner.GridSearchTuner",
        arguments={"optimize_mode": optimize_mode},
        aliases=("GridSearchTuner",),
        space=_fault_of_grid,
        several=True,
    ),
    Builtin(
        role="tuner",
        name="Batch",
        target="nnimgr.tuners.batch:BatchTuner",
        nni="batch_tuner.BatchTuner",
        arguments={},
        aliases=("BatchTuner",),
        space=_fault_of_batch,
        several=True,
    ),
    Builtin(
        role="tuner",
        name="NSGA2",
        needs=("optuna", "numpy"),
        minimises=True,
        target="nnimgr.tuners.optuna:NSGA2Tuner",
        arguments={
            "optimize_mode": optimize_mode,
            "seed": integer(or_null=True),
            "population_size": integer(at_least=2),
            "mutation_prob": number(at_least=0, at_most=1, or_null=True),
            "crossover": one_of("uniform", "blxalpha", "sbx", "spx", "undx", "vsbx"),
            "crossover_prob": number(at_least=0, at_most=1),
            "swapping_prob": number(at_least=0, at_most=1),
        },
        aliases=("NSGA2Tuner", "NSGAII"),
        several=True,
    ),
    Builtin(
        role="tuner",
        name="Optuna",
        needs=("optuna", "numpy"),
        minimises=True,
        target="nnimgr.tuners.optuna:OptunaTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "seed": integer(or_null=True),
            "sampler": _fault_of_sampler,
            "sampler_args": mapping,
        },
        aliases=("OptunaTuner",),
        several=True,
        whole=_fault_of_optuna,
    ),
    Builtin(
        role="tuner",
        name="PBT",
        target="nnimgr.tuners.pbt:PBTTuner",
        nni="pbt_tuner.PBTTuner",
        directory="all_checkpoint_dir",
        arguments={
            "optimize_mode": optimize_mode,
            "all_checkpoint_dir": text,
            "population_size": integer(at_least=1),
            "factor": number(at_least=0),
            "resample_probability": number(at_least=0, at_most=1),
            "fraction": number(at_least=0, at_most=1),
            "factors": number(at_least=0, or_null=True),
            "seed": integer(or_null=True),
        },
        aliases=("PBTTuner",),
        adds=("load_checkpoint_dir", "save_checkpoint_dir"),
    ),
    Builtin(
        role="tuner",
        name="TPE_legacy",
        needs=("numpy",),
        minimises=True,
        target="nnimgr.tuners.tpe_legacy:TpeLegacyTuner",
        arguments=_HYPEROPT,
    ),
    Builtin(
        role="tuner",
        name="Anneal",
        needs=("numpy",),
        minimises=True,
        target="nnimgr.tuners.anneal:AnnealTuner",
        arguments=_HYPEROPT,
        aliases=("AnnealTuner",),
    ),
    Builtin(
        role="tuner",
        name="Evolution",
        needs=("numpy",),
        target="nnimgr.tuners.evolution:EvolutionTuner",
        nni="evolution_tuner.EvolutionTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "population_size": integer(at_least=1),
            "seed": integer(or_null=True),
        },
        aliases=("EvolutionTuner",),
    ),
    Builtin(
        role="tuner",
        name="GP",
        needs=("numpy", "scipy", "sklearn"),
        target="nnimgr.tuners.gp:GPTuner",
        nni="gp_tuner.GPTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "utility": one_of("ei", "ucb", "poi"),
            "kappa": number(),
            "xi": number(),
            "nu": number(above=0),
            "alpha": number(at_least=0),
            "cold_start_num": integer(at_least=0),
            "selection_num_warm_up": integer(at_least=1),
            "selection_num_starting_points": integer(at_least=1),
            "seed": integer(or_null=True),
        },
        aliases=("GPTuner",),
    ),
    Builtin(
        role="tuner",
        name="Metis",
        needs=("numpy", "scipy", "sklearn"),
        target="nnimgr.tuners.metis:MetisTuner",
        nni="metis_tuner.MetisTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "no_resampling": boolean,
            "no_candidates": boolean,
            "selection_num_starting_points": integer(at_least=1),
            "cold_start_num": integer(at_least=0),
            "exploration_probability": number(at_least=0, at_most=1),
            "seed": integer(or_null=True),
        },
        aliases=("MetisTuner",),
    ),
    Builtin(
        role="tuner",
        name="SMAC",
        needs=("smac", "numpy", "scipy"),
        target="nnimgr.tuners.smac:SMACTuner",
        nni="smac_tuner.SMACTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "config_dedup": boolean,
            "seed": integer(or_null=True),
        },
        aliases=("SMACTuner",),
    ),
    Builtin(
        role="tuner",
        name="CMAES",
        needs=("cmaes", "numpy"),
        minimises=True,
        target="nnimgr.tuners.cmaes:CmaesTuner",
        arguments={
            "optimize_mode": optimize_mode,
            "sigma0": number(above=0),
            "population_size": integer(at_least=4, or_null=True),
            "seed": integer(or_null=True),
        },
        aliases=("CmaesTuner",),
    ),
    Builtin(
        role="tuner",
        name="QMC",
        needs=("numpy", "scipy"),
        target="nnimgr.tuners.qmc:QmcTuner",
        arguments={"optimize_mode": optimize_mode, "seed": integer(or_null=True)},
        aliases=("QmcTuner",),
        several=True,
    ),
)
