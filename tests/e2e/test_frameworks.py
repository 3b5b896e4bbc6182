"""Frameworks beside torch, with the examples of docs/how-to/processes.md: JAX, and Open MPI over ssh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.remote import Field, field
from tests.e2e.scene import scene
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "processes.md").read_text(encoding="utf-8")
JAX = os.environ.get("NNIMGR_TEST_JAX", sys.executable)
LIMIT_S = 120
SPACE = {"x": {"_type": "choice", "_value": [0.5]}}


def example(title: str, language: str) -> str:
    """Return the first example in this language below a title of the page."""
    found = re.search(rf"\n### {title}\n.*?```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def has_jax() -> bool:
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('jax') is None)"
    return subprocess.run([JAX, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not has_jax(), reason="jax is not installed; NNIMGR_TEST_JAX names a Python that has it")
def test_jax_has_one_process_for_each_member(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        code = tmp_path / "code"
        code.mkdir()
        (code / "train.py").write_text(example("JAX", "python") + "assert jax.process_count() == 2\n")
        body = here.body(f"{JAX} train.py", gang={"nodes": 2, "sameHost": True}, trialCodeDirectory=str(code))
        answer = here.server.call("POST", "/api/v1/experiments", {**body, "searchSpace": SPACE})
        assert answer.status == 201, answer.body
        (trial,) = here.done(LIMIT_S)
        assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 0.5), trial["reason"]


# ---- MPI --------------------------------------------------------------------------------------------------

RANKS = """
import os
rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
print("rank", rank, "of", size, "on", os.uname()[1])
if rank == "0":
    import nni
    nni.get_next_parameter()
    nni.report_final_result(1.0)
"""


@pytest.fixture
def found() -> Iterator[Bed]:
    if shutil.which("mpirun") is None:
        pytest.skip("not installed: openmpi-bin")
    if os.geteuid() != 0:
        pytest.skip("machines with networks of their own need root")
    with bed() as made:
        yield made


def admit_each_other(found: Bed, machines: list[Machine]) -> None:
    """Let the machines log in to each other without a question."""
    for machine in machines:
        shutil.copy(found.key, machine.home / ".ssh" / "id_ed25519")
        shutil.copy(found.known_hosts, machine.home / ".ssh" / "known_hosts")
        (machine.records / "train.py").write_text(RANKS)


def test_mpirun_of_the_leader_starts_processes_on_all_members(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    admit_each_other(found, machines)
    written: dict[str, Any] = yaml.safe_load(example("MPI", "yaml"))
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = " ".join(f"{name}={value}" for name, value in root.items())
    folders = 'cp "$RECORDS/train.py" /tmp/train.py; ' + f"export {command}; "
    command = folders + written["trialCommand"].replace("python3 train.py", "python3 /tmp/train.py")
    with field(tmp_path, found, machines, kind=Field) as here:
        service = {"platform": "remote", "machineList": [machine.entry() for machine in machines]}
        here.create(command, gang=written["gang"], trainingService=service)
        (trial,) = here.done(LIMIT_S)
        assert trial["status"] == "SUCCEEDED", trial["reason"]
        lines = sorted(here.log(trial["id"], "stdout").decode().splitlines())
        assert [line.split(" on ")[0] for line in lines] == ["rank 0 of 2", "rank 1 of 2"]
        assert len({line.split(" on ")[1] for line in lines}) == 2
