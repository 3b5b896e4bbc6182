"""What a user may say of allocations in a Ray cluster, and the job that is made of it."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nnimgr.config import ConfigError, load_config
from training_services.addresses import Reach
from training_services.allocations.faults import faults
from training_services.placement.needs import Wants
from training_services.ray.config import RayConfig
from training_services.ray.submission import provision, resources_of, size_of, submission

ADDRESS = {"address": "http://head:8265"}
NOTHING = Wants(None, None, None)
REACH = Reach(["https://10.0.0.1:7000"], "ab" * 32, None)


def made(**settings: Any) -> RayConfig:
    return RayConfig.model_validate({**ADDRESS, "token": "t", **settings})


def body(config: RayConfig, wants: Wants = NOTHING) -> dict[str, Any]:
    return submission(
        config,
        ray_id="nnimgr-e-p1-0",
        experiment_id="e",
        keeper_id="e-p1",
        wants=wants,
        reach=REACH,
        ticket="once",
    )


def provided(config: RayConfig, wants: Wants = NOTHING) -> dict[str, Any]:
    return provision(
        config,
        experiment_id="e",
        keeper_id="e-p1",
        wants=wants,
        launch="l",
        manager={"token": "lasting"},
        program=b"zip",
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"address": "head:8265"}, "must be the address of Ray's dashboard, as in http://head:8265"),
        ({"address": "ray://head:10001"}, "must be the address of Ray's dashboard"),
        ({"address": "http://user:secret@head"}, "must be the address of Ray's dashboard"),
        ({"token": None}, "give the cluster's token as 'token' or 'tokenFile'"),
        ({"token": None}, "CVE-2023-48022"),
        ({"tokenFile": Path("/file")}, "give either 'token' or 'tokenFile', not both"),
        ({"resources": {"CPU": 2.0}}, "CPU cannot be given here: give cpus instead"),
        ({"resources": {"x": 0.0}}, "'x' needs a number above 0, not 0"),
        ({"runtimeEnv": {"working_dir": "."}}, "working_dir cannot be given: nnimgr copies"),
        ({"runtimeEnv": {"env_vars": {"N": 1}}}, "env_vars must be a mapping of names to texts"),
        ({"perTrial": True, "maxAllocations": 2}, "has no effect with 'perTrial'"),
        ({"python": "python3; rm"}, "must be the name or the full path of a Python"),
        ({"workDirectory": "relative"}, "must be an absolute path"),
    ],
)
def test_what_may_not_be_said(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        made(**settings)
    assert sentence in str(refused.value)


def test_a_cluster_without_a_token_has_to_be_accepted() -> None:
    assert RayConfig.model_validate({**ADDRESS, "insecure": True}).token is None


def test_allocations_too_small_for_a_trial_are_errors() -> None:
    config = made(cpus=2, memory="1gb", gpus=1)
    assert [fault.path for fault in faults(config, Wants(2, 4, 5000))] == [("cpus",), ("memory",), ("gpus",)]
    assert not list(faults(config, Wants(1, 2, 1000)))


def test_trials_beside_each_other_need_a_number_of_gpus() -> None:
    [fault] = faults(made(gpus=2), NOTHING)
    assert "give trialGpuNumber" in fault.sentence
    assert not list(faults(made(gpus=2, perTrial=True), NOTHING))


def test_a_file_names_the_token(tmp_path: Path) -> None:
    text = """
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 trial.py
trialCodeDirectory: .
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
trainingService: {platform: ray, address: "http://head:8265", tokenFile: token}
"""
    (tmp_path / "exp.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"tokenFile: the file .*token does not exist"):
        load_config(tmp_path / "exp.yml")
    (tmp_path / "token").write_text("t")
    service = load_config(tmp_path / "exp.yml").config.training_service
    assert isinstance(service, RayConfig) and service.token_file == tmp_path / "token"


def test_a_job_has_the_resources_of_its_allocation() -> None:
    job = body(made(cpus=4, memory="2gb", resources={"x": 0.5}, labels={"a": "b"}), Wants(0.5, 1, 100))
    assert job["entrypoint_num_cpus"] == 4
    assert job["entrypoint_num_gpus"] == 0.5
    assert job["entrypoint_memory"] == 2048 << 20
    assert job["entrypoint_resources"] == {"x": 0.5}
    assert job["entrypoint_label_selector"] == {"a": "b"}
    assert "runtime_env" not in job


def test_a_job_without_needs_is_not_bound_to_the_head_node() -> None:
    assert body(made())["entrypoint_num_cpus"] == 1
    assert resources_of(made(), size_of(made(), NOTHING)) == {"CPU": 1}


def test_a_job_shows_no_lasting_token() -> None:
    config = made(setup="module load x", runtimeEnv={"pip": ["torch"]})
    job = body(config)
    setup, _, command = job["entrypoint"].partition("\n")
    assert setup == "module load x"
    words = shlex.split(command)
    assert words[:5] == ["exec", "python3", "-S", "-E", "-c"]
    order = json.loads(base64.b64decode(words[-1]))
    assert order["urls"] == ["https://10.0.0.1:7000/keepers/v1/e/e-p1/enrol"]
    assert order["ticket"] == "once"
    assert "lasting" not in json.dumps(job)
    assert provided(config)["manager"] == {"token": "lasting"}


def test_trials_get_no_variable_of_ray_unless_it_is_given() -> None:
    answer = provided(made(runtimeEnv={"env_vars": {"OMP_NUM_THREADS": "8"}}, gpus=1))
    assert "RAY_" in answer["unset"] and "OMP_NUM_THREADS" in answer["unset"]
    assert answer["keep"] == ["OMP_NUM_THREADS"]
    assert answer["copied"]["NNIMGR_HOST_GPUS"] == "CUDA_VISIBLE_DEVICES"
    assert "NNIMGR_HOST_GPUS" not in provided(made())["copied"]
    assert provided(made(orphanedAfter="1h"))["environment"]["NNIMGR_KEEPER_ORPHAN_S"] == "3600"
