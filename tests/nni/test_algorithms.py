"""Names that NNI's own algorithms and trials import."""

from __future__ import annotations

import argparse
import importlib
import math
import random
from typing import Any

import pytest

from nni import parameter_expressions as draw
from nni.algorithms.hpo.hyperopt_tuner import HyperoptTuner
from nni.utils import convert_dict2tuple, json2parameter, json2space, merge_parameter, split_index


@pytest.mark.parametrize(
    ("path", "name", "home"),
    [
        ("nni.tuner", "Tuner", "nnimgr.algorithm"),
        ("nni.assessor", "Assessor", "nnimgr.algorithm"),
        ("nni.assessor", "AssessResult", "nnimgr.algorithm"),
        ("nni.recoverable", "Recoverable", "nnimgr.algorithm"),
        ("nni.utils", "OptimizeMode", "nnimgr.algorithm"),
        ("nni.utils", "extract_scalar_reward", "nnimgr.algorithm"),
        ("nni.utils", "extract_scalar_history", "nnimgr.algorithm"),
        ("nni.utils", "ClassArgsValidator", "nnimgr.algorithm"),
        ("nni.algorithms.hpo.tpe_tuner", "TpeTuner", "nnimgr.tuners.tpe"),
        ("nni.algorithms.hpo.tpe_tuner", "TpeArguments", "nnimgr.tuners.tpe_arguments"),
        ("nni.algorithms.hpo.gridsearch_tuner", "GridSearchTuner", "nnimgr.tuners.gridsearch"),
        ("nni.algorithms.hpo.batch_tuner", "BatchTuner", "nnimgr.tuners.batch"),
        ("nni.algorithms.hpo.random_tuner", "RandomTuner", "nnimgr.tuners.random"),
        ("nni.algorithms.hpo.gp_tuner", "GPTuner", "nnimgr.tuners.gp"),
        ("nni.algorithms.hpo.metis_tuner", "MetisTuner", "nnimgr.tuners.metis"),
        ("nni.algorithms.hpo.evolution_tuner", "EvolutionTuner", "nnimgr.tuners.evolution"),
        ("nni.algorithms.hpo.smac_tuner", "SMACTuner", "nnimgr.tuners.smac"),
        ("nni.algorithms.hpo.medianstop_assessor", "MedianstopAssessor", "nnimgr.assessors.medianstop"),
        ("nni.algorithms.hpo.curvefitting_assessor", "CurvefittingAssessor", "nnimgr.assessors.curvefitting"),
        ("nni.algorithms.hpo.pbt_tuner", "PBTTuner", "nnimgr.tuners.pbt"),
        ("nni.algorithms.hpo.hyperband_advisor", "Hyperband", "nnimgr.tuners.hyperband"),
        ("nni.algorithms.hpo.bohb_advisor", "BOHB", "nnimgr.tuners.bohb"),
    ],
)
def test_nni_paths_lead_home(path: str, name: str, home: str) -> None:
    assert getattr(importlib.import_module(path), name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize(
    ("algorithm", "made"),
    [("tpe", "TpeLegacyTuner"), ("anneal", "AnnealTuner"), ("random_search", "RandomTuner")],
)
def test_what_came_from_hyperopt_has_one_path(algorithm: str, made: str) -> None:
    tuner = HyperoptTuner(algorithm, optimize_mode="maximize", parallel_optimize=True)
    assert type(tuner).__name__ == made
    tuner.update_search_space({"x": {"_type": "uniform", "_value": [0, 1]}})
    assert 0 <= tuner.generate_parameters(0)["x"] <= 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"algorithm_name": "annea"}, "must be one of tpe, random_search, anneal, not 'annea'"),
        ({"algorithm_name": "tpe", "constant_liar_type": "best"}, "one of min, max, mean, not 'best'"),
        ({"algorithm_name": "tpe", "optimize_mode": "max"}, "'max' is not a valid OptimizeMode"),
    ],
)
def test_what_hyperopts_path_does_not_take(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        HyperoptTuner(**arguments)


def test_parameters_are_merged_into_a_dict_or_a_namespace() -> None:
    base: dict[str, Any] = {"lr": 0.1, "layers": 2, "act": None}
    assert merge_parameter(base, {"lr": 1, "act": "relu"}) is base
    assert base == {"lr": 1, "layers": 2, "act": "relu"}
    arguments = argparse.Namespace(lr=0.1)
    assert merge_parameter(arguments, {"lr": 0.2}).lr == 0.2
    assert merge_parameter(arguments, None) is arguments


@pytest.mark.parametrize("override", [{"rate": 1}, {"layers": 2.5}, {"lr": "0.1"}, {"layers": True}])
def test_what_does_not_fit_the_base_is_refused(override: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(override))):
        merge_parameter({"lr": 0.1, "layers": 2}, override)


NESTED = {
    "lr": {"_type": "uniform", "_value": [0, 1]},
    "layer": {
        "_type": "choice",
        "_value": [{"_name": "conv", "size": {"_type": "randint", "_value": [1, 9]}}, {"_name": "none"}],
    },
}
PATHS = ["root[lr]-uniform", "root[layer]-choice[0][size]-randint", "root[layer]-choice"]


def test_the_paths_of_a_search_space() -> None:
    assert json2space(NESTED) == PATHS
    held = {"lr": 0.5, "layer": {"_index": 1, "_value": {"_name": "none"}}}
    assert json2space(NESTED, held) == ["root[lr]-uniform", "root[layer]-choice"]
    assert json2space({"x": {"_type": "choice", "_value": [1, "a"]}}) == ["root[x]-choice"]
    with pytest.raises(RuntimeError, match='has no "_name"'):
        json2space({"x": {"_type": "choice", "_value": [{"size": 1}]}})


def test_a_parameter_set_is_drawn_where_it_is_marked_and_kept_elsewhere() -> None:
    everything = json2parameter(NESTED, dict.fromkeys(PATHS, True), State())
    assert 0 <= everything["lr"] <= 1
    assert everything["layer"]["_value"]["_name"] == ("conv", "none")[everything["layer"]["_index"]]
    held = {"lr": 0.5, "layer": {"_index": 0, "_value": {"_name": "conv", "size": 3}}}
    kept = json2parameter(NESTED, dict.fromkeys(PATHS, False), State(), held)
    assert kept == held and kept["layer"] is not held["layer"]
    changed = json2parameter(NESTED, {**dict.fromkeys(PATHS, False), PATHS[0]: True}, State(), held)
    assert changed["lr"] != 0.5 and changed["layer"] == held["layer"]


def test_indices_can_be_taken_out_and_mappings_hashed() -> None:
    held = {"lr": 0.5, "layer": {"_index": 0, "_value": {"_name": "conv", "size": 3}}}
    plain = {"lr": 0.5, "layer": {"_name": "conv", "size": 3}}
    assert split_index(held) == plain
    assert convert_dict2tuple(plain) == (("layer", (("_name", "conv"), ("size", 3))), ("lr", 0.5))


class State:
    """The part of numpy's RandomState that is used."""

    def __init__(self) -> None:
        self._rng = random.Random(3)

    def randint(self, low: int, high: int | None = None) -> int:
        low, high = (0, low) if high is None else (low, high)
        return self._rng.randrange(low, high)

    def uniform(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)

    def normal(self, loc: float, scale: float) -> float:
        return self._rng.normalvariate(loc, scale)


def test_one_value_of_each_type() -> None:
    state = State()
    for _ in range(50):
        assert draw.choice(["a", 1], state) in ("a", 1)
        assert draw.randint(2, 4, state) in (2, 3)
        assert 1 <= draw.uniform(1, 2, state) <= 2
        assert draw.quniform(0.3, 2.2, 1, state) in (0.3, 1, 2)
        assert 1 <= draw.loguniform(1, 8, state) <= 8.000001
        assert draw.qloguniform(1, 8, 4, state) in (1, 4, 8)
        assert math.isfinite(draw.normal(0, 1, state))
        assert draw.qnormal(0, 1, 0.5, state) % 0.5 == 0
        assert draw.lognormal(0, 1, state) > 0
        assert draw.qlognormal(0, 1, 2, state) % 2 == 0
    with pytest.raises(ValueError, match="the upper bound 1 is less than the lower bound 2"):
        draw.uniform(2, 1, state)
    with pytest.raises(ValueError, match="must be greater than 0"):
        draw.loguniform(0, 1, state)
