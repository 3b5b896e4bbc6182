"""An experiment in allocations of a cluster, and programs of its trials, for tests with real clusters."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.scene import Scene, eventually
from tests.server.harness import free_port, serving

LIMIT_S = 600.0
TRIALS = 4  # two in each of two allocations
TRIAL = """
import os, pathlib, time
import nni
shared = pathlib.Path({shared!r})
number = os.environ["NNI_TRIAL_SEQ_ID"]
nni.get_next_parameter()
with open(shared / f"starts-{{number}}", "a") as starts:
    starts.write(os.environ["NNIMGR_JOB_ID"] + "\\n")

def wait(name):
    while not (shared / name).exists():
        time.sleep(0.02)

nni.report_intermediate_result(0)
wait("killed")
nni.report_intermediate_result(1)
(shared / f"alone-{{number}}").touch()
if number != "0":  # one ends without a server
    wait("go")
nni.report_final_result(2)
"""

# Each member meets the leader at MASTER_ADDR, and notes from where the trial continues.
MEET = """
import os, pathlib, socket, time
import nni
shared = pathlib.Path({shared!r})
nni.get_next_parameter()
rank, round_ = os.environ["RANK"], os.environ["NNIMGR_GANG_ROUND"]
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    met = socket.create_server(("", address[1])).accept()
else:
    while True:
        try:
            met = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.05)
state = nni.load_checkpoint()
if rank == "0" and state is None:
    nni.save_checkpoint({{"step": 3}}, step=3)
(shared / f"{{round_}}-{{rank}}").write_text("0" if state is None else str(state["step"]))
while not (shared / "end").exists():
    time.sleep(0.02)
nni.report_final_result(1.0 if rank == "0" else 99.0)
"""

# Saves its state when it is asked to, until it has two members.
GROWING = """
import os, time
import nni
nni.get_next_parameter()
state = nni.load_checkpoint() or {{"step": 0}}
leads = os.environ.get("RANK", "0") == "0"
if leads:
    nni.save_checkpoint({{"step": state["step"] + 1}}, step=state["step"] + 1)
while os.environ["NNIMGR_GANG_SIZE"] != "2":
    if nni.should_checkpoint():
        nni.save_checkpoint({{"step": 2}}, step=2)
    time.sleep(0.05)
nni.report_final_result(float(state["step"]))
"""


class AllocatedField(Scene):
    """An experiment on a cluster. Its server can be killed, and another takes its place."""

    def __init__(
        self, stack: contextlib.ExitStack, directory: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self._stack, self._port, self._environ = stack, free_port(), environ
        self.shared = directory / "shared"
        for folder in (self.shared, directory / "code", directory / "nodes"):
            folder.mkdir()
        super().__init__(self._serve(directory), directory)

    def _serve(self, directory: Path) -> Any:
        return self._stack.enter_context(serving(directory, port=self._port, environ=self._environ))

    def restart(self) -> None:
        self.server = self._serve(self.directory)

    def service(self) -> dict[str, Any]:
        """Return the fields of ``trainingService`` that tell the cluster."""
        raise NotImplementedError

    def allocations(self) -> set[str]:
        """Return the names of all allocations that the cluster has had."""
        raise NotImplementedError

    def begin(
        self, trial: str, *, trials: int, service: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Create the experiment of this program, whose trials run all at once.

        ``service``: further fields of ``trainingService``; ``more``: of the configuration.
        """
        (self.directory / "code" / "trial.py").write_text(trial.format(shared=str(self.shared)))
        self.create(
            f"{sys.executable} trial.py",
            trialCodeDirectory=str(self.directory / "code"),
            trialConcurrency=trials,
            maxTrialNumber=trials,
            trialCpuNumber=1,
            **more,
            trainingService={
                "cpus": 2,
                "idle": "1s",
                "python": sys.executable,
                "workDirectory": str(self.directory / "nodes"),
                **self.service(),
                **(service or {}),
            },
        )

    def release(self, name: str) -> None:
        (self.shared / name).touch()

    def starts(self, number: int) -> list[str]:
        """Return the jobs that this trial has run as."""
        file = self.shared / f"starts-{number}"
        return file.read_text().split() if file.exists() else []

    def met(self, round_: int) -> list[str]:
        """Return where the two members of an attempt began, once both have met."""
        paths = [self.shared / f"{round_}-{rank}" for rank in range(2)]
        eventually(lambda: all(path.exists() and path.read_text() for path in paths), "all members", LIMIT_S)
        return [path.read_text() for path in paths]

    def outlive_the_server(self) -> None:
        """Check that the trials of TRIAL, in two allocations, run on while the server is dead."""
        self.begin(TRIAL, trials=TRIALS)
        eventually(
            lambda: len(trials := self.trials()) == TRIALS and all(self.metrics(t["id"]) for t in trials),
            "the first metric of each trial",
            LIMIT_S,
        )
        before = self.allocations()
        assert len(before) == 2
        self.server.end(signal.SIGKILL)
        self.release("killed")
        alone = [self.shared / f"alone-{number}" for number in range(TRIALS)]
        eventually(lambda: all(file.exists() for file in alone), "trials that run without a server", LIMIT_S)
        self.restart()
        self.release("go")
        trials = self.done(LIMIT_S)
        assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * TRIALS
        for number, trial in enumerate(trials):
            assert self.starts(number) == [f"exp-{trial['id']}-1"]
            values = [(metric["type"], metric["value"]) for metric in self.metrics(trial["id"])]
            assert values == [("PERIODICAL", 0), ("PERIODICAL", 1), ("FINAL", 2)]
        assert self.allocations() == before

    def adopt_a_gang(self) -> None:
        """Check that a server that was killed adopts the two members of a gang."""
        self.begin(MEET, trials=1, gang={"nodes": 2})
        assert self.met(1) == ["0", "0"]
        before = self.allocations()
        assert len(before) == 2
        self.server.end(signal.SIGKILL)
        self.restart()
        self.release("end")
        (trial,) = self.done(LIMIT_S)
        assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 1)
        assert [metric["value"] for metric in self.metrics(trial["id"])] == [1.0]
        assert self.allocations() == before

    def grow_a_gang(self, free: Callable[[], object]) -> None:
        """Check that a trial with one member gets another when ``free`` has made room for it."""
        self.begin(GROWING, trials=1, gang={"nodes": "1:2", "growAfter": "1s"})
        alone = "runs with 1 of 1 to 2 members"
        eventually(lambda: [trial for trial in self.trials() if trial["reason"] == alone], alone, LIMIT_S)
        free()
        (trial,) = self.done(LIMIT_S)
        jobs = self.get(f"/trials/{trial['id']}")["jobs"]
        *before, last = [max(1, len(job["members"])) for job in jobs]
        # Another attempt has one member if the cluster has not noticed its room in time.
        assert (set(before), last) == ({1}, 2), jobs
        assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 2.0), trial
        assert jobs[-1]["endReason"] == "exited"
