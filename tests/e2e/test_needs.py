"""Trials that need different numbers of GPUs, worked out from their parameters."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.e2e.scene import Scene, eventually
from tests.e2e.test_gpus import LOCAL, seen, waits_for_go, with_status
from tests.gpus import ScriptedGpus
from tests.server.harness import nothing_left, serving

SPACE = {"model": {"_type": "choice", "_value": ["large"]}, "gpus": {"_type": "choice", "_value": [1]}}
GPUS = "{{ 2 if model == 'large' else gpus }}"


def create(here: Scene, command: str, **more: Any) -> None:
    body = here.body(command, trialGpuNumber=GPUS, trainingService=LOCAL, **more)
    answer = here.server.call("POST", "/api/v1/experiments", {**body, "searchSpace": SPACE})
    assert answer.status == 201, answer.body


def add(here: Scene, **parameters: Any) -> None:
    assert here.server.call("POST", f"{here.url}/trials", {"parameters": parameters}).status == 201


def test_each_trial_gets_the_gpus_that_it_needs_also_after_a_crash(tmp_path: Path) -> None:
    environ = ScriptedGpus(tmp_path, 0, 1, 2).environ
    with nothing_left(tmp_path):
        with serving(tmp_path, environ=environ) as server:
            here = Scene(server, tmp_path)
            create(here, waits_for_go(tmp_path), maxTrialNumber=4)
            large = here.running()
            add(here, model="small", gpus=1)
            add(here, model="large", gpus=1)
            assert server.call("PATCH", here.url, {"trialConcurrency": 3}).status == 200
            eventually(lambda: len(with_status(here, "RUNNING")) == 2, "two trials")
            _, small, waiting = here.trials()[:3]
            assert (seen(here, large), seen(here, small)) == (b"gpus 0,1 end", b"gpus 2 end")
            assert waiting["reason"].startswith("waits for 2 GPUs on this machine: GPU 0 is used by")
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port, environ=environ) as again:
            here = Scene(again, tmp_path)
            eventually(lambda: len(with_status(here, "RUNNING")) == 2, "the same two trials")
            (tmp_path / "go-1").touch()
            eventually(lambda: "GPU 2 is free" in here.trials()[2]["reason"], "the end of the small one")
            (tmp_path / "go-0").touch()
            eventually(lambda: here.trials()[2]["status"] == "RUNNING", "the second large one")
            for sequence in (2, 3):
                (tmp_path / f"go-{sequence}").touch()
            here.done()


def test_a_need_that_is_not_valid_fails_its_trial_and_no_other(tmp_path: Path) -> None:
    environ = ScriptedGpus(tmp_path, 0, 1).environ
    with nothing_left(tmp_path), serving(tmp_path, environ=environ) as server:
        here = Scene(server, tmp_path)
        create(here, "true", maxTrialNumber=3)
        add(here, model="small", gpus=-1)
        trials = here.done()
        (failed,) = [trial for trial in trials if trial["parameters"]["gpus"] == -1]
        assert (failed["status"], failed["reason"]) == (
            "FAILED",
            "trialGpuNumber has no valid value for model = 'small', gpus = -1: must be at least 0, not -1",
        )
        assert [trial["status"] for trial in trials if trial is not failed] == ["SUCCEEDED"]


def test_the_priority_decides_which_experiment_goes_on(tmp_path: Path) -> None:
    environ = ScriptedGpus(tmp_path, 0).environ
    other = "/api/v1/experiments/other"
    with nothing_left(tmp_path), serving(tmp_path, environ=environ) as server:
        here = Scene(server, tmp_path)
        command = f"until [ -e {tmp_path}/go-$NNI_EXP_ID-$NNI_TRIAL_SEQ_ID ]; do sleep 0.02; done"
        more = {"trialGpuNumber": 1, "trainingService": LOCAL, "maxTrialNumber": 2, "trialConcurrency": 2}
        here.create(command, **more)
        here.running()
        body = here.body(command, **more)
        assert server.call("POST", "/api/v1/experiments", {**body, "id": "other"}).status == 201
        assert server.call("PATCH", here.url, {"priority": 5}).status == 200
        (tmp_path / "go-exp-0").touch()
        eventually(lambda: here.trials()[1]["status"] == "RUNNING", "the second trial of the same experiment")
        assert here.profile()["config"]["priority"] == 5
        assert server.call("PATCH", other, {"priority": 6.5}).status == 400
        for name in ("exp-1", "other-0", "other-1"):
            (tmp_path / f"go-{name}").touch()
        here.done()
        eventually(lambda: server.call("GET", other).body["status"] == "DONE", "the other one's end")
