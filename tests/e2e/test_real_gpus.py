"""Trials with torch on a real GPU: who gets it, who waits for it, and state that is computed on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.scene import Scene, eventually, scene
from tests.machines.machine import kill
from tests.processes import environ, of_home
from tests.server.harness import nothing_left, serving

PYTHON = os.environ.get("NNIMGR_TEST_TORCH", sys.executable)
LOCAL = {"platform": "local", "useActiveGpu": False}
LIMIT_S = 180


def _has_gpu() -> bool:
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([PYTHON, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0


pytestmark = pytest.mark.skipif(
    not _has_gpu(), reason="torch finds no GPU; NNIMGR_TEST_TORCH names a Python whose torch finds one"
)

COMPUTES = """
import os, sys, time
import nni, torch

nni.get_next_parameter()
here = torch.ones(64, 64, device="cuda")
print("sees", torch.cuda.device_count(), "at", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists(os.path.join(sys.argv[1], "go-" + os.environ["NNI_TRIAL_SEQ_ID"])):
    time.sleep(0.02)
nni.report_final_result((here @ here)[0, 0].item())
"""

# Each epoch's result depends on all before it, and is computed on the GPU by both processes together.
TOGETHER = """
import os, time
import nni, torch
import torch.distributed as dist

nni.get_next_parameter()
dist.init_process_group("gloo")
state = nni.load_checkpoint() or {"epoch": 0, "sum": torch.zeros(4, device="cuda")}
total = state["sum"].to("cuda")
for epoch in range(state["epoch"], 20):
    part = torch.full((4,), float(epoch + 1), device="cuda")
    dist.all_reduce(part)
    total = total + part
    nni.save_checkpoint({"epoch": epoch + 1, "sum": total}, step=epoch + 1, metric=total[0].item())
    time.sleep(0.1)
nni.report_final_result(total[0].item())
"""

FORKED = """
import torch

def train(parameters):
    here = torch.ones(64, 64, device="cuda")
    return (here @ here)[0, 0].item()
"""


def computes(directory: Path) -> str:
    """Return a trial's command: it uses the GPU until there is the file ``go-N`` for its number N."""
    (directory / "computes.py").write_text(COMPUTES)
    return f"{PYTHON} computes.py {directory}"


def go(directory: Path, *numbers: int) -> None:
    for number in numbers:
        (directory / f"go-{number}").touch()


def with_status(here: Scene, status: str) -> list[str]:
    return [trial["id"] for trial in here.trials() if trial["status"] == status]


def waits(here: Scene, reason: str) -> None:
    """Wait until some trial gives this reason for its wait."""
    eventually(lambda: reason in [trial["reason"] for trial in here.trials()], reason, LIMIT_S)


@contextmanager
def used_gpu() -> Iterator[int]:
    """Run a process that uses the GPU and belongs to no trial; yield its pid."""
    code = "import torch; here = torch.ones(9, device='cuda'); print('ready', flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([PYTHON, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_one_trial_after_the_other_gets_the_gpu(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(
            computes(tmp_path),
            trialConcurrency=2,
            maxTrialNumber=2,
            trialGpuNumber=1,
            trainingService={**LOCAL, "gpuIndices": [0]},
        )
        first = here.running()["id"]
        waits(here, f"waits for 1 GPU on this machine: GPU 0 is used by experiment exp trial {first}")
        says = eventually(lambda: here.log(first, "stdout"), "the first trial's output", LIMIT_S)
        assert says == b"sees 1 at 0\n"
        go(tmp_path, 0, 1)
        assert [trial["finalValue"] for trial in here.done(LIMIT_S)] == [64.0, 64.0]


def test_two_trials_share_the_gpu(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(
            computes(tmp_path),
            trialConcurrency=3,
            maxTrialNumber=3,
            trialGpuNumber=1,
            trainingService={**LOCAL, "gpuIndices": [0], "maxTrialNumberPerGpu": 2},
        )
        eventually(lambda: len(with_status(here, "RUNNING")) == 2, "two trials at once", LIMIT_S)
        assert len(with_status(here, "WAITING")) == 1
        both = with_status(here, "RUNNING")
        eventually(lambda: [here.log(each, "stdout") for each in both] == [b"sees 1 at 0\n"] * 2, "output")
        go(tmp_path, 0, 1, 2)
        assert [trial["finalValue"] for trial in here.done(LIMIT_S)] == [64.0] * 3


def test_a_trial_waits_for_a_process_that_is_no_trial(tmp_path: Path) -> None:
    go(tmp_path, 0)
    with scene(tmp_path) as here:
        with used_gpu() as pid:
            here.create(computes(tmp_path), trialGpuNumber=1, trainingService={**LOCAL, "gpuIndices": [0]})
            waits(here, f"waits for 1 GPU on this machine: GPU 0 is used by process {pid}")
        here.done(LIMIT_S)


def test_the_gpu_stays_with_its_trial_over_a_kill_of_the_server(tmp_path: Path) -> None:
    service = {**LOCAL, "gpuIndices": [0]}
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            here = Scene(server, tmp_path)
            here.create(
                computes(tmp_path),
                trialConcurrency=2,
                maxTrialNumber=2,
                trialGpuNumber=1,
                trainingService=service,
            )
            first = here.running()["id"]
            reason = f"waits for 1 GPU on this machine: GPU 0 is used by experiment exp trial {first}"
            waits(here, reason)
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port) as again:
            here = Scene(again, tmp_path)
            eventually(lambda: again.call("GET", here.url).status == 200, "the experiment")
            waits(here, reason)
            go(tmp_path, 0, 1)
            assert [(trial["attempt"], trial["status"]) for trial in here.done(LIMIT_S)] == [
                (1, "SUCCEEDED")
            ] * 2


def test_processes_that_share_the_gpu_lose_no_epoch_to_a_kill(tmp_path: Path) -> None:
    (tmp_path / "together.py").write_text(TOGETHER)
    with scene(tmp_path) as here:
        here.create(
            f"{PYTHON} together.py",
            trialGpuNumber=1,
            gang={"processes": 2},
            maxRetries={"userError": 2},
            trainingService={**LOCAL, "gpuIndices": [0]},
        )
        eventually(lambda: here.trials() and here.trial()["intermediates"] > 2, "three epochs", LIMIT_S)
        of_rank_1 = [
            each
            for each in of_home(here.server.home.path)
            if each.command.endswith("together.py") and b"RANK=1" in environ(each.pid)
        ]
        assert kill(of_rank_1)
        (trial,) = here.done(LIMIT_S)
        assert (trial["status"], trial["attempt"], trial["finalValue"]) == ("SUCCEEDED", 2, 420.0)
        results = [each["value"] for each in here.metrics(trial["id"]) if each["type"] == "PERIODICAL"]
        assert results == [float(epoch * (epoch + 1)) for epoch in range(1, 21)]


def test_forked_trials_use_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "forked.py").write_text(FORKED)
    with scene(tmp_path) as here:
        here.create(
            f"{PYTHON} -m nni.run forked.py:train",
            trialConcurrency=2,
            maxTrialNumber=4,
            trialGpuNumber=1,
            preload=["torch"],
            trainingService={**LOCAL, "gpuIndices": [0], "maxTrialNumberPerGpu": 2},
        )
        trials = here.done(LIMIT_S)
        assert [trial["finalValue"] for trial in trials] == [64.0] * 4
        assert not here.profile()["notices"]
