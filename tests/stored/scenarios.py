"""The experiments that are stored as fixtures: small lives that between them meet everything that is stored.

Each scenario runs one experiment and leaves it as it is to be stored: its server ended, or killed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.sshd import site
from tests.stored.making import PLACE, Maker, eventually

__all__ = ["SCENARIOS"]

# What a trial does is a parameter, so that each scenario says which trials it has.
TRIAL = r"""
import json, os, sys, time
import nni

def wait():
    while True:
        time.sleep(0.05)

def frame(payload):
    with open(os.path.join(os.environ["NNI_SYS_DIR"], ".nni", "metrics"), "ab", buffering=0) as file:
        file.write(b"ME%06d" % len(payload) + payload)

parameters = nni.get_next_parameter()
while parameters is not None:
    act, x = parameters.get("act", "good"), parameters["x"]
    print(act, "begins")
    if act == "worse":
        nni.report_intermediate_result(-100)
        wait()
    if act == "save":
        state = nni.load_checkpoint() or {"n": 0}
        for n in range(state["n"], 5):
            nni.save_checkpoint({"n": n + 1}, step=n + 1, metric=x + n)
            if not state["n"] and n == 2:
                wait()
    nni.report_intermediate_result(x)
    if act == "wait":
        wait()
    if act == "member":
        sys.exit(3) if os.environ["RANK"] == "1" else wait()
    if act == "late" and os.environ["RANK"] == "1":
        wait()
    if act == "deaf":
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        nni.report_intermediate_result(x)
        wait()
    if act == "fail" or act == "flaky" and os.environ["NNIMGR_JOB_ID"].endswith("-1"):
        print("it fails", file=sys.stderr)
        sys.exit(3)
    if act == "broken":
        frame(b"\0\xff\xfe")
        frame(b"{}")
    several = {"default": x + 1, "loss": 0.5, "words": "many"}
    nni.report_intermediate_result(several if act == "dict" else x + 1)
    if act == "mute":
        sys.exit(0)
    if act == "several":
        nni.report_final_result({"accuracy": x, "latency": 1 - x})
    else:
        nni.report_final_result({"default": x + 2, "loss": 0.25} if act == "dict" else x + 2)
    parameters = nni.get_next_parameter() if os.environ.get("MULTI_PHASE") == "true" else None
"""
BROKEN_TUNER = """
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self):
        raise ValueError("no")
"""
FAULTY_TUNER = """
import os
from nni.tuner import Tuner

class Mine(Tuner):
    def update_search_space(self, search_space):
        pass

    def generate_parameters(self, parameter_id, **kwargs):
        return {"act": "good", "x": parameter_id / 8}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        if parameter_id == 0:
            raise ValueError("not this one")
        if parameter_id == 1 and not os.path.exists("/tmp/nnimgr-fixture/died"):
            open("/tmp/nnimgr-fixture/died", "w").close()
            os._exit(9)
"""
ACTS = ["good", "worse", "wait", "deaf", "fail", "flaky", "broken", "dict", "mute", "several", "save"]
SPACE = {
    "act": {"_type": "choice", "_value": ACTS},
    "x": {"_type": "uniform", "_value": [0, 1]},
}
GOOD = {"act": {"_type": "choice", "_value": ["good"]}, "x": {"_type": "uniform", "_value": [0, 1]}}


def sets(*acts: str) -> list[dict[str, Any]]:
    """Return parameter sets for trials that act so."""
    return [{"act": act, "x": round(0.1 * (number + 1), 1)} for number, act in enumerate(acts)]


def ends(made: Maker) -> None:
    """DONE: trials with every end that does not stop the experiment, retries, skipped frames, bad results."""
    acts = ("good", "dict", "worse", "fail", "flaky", "broken", "mute", "wait")
    made.create(
        SPACE,
        maxTrialNumber=len(acts) + 1,
        initialParameters=sets(*acts),
        maxRetries={"userError": 1},
        assessor={"name": "Medianstop", "classArgs": {"optimize_mode": "maximize", "start_step": 1}},
    )
    waiting = made.running(sequence=7)
    made.call("POST", "/trials", {"parameters": {"act": "good", "x": 0.9}})
    made.call("POST", f"/trials/{waiting['id']}/stop")
    made.status("DONE")
    made.leave()


def phases(made: Maker) -> None:
    """DONE: trials with several parameter sets each."""
    space = {"x": {"_type": "choice", "_value": [0.5, 1.5, 2, 3, 4]}}
    made.create(space, multiPhase=True, trialConcurrency=2, tuner={"name": "GridSearch"})
    made.status("DONE")
    made.leave()


def objectives(made: Maker) -> None:
    """DONE: several objectives, results of equal parameters that are reused, a value for failed trials."""
    space = {
        "act": {"_type": "choice", "_value": ["several"]},
        "x": {"_type": "choice", "_value": [0.25, 0.5]},
    }
    made.create(
        space,
        maxTrialNumber=6,
        objectives={"accuracy": "maximize", "latency": "minimize"},
        duplicates="reuse",
        initialParameters=[{"act": "several", "x": 0.25}],
        tuner={"name": "Random", "classArgs": {"seed": 3}},
        onFailure="value",
        failureValue={"accuracy": 0, "latency": 9},
    )
    made.status("DONE")
    made.leave()


def penalty(made: Maker) -> None:
    """DONE: failed trials whose tuner is given a penalty, and one of them run again."""
    made.create(SPACE, maxTrialNumber=3, initialParameters=sets("good", "fail", "good"), onFailure="penalty")
    made.status("DONE")
    made.call("POST", "/rerun")
    eventually(lambda: sum(made.counts().values()) == 4, "the trial that runs again")
    made.status("DONE")
    made.leave()


def changed(made: Maker) -> None:
    """STOPPED: changes of the configuration and of the tuner, imports, a restart of the machine, resumes."""
    made.create(GOOD, maxTrialNumber=3)
    made.status("DONE")
    made.call("PATCH", "/labels", {"tags": ["kept", "old"]})
    made.nnictl("update", "searchspace", made.id, "--filename", made.write("space.json", SPACE))
    made.nnictl("update", "duration", made.id, "--value", "1h")
    records = [{"parameter": {"act": "good", "x": 0.5}, "value": 2.5}]
    made.nnictl("experiment", "import", made.id, "--filename", made.write("records.json", records))
    made.nnictl("update", "trialnum", made.id, "--value", "40")
    for parameters in sets("wait", "wait", "good"):
        made.call("POST", "/trials", {"parameters": parameters})
    made.nnictl("update", "concurrency", made.id, "--value", "2")
    tuner = {"tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize", "seed": 5}}}
    made.nnictl("update", "tuner", made.id, "--filename", made.write("tuner.json", tuner))
    made.nnictl("update", "searchspace", made.id, "--filename", made.write("good.json", GOOD))
    made.trials("RUNNING", 2)
    made.lose_power()
    (PLACE / "boot").write_text("00000000-0000-4000-8000-000000000002\n")
    made.serve()
    made.trials("RUNNING", 2)
    made.call("POST", "/stop")
    made.call("POST", "/resume")
    made.trials("RUNNING", 2)
    made.call("POST", "/stop")
    made.leave()


def failed(made: Maker) -> None:
    """ERROR: the constructor of the tuner raises."""
    (PLACE / "code" / "mine.py").write_text(BROKEN_TUNER)
    made.create(
        GOOD, maxTrialNumber=2, tuner={"className": "mine.Mine", "codeDirectory": str(PLACE / "code")}
    )
    made.status("ERROR")
    made.leave()


def faults(made: Maker) -> None:
    """DONE: the tuner raises at one result, and its process dies at another."""
    (PLACE / "code" / "mine.py").write_text(FAULTY_TUNER)
    mine = {"className": "mine.Mine", "codeDirectory": str(PLACE / "code")}
    made.create(GOOD, maxTrialNumber=4, tuner=mine)
    made.status("DONE")
    made.leave()


def machines(made: Maker) -> None:
    """DONE: two machines over SSH, a keeper on each."""
    with site(PLACE / "machines") as found:
        made.environ["HOME"] = str(found.home)
        path = made.environ["PATH"]
        listed = [
            {"host": machine.address, "port": machine.port, "user": found.user, "sshKeyFile": str(found.key)}
            for machine in (found.machine(path=path), found.machine(path=path))
        ]
        made.serve()
        made.create(
            SPACE,
            maxTrialNumber=4,
            trialConcurrency=2,
            initialParameters=sets("wait", "wait", "fail", "good"),
            trainingService={"platform": "remote", "machineList": listed},
        )
        for trial in made.trials("RUNNING", 2):
            made.call("POST", f"/trials/{trial['id']}/stop")
        made.status("DONE")
        made.leave()
        made.lose_power()


def running(made: Maker) -> None:
    """RUNNING at a kill -9: trials that run, that wait, and one that has ended."""
    made.create(SPACE, trialConcurrency=2, initialParameters=sets("good", "wait", "wait"), suggestionsAhead=0)
    made.running(sequence=1)
    made.running(sequence=2)
    made.call("POST", "/trials", {"parameters": {"act": "good", "x": 0.7}})
    made.trials("WAITING")
    made.lose_power()


def draining(made: Maker) -> None:
    """DRAINING (budget) at a kill -9: its last trials run, and a lost one is not tried again."""
    made.create(
        SPACE,
        trialConcurrency=2,
        maxTrialNumber=3,
        initialParameters=sets("good", "wait", "wait"),
        maxRetries={"infrastructure": 0},
    )
    made.running(sequence=1)
    made.running(sequence=2)
    made.status("DRAINING")
    made.lose_power()


def stopping(made: Maker) -> None:
    """DRAINING (user) at a kill -9: a trial that ignores its stop still runs."""
    made.create(SPACE, maxTrialNumber=4, initialParameters=sets("deaf"))
    made.trials("RUNNING")
    threading.Thread(target=_ask_to_stop, args=(made,), daemon=True).start()
    made.status("DRAINING")
    made.lose_power()


def _ask_to_stop(made: Maker) -> None:
    """The server is killed before it answers."""
    with contextlib.suppress(OSError, RuntimeError):
        made.call("POST", "/stop")


def silent(made: Maker) -> None:
    """UNKNOWN trials at a kill -9: their keeper has been silent for too long."""
    made.create(
        SPACE, trialConcurrency=2, maxTrialNumber=6, initialParameters=sets("wait", "wait"), silentAfter="5s"
    )
    made.trials("RUNNING", 2)
    made.pause_keeper()
    made.trials("UNKNOWN", 2)
    made.lose_power()


def detached(made: Maker) -> None:
    """STOPPED with trials that run on."""
    made.create(SPACE, maxTrialNumber=2, initialParameters=sets("wait"))
    made.trials("RUNNING")
    made.call("POST", "/stop", {"detach": True})
    made.leave(signal.SIGTERM)
    made.lose_power()


def saved(made: Maker) -> None:
    """STOPPED: a trial that was paused and continued, a paused one, and one that the stop has paused."""
    made.create(SPACE, trialConcurrency=3, maxTrialNumber=3, initialParameters=sets("save", "save", "save"))
    first, second, _ = made.trials("RUNNING", 3)
    for trial in (first, second):
        made.reports(trial, 3)
        made.call("POST", f"/trials/{trial['id']}/pause")
    made.trials("PAUSED", 2)
    made.call("POST", f"/trials/{first['id']}/resume")
    made.trials("SUCCEEDED")
    made.call("POST", "/stop")
    made.trials("PAUSED", 2)
    made.leave()


def forked(made: Maker) -> None:
    """DONE: a trial that has continued from the other one's checkpoint, and a fork of the other one."""
    space = {name: {"_type": "choice", "_value": value} for name, value in (("act", ["save"]), ("x", [1, 2]))}
    arguments = {"perturbation_interval": 3, "mutations": {"x": [3]}}
    made.create(
        space,
        tuner={"name": "GridSearch"},
        scheduler={"name": "PBT", "classArgs": arguments},
        trialConcurrency=3,
        goal="maximize",
    )
    made.trials("SUCCEEDED")
    (donor,) = made.trials("RUNNING")
    made.call("POST", f"/trials/{donor['id']}/fork", {"parameters": {"act": "save", "x": 4}})
    made.trials("SUCCEEDED", 2)
    made.call("POST", f"/trials/{donor['id']}/pause")
    made.trials("PAUSED")
    made.call("POST", f"/trials/{donor['id']}/resume")
    made.status("DONE")
    made.leave()


def gangs(made: Maker) -> None:
    """DRAINING (budget) at a kill -9: trials of two members, with every end, and one that runs."""
    acts = ("good", "member", "late", "wait", "wait")
    space = {
        "act": {"_type": "choice", "_value": sorted({*acts})},
        "x": {"_type": "uniform", "_value": [0, 1]},
    }
    made.create(
        space,
        maxTrialNumber=len(acts),
        initialParameters=sets(*acts),
        gang={"nodes": 2, "sameHost": True, "exitBarrier": "1s"},
        maxRetries={"infrastructure": 0},
    )
    made.call("POST", f"/trials/{made.running(sequence=3)['id']}/stop")
    made.running(sequence=4)
    made.status("DRAINING")
    made.lose_power()


def annotated(made: Maker) -> None:
    """DONE: trials with notes and tags, one whose note and tags were removed, and saved views."""
    made.create(SPACE, maxTrialNumber=4, initialParameters=sets("good", "dict", "fail", "good"))
    made.status("DONE")
    ids = [trial["id"] for trial in made.call("GET", "/trials")["trials"]]
    for trial_id, note in ((ids[0], "the first\nof May"), (ids[3], "a mistake")):
        made.call("PATCH", f"/trials/{trial_id}/annotation", {"note": note, "tags": ["base", "größer"]})
    made.call("POST", "/tags", {"trialIds": ids[1:3], "add": ["base", "odd one"]})
    made.call("PATCH", f"/trials/{ids[3]}/annotation", {"note": "", "tags": []})
    content = {"columns": ["sequence", "tags"], "filter": "tags:base", "sort": "value", "order": "desc"}
    made.call("POST", "/views", {"name": "the base", "content": content})
    made.call("POST", "/views", {"name": "all of it", "content": {}})
    made.leave()


SCENARIOS: Mapping[str, Callable[[Maker], None]] = {
    scenario.__name__: scenario
    for scenario in (
        ends,
        phases,
        objectives,
        penalty,
        changed,
        failed,
        faults,
        machines,
        running,
        draining,
        stopping,
        silent,
        detached,
        annotated,
        saved,
        forked,
        gangs,
    )
}
