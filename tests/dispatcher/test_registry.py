"""Names and arguments of built-in algorithms, and NNI's import paths for them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from nni.algorithms import hpo
from nnimgr.algorithm import Assessor, Tuner
from nnimgr.builtins import built_in
from nnimgr.dispatcher import registry
from nnimgr.scheduler import Scheduler

BASES = {"tuner": Tuner, "assessor": Assessor, "scheduler": Scheduler}


@pytest.mark.parametrize("builtin", registry.BUILTINS, ids=lambda builtin: str(builtin.name))
def test_every_built_in_can_be_loaded_and_takes_its_arguments(builtin: registry.Builtin) -> None:
    found = registry.load(builtin.target)
    assert issubclass(found, BASES[builtin.role])
    assert builtin.role == "scheduler" or callable(getattr(found, "recall", None))
    assert set(inspect.signature(found).parameters) == set(builtin.arguments)
    for name in (builtin.name, builtin.name.lower(), *builtin.aliases):
        assert registry.find(builtin.role, name.upper()) is builtin


@pytest.mark.parametrize(
    ("role", "name", "arguments", "told"),
    [
        (
            "tuner",
            "Rnadom",
            {},
            "no built-in tuner 'Rnadom'; valid names are Random, TPE, GridSearch, Batch",
        ),
        ("tuner", "smac", {"optimize_mode": 1}, "optimize_mode of SMAC must be one of minimize, maximize"),
        ("tuner", "GPtuner", {"utility": "pi"}, "utility of GP must be one of ei, ucb, poi, not 'pi'"),
        ("tuner", "GP", {"nu": 0}, "nu of GP must be a finite number above 0, not 0"),
        ("tuner", "Metis", {"exploration_probability": 1.5}, "number of at least 0 and at most 1, not 1.5"),
        ("tuner", "Metis", {"no_candidates": 0}, "no_candidates of Metis must be true or false, not 0"),
        ("tuner", "Anneal", {"constant_liar_type": "best"}, "must be one of min, max, mean, not 'best'"),
        ("tuner", "Evolution", {"population_size": 0}, "must be an integer of at least 1, not 0"),
        ("tuner", "CMAES", {"population_size": 3}, "must be an integer of at least 4 or null, not 3"),
        ("tuner", "hyperband", {"eta": 1}, "the argument eta of Hyperband must be an integer of at least 2"),
        ("tuner", "Hyperband", {"exec_mode": "both"}, "must be one of parallelism, serial, not 'both'"),
        ("tuner", "BOHB", {"top_n_percent": 100}, "must be an integer of at least 1 and at most 99, not 100"),
        ("tuner", "BOHB", {"config_space": "space.pcs"}, "cannot be used here and must be null"),
        ("tuner", "BOHB", {"min_budget": 4}, "min_budget (4) must not be greater than max_budget (3)"),
        ("tuner", "asha", {"min_budget": 82}, "min_budget (82) must not be greater than max_budget (81)"),
        ("tuner", "ASHA", {"searcher": "bohb", "mode": "stopping"}, "bohb needs mode: promotion"),
        ("tuner", "PBT", {"fraction": 1.5}, "must be a finite number of at least 0 and at most 1, not 1.5"),
        ("assessor", "ASHA", {"min_budget": 5, "max_budget": 3}, "must not be greater than max_budget (3)"),
        ("assessor", "Threshold", {}, "Threshold needs lower, upper or both"),
        ("assessor", "Threshold", {"lower": 2, "upper": 1}, "lower (2) must not be greater than upper (1)"),
        (
            "assessor",
            "Patient",
            {"wrapped": {"name": "Medianstop", "classArgs": {"start": 1}}},
            "Medianstop takes no argument 'start'; valid arguments are optimize_mode, start_step",
        ),
        ("assessor", "Patient", {"wrapped": {"name": 3}}, "must be an assessor, {name: ..., classArgs"),
        ("assessor", "Patient", {"wrapped": {"name": "Medan"}}, "no built-in assessor 'Medan'; valid names"),
        ("assessor", "Patient", {"wrapped": {"name": "ASHA", "x": 1}}, "without other fields"),
        ("assessor", "Random", {}, "there is no built-in assessor 'Random'; valid names are Medianstop"),
        ("tuner", "random", {"sede": 1}, "takes no argument 'sede'; valid arguments are optimize_mode, seed"),
        ("tuner", "random", {"seed": "1"}, "seed of Random must be an integer or null, not '1'"),
        ("tuner", "random", {"seed": True}, "must be an integer or null, not True"),
        ("assessor", "Medianstop", {"optimize_mode": "max"}, "must be one of minimize, maximize, not 'max'"),
        ("assessor", "Medianstop", {"start_step": -1}, "must be an integer of at least 0, not -1"),
        ("tuner", "Batch", {"seed": 1}, "Batch takes no argument 'seed'; it takes none at all"),
        ("tuner", "tpe", {"tpe_args": 3}, "the argument tpe_args of TPE must be a mapping, not 3"),
        ("tuner", "tpe", {"tpe_args": {"gama": 1}}, "tpe_args of TPE takes no argument 'gama'; valid"),
        ("tuner", "tpe", {"tpe_args": {"gamma": 0}}, "must be a finite number above 0, not 0"),
        ("tuner", "tpe", {"tpe_args": {"prior_weight": -1}}, "must be a finite number of at least 0"),
        (
            "tuner",
            "Optuna",
            {"sampler": "TPF"},
            "must be one of TPE, GP, CmaEs, NSGAII, NSGAIII, QMC, Random",
        ),
        ("tuner", "Optuna", {"sampler": "TPF"}, "(did you mean TPE?), not 'TPF'"),
        ("tuner", "Optuna", {"sampler": "grid"}, "(use the tuner GridSearch), not 'grid'"),
        ("tuner", "Optuna", {"sampler": 3}, "NSGAIII, QMC, Random, not 3"),
        ("tuner", "Optuna", {"sampler_args": [1]}, "must be a mapping of names to values, not [1]"),
        ("tuner", "Optuna", {"sampler_args": {"seed": 1}}, "seed is an argument of the tuner: move it"),
        ("tuner", "NSGA2", {"population_size": 1}, "must be an integer of at least 2, not 1"),
        ("tuner", "NSGA2", {"crossover_prob": 1.5}, "must be a finite number of at least 0 and at most 1"),
        ("tuner", "NSGA2", {"crossover": "two"}, "must be one of uniform, blxalpha, sbx"),
        ("tuner", "tpe", {"tpe_args": {"constant_liar_type": "min"}}, "best, worst, mean, null, not 'min'"),
        (
            "scheduler",
            "Medianstop",
            {},
            "no built-in scheduler 'Medianstop'; valid names are ASHA, HyperBand",
        ),
        ("scheduler", "asha", {"stop": "yes"}, "the argument stop of ASHA must be true or false, not 'yes'"),
        ("scheduler", "hyperband", {"min_budget": 82}, "min_budget (82) must not be greater than max_budget"),
        ("scheduler", "PBT", {"quantile_fraction": 0.6}, "above 0 and at most 0.5, not 0.6"),
        ("scheduler", "PBT", {"perturbation_factors": []}, "must be a list of numbers above 0, not []"),
        ("scheduler", "PBT", {"synchronous": True}, "needs population_size, the number of trials that wait"),
        ("scheduler", "PB2", {"mutations": []}, "must be null, or a mapping of parameters to lists or to"),
        ("scheduler", "PBT", {"mutations": {"lr": []}}, "must hold at least one option"),
        ("scheduler", "PBTReplay", {}, "PBTReplay needs the argument schedule"),
        ("scheduler", "PBTReplay", {"schedule": "s.yml"}, "must be a list of {reports, parameters}, not"),
        ("scheduler", "PBTReplay", {"schedule": [{"reports": 1}]}, "(item 1 is another mapping)"),
        (
            "scheduler",
            "PBTReplay",
            {"schedule": [{"reports": -1, "parameters": {}}]},
            "must have an integer of at least 0 as reports in its item 1",
        ),
        (
            "scheduler",
            "PBTReplay",
            {"schedule": [{"reports": 4, "parameters": {}}, {"reports": 4, "parameters": {}}]},
            "in the order of reports: those of item 2 are not above 4",
        ),
        (
            "scheduler",
            "PBTReplay",
            {"schedule": [{"reports": 4, "parameters": []}]},
            "must have a mapping as parameters in its item 1",
        ),
    ],
)
def test_what_is_wrong_is_said_before_the_start(
    role: str, name: str, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(registry.AlgorithmError) as caught:
        registry.check(role, name, arguments)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        (
            "PPO",
            "ppo_tuner.PPOTuner",
            "PPO searches architectures of NNI's NAS, which nnimgr leaves out; use TPE",
        ),
        (
            "NetworkMorphismTuner",
            "networkmorphism_tuner.NetworkMorphismTuner",
            "NetworkMorphism grows networks of NNI's NAS, which nnimgr leaves out; use TPE or Evolution over",
        ),
        (
            "regularizedevolutiontuner",
            "regularized_evolution_tuner.RegularizedEvolutionTuner",
            "RegularizedEvolution searches architectures of NNI's NAS, which nnimgr leaves out; use",
        ),
        ("dngo", "dngo_tuner.DNGOTuner", "nnimgr does not have DNGO; use GP, or TPE where there are many"),
    ],
)
def test_what_is_left_out_says_what_to_use_instead(name: str, path: str, told: str) -> None:
    with pytest.raises(registry.AlgorithmError) as caught:
        registry.check("tuner", name, {"anything": 1})
    assert str(caught.value).startswith(told) and caught.value.path == ("name",)
    with pytest.raises(registry.AlgorithmError) as caught:
        registry.check_class("tuner", f"nni.algorithms.hpo.{path}", {"anything": 1})
    assert str(caught.value).startswith(told) and caught.value.path == ("className",)
    registry.check_class("tuner", f"nni.algorithms.hpo.{path}", {}, code_directory="/mine")


@pytest.mark.parametrize("builtin", registry.BUILTINS, ids=lambda builtin: str(builtin.name))
def test_a_built_in_may_be_named_by_its_class(builtin: registry.Builtin) -> None:
    """NNI's name and ours lead to the same class.

    If user code has such a module, the name means the user's class.
    """
    for path in builtin.class_paths:
        assert registry.load(path) is registry.load(builtin.target)
        assert built_in(builtin.role, name=None, class_name=path) is builtin
        own = built_in(builtin.role, name=None, class_name=path, code_directory="/mine")
        assert own is None
    with pytest.raises(registry.AlgorithmError, match=f"{builtin.name} takes no argument 'nonsense'"):
        registry.check_class(builtin.role, builtin.class_paths[-1], {"nonsense": 1})


def test_every_class_that_nni_has_under_its_own_path_is_a_built_in_or_says_why_not() -> None:
    paths = {path for builtin in registry.BUILTINS for path in builtin.class_paths}
    for found in pkgutil.iter_modules(hpo.__path__):
        module = importlib.import_module(f"nni.algorithms.hpo.{found.name}")
        for name in module.__all__:
            kind = getattr(module, name)
            # HyperoptTuner stands for several algorithms, and its arguments choose one.
            if isinstance(kind, type) and issubclass(kind, Tuner | Assessor) and name != "HyperoptTuner":
                if f"{module.__name__}.{name}" not in paths:
                    with pytest.raises(registry.AlgorithmError, match=name.removesuffix("Tuner")):
                        kind()


def test_what_is_wrong_within_an_argument_is_pointed_at() -> None:
    with pytest.raises(registry.AlgorithmError) as caught:
        registry.check("tuner", "TPE", {"tpe_args": {"n_startup_jobs": -1}})
    assert caught.value.path == ("classArgs", "tpe_args", "n_startup_jobs")


def test_several_objectives_are_for_tuners_that_can() -> None:
    for name in ("Random", "GridSearch", "Batch", "NSGA2", "Optuna"):
        registry.check("tuner", name, {}, several=True)
    registry.check("assessor", "Medianstop", {}, several=True)
    registry.check("tuner", "Optuna", {"sampler": "nsgaiii"}, several=True)
    registry.check("tuner", "Optuna", {"sampler": "CmaEs"})
    with pytest.raises(
        registry.AlgorithmError, match="TPE optimizes one objective; several can be"
    ) as caught:
        registry.check("tuner", "tpe", {}, several=True)
    assert caught.value.path == ("name",) and "NSGA2, Optuna" in str(caught.value)
    with pytest.raises(registry.AlgorithmError, match="CmaEsSampler optimizes one objective") as caught:
        registry.check("tuner", "Optuna", {"sampler": "cma-es"}, several=True)
    assert caught.value.path == ("classArgs", "sampler")


def test_a_space_that_is_none_for_the_tuner() -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 1]}}
    with pytest.raises(registry.AlgorithmError, match="exactly one parameter, combine_params") as caught:
        registry.check_space("tuner", "BATCH", space)
    assert caught.value.path == ()
    with pytest.raises(registry.AlgorithmError, match="GridSearch needs at least one parameter"):
        registry.check_space("tuner", "gridsearch", {})
    registry.check_space("tuner", "Random", {})
    registry.check_space("tuner", "batch", {"p": {"_type": "choice", "_value": [{"x": 1}]}})


def test_what_is_right_passes() -> None:
    registry.check("tuner", "RANDOM", {"optimize_mode": "maximize", "seed": None})
    registry.check("tuner", "Tpe", {"tpe_args": None})
    arguments: dict[str, Any] = {"constant_liar_type": None, "n_startup_jobs": 0, "n_ei_candidates": 1}
    arguments |= {"linear_forgetting": 1, "prior_weight": 0, "gamma": 0.5}
    registry.check("tuner", "tpe", {"seed": 3, "tpe_args": arguments})
    registry.check("tuner", "gp", {"kappa": 5, "xi": 0, "nu": 2, "alpha": 1, "utility": "poi"})
    registry.check("tuner", "metistuner", {"exploration_probability": 1, "no_resampling": False})
    registry.check("tuner", "gridsearch", {"optimize_mode": "minimize"})
    registry.check("assessor", "medianstop", {"start_step": 5})


def test_a_class_must_be_named_with_its_module() -> None:
    with pytest.raises(registry.AlgorithmError, match=r'"module\.Class", not \'Mine\''):
        registry.load("Mine")
