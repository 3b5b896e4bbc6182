"""Ten thousand waiting trials: what an event costs does not grow with them."""

from __future__ import annotations

import gc
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from nnimgr.core.running import new_trials
from tests.e2e.scene import Scene, eventually, scene
from tests.gpus import ScriptedGpus
from tests.rules import driver
from training_services.placement.lines import FIRST

MANY = 10_000
FEW = 100


class Calls:
    """Counts the calls of Python functions and of built-in ones, but not those of the garbage collection."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Calls:
        gc.disable()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self.number += event in ("call", "c_call")


def test_the_cores_work_for_an_event_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric, an end and the start of the next one, with few and with many customised trials waiting."""
    monkeypatch.setattr(driver, "validate", lambda state: None)  # derives everything again

    def calls(waiting: int) -> int:
        life = driver.Life(trial_concurrency=1, tuner=False)
        for number in range(waiting):
            life.take(*new_trials.TrialAddition({"x": number}, outstanding=0)(life.state))
        life.start(0)
        with Calls() as counted:
            life.metric(0, 0, 0.5)
            life.end(0)
            life.start(1)
        assert len(life.state.trials) == waiting - 1
        return counted.number

    few = calls(FEW)
    assert few > 100 and calls(MANY) <= few


def test_a_server_with_ten_thousand_waiting_trials(tmp_path: Path) -> None:
    """One place, for which all others wait: each is told why, once, and an end costs as little as ever."""
    command = f"until [ -e {tmp_path}/go-$NNI_TRIAL_SEQ_ID ]; do sleep 0.01; done"
    with scene(tmp_path, environ=ScriptedGpus(tmp_path, 0).environ) as here:
        here.create(
            command,
            trialConcurrency=MANY,
            maxTrialNumber=MANY,
            trialGpuNumber=1,
            trainingService={"platform": "local", "useActiveGpu": False},
        )
        counts = {"RUNNING": 1, "WAITING": MANY - 1}
        eventually(lambda: here.profile()["counts"] == counts, "all trials")
        first = here.trial()["id"]
        second, last = (here.get(f"/trials?offset={at}&limit=1")["trials"][0] for at in (1, MANY - 1))
        assert second["reason"] == (
            f"waits for 1 GPU on this machine: GPU 0 is used by experiment exp trial {first}"
        )
        assert last["reason"] == "waits for 1 GPU on this machine, behind other trials of its experiment"
        numbers = [here.profile()["lastNumber"]]
        for sequence in range(5):
            (tmp_path / f"go-{sequence}").touch()
            following = f"/trials?offset={sequence + 1}&limit=1"
            eventually(partial(is_running, here, following), "the next one")
            numbers.append(here.profile()["lastNumber"])
        # The end of a job and of its trial; place and start of the next; why the first behind it wait.
        assert [after - before for before, after in pairwise(numbers)] == [4 + FIRST] * 5


def is_running(here: Scene, path: str) -> bool:
    return bool(here.get(path)["trials"][0]["status"] == "RUNNING")
