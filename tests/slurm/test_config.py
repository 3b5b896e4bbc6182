"""What a user may say of allocations, and the script that is made of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nnimgr.config import ConfigError, load_config
from training_services.allocations.faults import faults
from training_services.base import ServiceUnavailable
from training_services.keepers.caller import address_of
from training_services.placement.needs import Wants
from training_services.slurm import commands
from training_services.slurm.commands import LocalCommands
from training_services.slurm.config import SlurmConfig
from training_services.slurm.script import Naming, launch_of, script

NAMING = Naming("nnimgr-e-p1", "nnimgr db")
NOTHING = Wants(None, None, None)


def made(**settings: Any) -> SlurmConfig:
    return SlurmConfig.model_validate({"timeLimit": "4h", **settings})


def text(config: SlurmConfig, wants: Wants = NOTHING, archive: bytes = b"zip") -> str:
    return script(
        config,
        NAMING,
        experiment_id="e",
        keeper_id="e-p1",
        command="python3 'my trial.py'",
        wants=wants,
        grace=timedelta(seconds=5),
        manager='{"token": "t"}',
        archive=archive,
    )


def options(config: SlurmConfig, wants: Wants = NOTHING) -> list[str]:
    lines = text(config, wants).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"signalBefore": "30s"}, "must be at least 90 s"),
        ({"timeLimit": "2m"}, "one minute longer than 'signalBefore'"),
        ({"gpus": "a100"}, "a kind and a number, as in a100:4"),
        ({"partition": "a b"}, "a name without spaces"),
        ({"extra": ["--requeue"]}, "--requeue cannot be given"),
        ({"extra": ["-x n1"]}, "must be a long option of sbatch"),
        ({"perTrial": True, "maxAllocations": 2}, "has no effect with 'perTrial'"),
        ({"python": "python3; rm"}, "must be the name or the full path of a Python"),
        ({"logs": "relative"}, "must be an absolute path"),
        ({"constraint": "a\nb"}, "must be one line"),
        ({"login": {"host": "a b"}}, "is not the name or the address of a machine"),
        ({"partitions": "x"}, "Extra inputs"),
    ],
)
def test_wrong_fields_are_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        made(**settings)


def test_an_allocation_has_to_be_large_enough_for_a_trial() -> None:
    config = made(cpus=2, memory="1gb", gpus="a100:1")
    found = {fault.path[0]: fault.sentence for fault in faults(config, Wants(2, 4, 2048))}
    assert found["cpus"] == "an allocation has 2 CPUs, less than the 4 CPUs of trialCpuNumber"
    assert found["memory"] == "an allocation has 1 GiB, less than the 2 GiB of trialMemorySize"
    assert found["gpus"] == "an allocation has 1 GPU, less than the 2 GPUs of trialGpuNumber"
    assert [fault.path for fault in faults(config, NOTHING)] == [("gpus",)]
    assert list(faults(made(cpus=4), Wants(None, 2, None))) == []


EXPERIMENT = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 trial.py
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
"""


def refused(tmp_path: Path, more: str) -> list[str]:
    (tmp_path / "exp.yml").write_text(EXPERIMENT + more)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "exp.yml")
    return [str(problem) for problem in caught.value.problems]


def test_members_of_gangs_share_no_allocations(tmp_path: Path) -> None:
    both = "trainingService: {platform: slurm, timeLimit: 1h, maxAllocations: 2}\ngang: {nodes: 2}\n"
    (fault,) = refused(tmp_path, both)
    assert fault.removeprefix(str(tmp_path)) == (
        "/exp.yml:7:8: gang.nodes: cannot be used with maxAllocations: "
        "each member has an allocation of its own"
    )


def test_the_script_asks_for_what_the_configuration_says() -> None:
    config = made(
        partition="gpu", account="lab", qos="high", constraint="a100&nvme", gpus="a100:4", cpus=16,
        memory="64gb", extra=["--exclusive"], logs="/scratch/logs",
    )  # fmt: skip
    assert options(config) == [
        "--job-name=nnimgr-e-p1", '--comment="nnimgr db"', "--no-requeue", "--export=NONE", "--nodes=1",
        "--ntasks=1", "--cpus-per-task=16", "--mem=65536M", "--gres=gpu:a100:4", "--time=240",
        "--signal=B:USR1@120", "--output=/scratch/logs/%x-%j.log", "--partition=gpu", "--account=lab",
        "--qos=high", '--constraint="a100&nvme"', "--exclusive",
    ]  # fmt: skip


def test_without_sizes_an_allocation_gets_what_a_trial_needs() -> None:
    found = options(made(), Wants(0.5, 3.5, 512))
    assert {"--cpus-per-task=4", "--mem=512M", "--gres=gpu:1", "--output=/dev/null"} <= set(found)
    assert not any(option.startswith(("--mem", "--gres")) for option in options(made()))


def test_the_script_starts_the_keeper_that_it_brings(tmp_path: Path) -> None:
    program = b"import os, sys; print(sys.argv[1:], os.environ['GREETING'], os.environ['NNIMGR_POD_UID'])"
    config = made(python=sys.executable, setup="export GREETING=hello", workDirectory=str(tmp_path))
    done = subprocess.run(
        ["sh"], input=text(config, archive=program), capture_output=True, text=True, check=True,
        env={**os.environ, "SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "2"},
    )  # fmt: skip
    (work,) = tmp_path.iterdir()
    assert (work / "manager" / "manager.json").read_text() == '{"token": "t"}\n'
    assert (work / "keeper.pyz").read_bytes() == program
    assert oct(work.stat().st_mode)[-3:] == "700"
    launch = work.name.rpartition("-")[2]
    wrap = ["wrap", f"{work}/manager", f"{work}/run"]
    assert done.stdout == f"{wrap} hello slurm:7:{launch}\n"
    assert base64.b64encode(program).decode() not in done.stderr


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("fields", "code"), [({"setup": "exit 3"}, 3), ({"python": "nowhere"}, 127), ({"setup": "work=/x"}, 0)]
)
def test_a_script_that_fails_leaves_nothing_on_the_node(
    tmp_path: Path, shell: str, fields: dict[str, str], code: int
) -> None:
    config = made(**{"python": sys.executable, "workDirectory": str(tmp_path), **fields})
    done = subprocess.run(
        [shell], input=text(config, archive=b"pass"), capture_output=True, text=True, check=False,
        env={**os.environ, "SLURM_JOB_ID": "7"},
    )  # fmt: skip
    assert (done.returncode, bool(list(tmp_path.iterdir()))) == (code, code == 0)


def test_variables_of_sbatch_give_what_the_configuration_leaves_open() -> None:
    environ = {"SBATCH_ACCOUNT": "lab", "SBATCH_PARTITION": "gpu", "SBATCH_TIMELIMIT": "3"}
    config = made(partition="cpu").in_environment(environ)
    assert (config.account, config.partition, config.limit) == ("lab", "cpu", timedelta(hours=4))


def test_variables_of_sbatch_do_not_reach_the_commands(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "squeue").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SQUEUE_PARTITION": "x", "SLURM_CONF": "/c"}
    place = LocalCommands({**environ, "SBATCH_JOB_NAME": "mine", "SLURM_HINT": "compute_bound"})
    shown = asyncio.run(place.run("squeue")).output
    assert "SLURM_CONF=/c" in shown
    assert not any(name in shown for name in ("SQUEUE_", "SBATCH_", "SLURM_HINT"))
    assert place.key == LocalCommands(environ).key != LocalCommands({**environ, "SLURM_JWT": "t"}).key


def test_a_command_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "LIMIT_S", 0.2)
    started = tmp_path / "pid"
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {started}\nwait\n")
    (tmp_path / "squeue").chmod(0o755)
    place = LocalCommands({"PATH": os.environ["PATH"]})
    with pytest.raises(ServiceUnavailable, match=r"squeue has not ended within 0\.2 s"):
        asyncio.run(place.run(str(tmp_path / "squeue")))
    stat = Path(f"/proc/{int(started.read_text())}/stat")
    with contextlib.suppress(OSError):  # it has ended, and was reaped
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)


def test_the_allocation_of_a_member_finds_its_address(tmp_path: Path) -> None:
    program = b"import os; print(os.environ['NNIMGR_POD_UID'])"
    found = script(
        made(python=sys.executable, workDirectory=str(tmp_path)),
        NAMING, experiment_id="e", keeper_id="e-a-1.1",
        command="python3 trial.py", wants=NOTHING, grace=timedelta(seconds=5), manager="{}", archive=program,
        server="127.0.0.1",
    )  # fmt: skip
    done = subprocess.run(
        ["sh"], input=found, capture_output=True, text=True, check=True,
        env={**os.environ, "SLURM_JOB_ID": "7"},
    )  # fmt: skip
    instance = f"{done.stdout.strip()}.0123"
    assert (launch_of(instance), address_of(instance)) == ("7", "127.0.0.1")
    assert address_of("slurm:7:abc.0123") == address_of(None) == ""


def test_an_instance_names_the_job_of_slurm() -> None:
    assert launch_of("slurm:7:abc.0123") == "7"
    assert launch_of("0123") is None and launch_of(None) is None
