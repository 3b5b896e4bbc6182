"""GPUs by script: who gets which, who waits for whom, and what the tuner sees."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.e2e.scene import Scene, eventually, scene
from tests.gpus import ScriptedGpus
from tests.server.harness import nothing_left, serving

TUNER = """
import os
import nni.tuner

class Mine(nni.tuner.Tuner):
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"gpus": os.environ["CUDA_VISIBLE_DEVICES"]}
"""
LOCAL = {"platform": "local", "useActiveGpu": False}


def waits_for_go(directory: Path) -> str:
    """A trial that says which GPUs it sees, and ends when it may."""
    return (
        f'echo "gpus ${{CUDA_VISIBLE_DEVICES-unset}} end"; until [ -e {directory}/go-$NNI_TRIAL_SEQ_ID ]; '
        "do sleep 0.02; done"
    )


def with_status(here: Scene, status: str) -> list[dict[str, Any]]:
    return [trial for trial in here.trials() if trial["status"] == status]


def seen(here: Scene, trial: dict[str, Any]) -> bytes:
    """What the trial says it sees."""
    return eventually(lambda: here.log(trial["id"], "stdout"), "its output").strip()


def test_trials_get_their_gpus_one_by_one_and_the_rest_say_who_has_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TUNER)
    gpus = ScriptedGpus(tmp_path, 0, 1, 2)
    gpus.compute({os.getpid(): 1})
    with scene(tmp_path, environ=gpus.environ) as here:
        here.create(
            waits_for_go(tmp_path),
            trialConcurrency=3,
            maxTrialNumber=3,
            trialGpuNumber=1,
            tunerGpuIndices=[2, 0],
            tuner={"className": "mine.Mine", "codeDirectory": str(tmp_path)},
            trainingService={**LOCAL, "gpuIndices": [1, 2]},
        )
        (first,) = eventually(lambda: with_status(here, "RUNNING"), "the first")
        assert first["parameters"] == {"gpus": "2,0"}
        assert seen(here, first) == b"gpus 2 end"
        waits = (
            f"waits for 1 GPU on this machine: GPU 1 is used by process {os.getpid()}, "
            f"GPU 2 by experiment exp trial {first['id']}"
        )
        reasons = [waits, waits]
        eventually(lambda: [t["reason"] for t in with_status(here, "WAITING")] == reasons, waits)
        gpus.compute({})
        _, second = eventually(lambda: (r := with_status(here, "RUNNING"))[1:] and r, "the second")
        assert seen(here, second) == b"gpus 1 end"
        gpus.hang()
        for sequence in range(3):
            (tmp_path / f"go-{sequence}").touch()
        here.done()  # nobody waits for the tool


def test_experiments_share_gpus_also_after_a_crash(tmp_path: Path) -> None:
    """Trials run on without a server; the next one gives their GPUs to nobody before they have ended."""
    gpus = ScriptedGpus(tmp_path, 0)
    other = "/api/v1/experiments/other"

    def reason(here: Scene) -> str:
        return "".join(trial["reason"] for trial in here.server.call("GET", f"{other}/trials").body["trials"])

    with nothing_left(tmp_path):
        with serving(tmp_path, environ=gpus.environ) as server:
            here = Scene(server, tmp_path)
            here.create(waits_for_go(tmp_path), trialGpuNumber=0.5, trainingService=LOCAL)
            first = here.running()["id"]
            body = {**here.body("true", trialGpuNumber=1, trainingService=LOCAL), "id": "other"}
            assert server.call("POST", "/api/v1/experiments", body).status == 201
            waits = f"waits for 1 GPU on this machine: GPU 0 is used by experiment exp trial {first}"
            eventually(lambda: reason(here) == waits, waits)
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port, environ=gpus.environ) as again:
            here = Scene(again, tmp_path)
            eventually(lambda: here.server.call("GET", f"{other}/trials").status == 200, "the experiments")
            eventually(lambda: reason(here) == waits, waits)
            (tmp_path / "go-0").touch()
            here.done()
            eventually(lambda: again.call("GET", other).body["status"] == "DONE", "the other one's turn")


def test_single_gpus_wait_for_an_experiment_that_needs_two(tmp_path: Path) -> None:
    gpus = ScriptedGpus(tmp_path, 0, 1)
    other = "/api/v1/experiments/other"
    with scene(tmp_path, environ=gpus.environ) as here:
        command = waits_for_go(tmp_path)
        here.create(command, trialGpuNumber=1, trialConcurrency=2, maxTrialNumber=4, trainingService=LOCAL)
        eventually(lambda: len(with_status(here, "RUNNING")) == 2, "both")
        body = {**here.body("true", trialGpuNumber=2, trainingService=LOCAL), "id": "other"}
        assert here.server.call("POST", "/api/v1/experiments", body).status == 201

        def waiting() -> dict[str, Any]:
            (trial,) = here.server.call("GET", f"{other}/trials").body["trials"] or [{"reason": ""}]
            return dict(trial)

        eventually(lambda: waiting()["reason"].startswith("waits for 2 GPUs"), "its turn to wait")
        (tmp_path / "go-0").touch()
        kept = f"GPU 0 is kept for experiment other trial {waiting()['id']}, whose turn it is"
        eventually(lambda: any(kept in (trial["reason"] or "") for trial in here.trials()), kept)
        for sequence in range(1, 4):
            (tmp_path / f"go-{sequence}").touch()
        eventually(lambda: here.server.call("GET", other).body["status"] == "DONE", "the other one's turn")
        here.done()


def test_no_gpu_is_an_empty_list_and_null_leaves_it_alone(tmp_path: Path) -> None:
    with scene(tmp_path, environ={"CUDA_VISIBLE_DEVICES": "7"}) as here:
        command = 'echo "gpus ${CUDA_VISIBLE_DEVICES-unset} end"'
        here.create(command, trialGpuNumber=0)
        (trial,) = here.done()
        assert seen(here, trial) == b"gpus  end"
    other = tmp_path / "other"
    other.mkdir()
    with scene(other, environ={"CUDA_VISIBLE_DEVICES": "7"}) as here:
        here.create(command)
        (trial,) = here.done()
        assert seen(here, trial) == b"gpus 7 end"


def test_contradictions_are_refused(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        body = here.body(
            "true", trialGpuNumber=2, trainingService={**LOCAL, "gpuIndices": [3], "maxTrialNumberPerGpu": 2}
        )
        answer = here.server.call("POST", "/api/v1/experiments", body)
        assert answer.status == 400
        (problem,) = answer.body["error"]["problems"]
        assert problem["field"] == "trainingService.gpuIndices"
        assert problem["message"] == "lists fewer GPUs (1) than trialGpuNumber (2)"
