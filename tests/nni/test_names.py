"""Names that user code imports from NNI's modules."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nni
from nni.common import framework, serializer, version
from nni.common.hpo_utils import Deduplicator, deformat_parameters, format_search_space
from nni.experiment.config.utils import get_base_path, set_base_path, unset_base_path
from nnimgr.algorithm import NoMoreTrialError

ALGORITHMS = "nni.algorithms.hpo."
CONFIG = "nni.experiment.config."
NAMES = {
    "nni": "Experiment NoMoreTrialError ClassArgsValidator trace dump load choice uniform qnormal "
    "silence_stdout enable_global_logging set_default_framework get_default_framework dispatcher_env_vars",
    "nni.version": "__version__",
    "nni.trial": "overwrite_intermediate_seq get_next_parameter report_final_result",
    "nni.mutable": "Mutable LabeledMutable Categorical Numerical SampleValidationError",
    "nni.mutable.shortcut": "choice quniform",
    "nni.common": "trace dump load",
    "nni.common.framework": "shortcut_module shortcut_framework DEFAULT_FRAMEWORK framework_from_env",
    "nni.common.serializer": "trace dump load is_traceable is_wrapped_with_trace PayloadTooLarge Traceable "
    "SerializableObject",
    ALGORITHMS + "curvefitting_assessor.model_factory": "CurveModel",
    ALGORITHMS + "curvefitting_assessor.curvefitting_assessor": "CurvefittingAssessor",
    "nni.common.version": "version_dump version_check torch_version_is_2",
    "nni.common.hpo_utils.formatting": "FormattedParameters FormattedSearchSpace ParameterKey ParameterSpec",
    "nni.common.hpo_utils.optimize_mode": "OptimizeMode",
    "nni.common.hpo_utils.validation": "common_search_space_types validate_search_space",
    "nni.runtime.config": "get_config_file get_builtin_config_file get_config_directory",
    "nni.runtime.command_channel.base": "Command CommandChannel",
    "nni.runtime.command_channel.http": "HttpChannel",
    "nni.runtime.command_channel.websocket": "WsChannelClient",
    "nni.runtime.trial_command_channel.v3": "TrialCommandChannelV3",
    ALGORITHMS + "tpe_tuner": "TpeTuner TpeArguments",
    ALGORITHMS + "random_tuner": "RandomTuner RandomClassArgsValidator suggest suggest_parameter",
    ALGORITHMS + "evolution_tuner": "EvolutionTuner EvolutionClassArgsValidator",
    ALGORITHMS + "hyperopt_tuner": "HyperoptTuner HyperoptClassArgsValidator",
    ALGORITHMS + "gp_tuner": "GPTuner GPClassArgsValidator",
    ALGORITHMS + "metis_tuner": "MetisTuner MetisClassArgsValidator",
    ALGORITHMS + "pbt_tuner": "PBTTuner PBTClassArgsValidator",
    ALGORITHMS + "smac_tuner": "SMACTuner SMACClassArgsValidator",
    ALGORITHMS + "bohb_advisor": "BOHB BOHBClassArgsValidator",
    ALGORITHMS + "hyperband_advisor": "Hyperband HyperbandClassArgsValidator",
    ALGORITHMS + "medianstop_assessor": "MedianstopAssessor MedianstopClassArgsValidator",
    ALGORITHMS + "curvefitting_assessor": "CurvefittingAssessor CurvefittingClassArgsValidator",
    "nni.tools.package_utils": "AlgoMeta get_algo_meta create_builtin_class_instance",
    "nni.tools.package_utils.tuner_factory": "create_validator_instance get_builtin_module_class_name",
    "nni.tools.nnictl.constants": "NNI_HOME_DIR REST_TIME_OUT DEFAULT_REST_PORT",
    "nni.tools.nnictl.nnictl": "parse_args",
    "nni.tools.nnictl.nnictl_utils": "experiment_clean export_trials_data get_config log_trial webui_url",
    "nni.tools.nnictl.algo_management": "algo_reg algo_unreg algo_show algo_list",
    "nni.tools.nnictl.ts_management": "register unregister list_services",
    "nni.tools.nnictl.hello": "create_example",
    "nni.experiment": "Experiment RunMode ExperimentConfig AlgorithmConfig CustomAlgorithmConfig LocalConfig "
    "RemoteConfig RemoteMachineConfig KubeflowConfig NfsConfig AzureBlobConfig TrialJob TrialResult",
    "nni.experiment.launcher": "get_stopped_experiment_config get_stopped_experiment_config_json RunMode",
    "nni.experiment.management": "generate_experiment_id is_valid_experiment_id create_experiment_directory",
    "nni.experiment.rest": "get post put delete request",
    CONFIG + "training_services": "LocalConfig RemoteConfig DlcConfig",
    CONFIG + "training_services.local": "LocalConfig",
    CONFIG + "training_services.remote": "RemoteConfig RemoteMachineConfig",
    CONFIG + "training_services.kubeflow": "KubeflowConfig KubeflowRoleConfig",
    CONFIG
    + "training_services.frameworkcontroller": "FrameworkControllerConfig FrameworkControllerRoleConfig",
    CONFIG + "training_services.openpai": "OpenpaiConfig",
    CONFIG + "training_services.aml": "AmlConfig",
    CONFIG + "training_services.dlc": "DlcConfig",
    CONFIG + "training_services.k8s_storage": "K8sStorageConfig K8sNfsConfig K8sAzureStorageConfig",
    CONFIG + "utils": "PathLike is_missing parse_time parse_memory_size canonical_gpu_indices camel_case "
    "case_insensitive resolve_path get_base_path set_base_path unset_base_path get_ipv4_address",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_module_has_its_names(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    assert [name for name in getattr(found, "__all__", ()) if not hasattr(found, name)] == []


@pytest.mark.parametrize(
    "module", ["nas", "nas.nn.pytorch", "retiarii", "compression", "feature_engineering"]
)
def test_the_import_of_a_module_that_is_left_out_says_what_to_use(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"is not a part of nnimgr: (search|use) .* instead"):
        importlib.import_module(f"nni.{module}")
    with pytest.raises(AttributeError, match="is not a part of nnimgr"):
        getattr(nni, module.partition(".")[0])


@pytest.mark.parametrize(
    ("module", "tuner", "validator"),
    [
        ("regularized_evolution_tuner", "RegularizedEvolutionTuner", "EvolutionClassArgsValidator"),
        ("ppo_tuner", "PPOTuner", "PPOClassArgsValidator"),
        ("networkmorphism_tuner", "NetworkMorphismTuner", "NetworkMorphismClassArgsValidator"),
        ("dngo_tuner", "DNGOTuner", "DNGOClassArgsValidator"),
    ],
)
def test_a_tuner_that_is_left_out_says_what_to_use(module: str, tuner: str, validator: str) -> None:
    found: Any = importlib.import_module(ALGORITHMS + module)
    with pytest.raises(ValueError, match="; use "):
        getattr(found, tuner)(optimize_mode="maximize")
    with pytest.raises(ValueError, match="; use "):
        getattr(found, validator)().validate_class_args(optimize_mode="maximize")


def test_validators_of_arguments() -> None:
    evolution: Any = importlib.import_module(ALGORITHMS + "evolution_tuner")
    validator = evolution.EvolutionClassArgsValidator()
    validator.validate_class_args(optimize_mode="maximize", population_size=3)
    with pytest.raises(ValueError, match="population_size of Evolution"):
        validator.validate_class_args(population_size="many")
    hyperopt: Any = importlib.import_module(ALGORITHMS + "hyperopt_tuner")
    hyperopt.HyperoptClassArgsValidator().validate_class_args(algorithm_name="tpe", parallel_optimize=True)


def test_random_sets_of_a_formatted_space() -> None:
    random_tuner: Any = importlib.import_module(ALGORITHMS + "random_tuner")
    table = format_search_space(
        {
            "x": {"_type": "choice", "_value": ["a", "b"]},
            "y": {"_type": "quniform", "_value": [0, 1, 0.6]},
            "z": {"_type": "normal", "_value": [1, 0]},
            "n": {"_type": "choice", "_value": [{"_name": "A"}]},
        }
    )
    unique, found = Deduplicator(table), []
    with pytest.raises(NoMoreTrialError):
        for _ in range(7):
            drawn = unique(random_tuner.suggest(np.random.default_rng(0), table))
            found.append(deformat_parameters(drawn, table))
    nested = {"z": 1.0, "n": {"_name": "A"}}
    expected = [{"x": x, "y": y, **nested} for x in "ab" for y in (0.0, 0.6, 1.0)]
    assert sorted(found, key=lambda each: (each["x"], each["y"])) == expected


def test_versions() -> None:
    found = version.version_dump()
    assert {"python", "numpy", "torch", "cloudpickle", "json_tricks", "pyyaml", "nni"} <= found.keys()
    assert found["python"] == sys.version_info[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        version.version_check({**found, "unknown": None})
    with pytest.warns(UserWarning, match=r"nni \(99, 9\) is expected, not"):
        version.version_check({"nni": [99, 9]})
    with pytest.raises(RuntimeError, match=r"python \(2, 7\)"):
        version.version_check({"python": (2, 7)}, raise_error=True)


def test_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "DEFAULT_FRAMEWORK", "pytorch")
    nni.set_default_framework("tensorflow")
    assert nni.get_default_framework() == "tensorflow"
    nni.set_default_framework(None)
    assert nni.get_default_framework() == "none"
    with pytest.raises(ValueError, match="'jax' must be one of"):
        nni.set_default_framework("jax")


def test_names_of_symbols() -> None:
    for symbol in (Path, len, lambda: 3):
        name = serializer.get_hybrid_cls_or_func_name(symbol)
        found = serializer.import_cls_or_func_from_hybrid_name(name)
        assert found is symbol or found() == 3


def test_a_curve() -> None:
    factory: Any = importlib.import_module(ALGORITHMS + "curvefitting_assessor.model_factory")
    assert (
        factory.CurveModel(20).predict([1, 1, 1, 1, 1]) == 1 and factory.CurveModel(20).predict([1]) is None
    )


def test_ids_of_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nni.experiment import launcher, management

    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path))
    made = management.generate_experiment_id()
    assert management.is_valid_experiment_id(made) and not management.is_valid_experiment_id("a/b")
    assert management.create_experiment_directory(made) == tmp_path / made and (tmp_path / made).is_dir()
    assert launcher.get_stopped_experiment_config_json(made) is None
    with pytest.raises(RuntimeError, match=f"There is no experiment {made}"):
        launcher.get_stopped_experiment_config(made)


def test_what_trace_has_wrapped() -> None:
    class Plain:
        pass

    assert not serializer.is_wrapped_with_trace(Plain)
    assert serializer.is_wrapped_with_trace(nni.trace(Plain))


def test_relative_paths_start_from_the_base_path(tmp_path: Path) -> None:
    from nni.experiment import ExperimentConfig

    config = ExperimentConfig("local")
    config.search_space, config.trial_command, config.trial_concurrency = {"a": 1}, "true", 1
    assert config.tuner is not None
    config.tuner.name, config.trial_code_directory = "Random", "code"
    (tmp_path / "code").mkdir()
    set_base_path(tmp_path)
    try:
        assert get_base_path() == tmp_path
        assert config.json()["trialCodeDirectory"] == str((tmp_path / "code").resolve())
        with pytest.raises(AssertionError, match="call unset_base_path"):
            set_base_path(tmp_path)
    finally:
        unset_base_path()
    assert get_base_path() == Path()


def test_import_nni_loads_nothing_else() -> None:
    heavy = "json re logging importlib.util nnimgr nni.experiment nni.common".split()
    code = f"import sys, nni; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {_ROOT!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


_ROOT = str(Path(nni.__file__).parents[1])
