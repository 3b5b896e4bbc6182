"""One experiment on machines of a test bed, and the comparison of what ran there with what was recorded.

Trials report 20 metrics each within one or two seconds, and write what they do to files of their own beside
the machines' homes, which the product knows nothing of.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.scene import Scene, eventually
from tests.machines.bed import Bed
from tests.machines.machine import Machine
from tests.server.harness import Server, nothing_left, serving

METRICS = 20
HOLD = "hold"  # trials on a machine with this file among its records do not go on after their first metric
LONG_CUT_S = float(os.environ.get("NNIMGR_TEST_CUT", "0"))  # how long links are cut, instead of shortly
CUT_S = LONG_CUT_S or 5.0
LIMIT_S = 180.0 + LONG_CUT_S

TRIAL = """
import os, random, select
import nni
nni.get_next_parameter()
job = os.environ["NNIMGR_JOB_ID"]
own = os.open(os.path.join(os.environ["RECORDS"], job), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(own, b"start\\n")
hold = os.path.join(os.environ["RECORDS"], "hold")
draw = random.Random(job)
pause = draw.uniform(SHORTEST, LONGEST) / 20
for number in range(20):
    select.select([], [], [], pause)  # no time.sleep: libfaketime breaks it
    value = draw.random()
    os.write(own, b"metric %d %s\\n" % (number, repr(value).encode()))
    accepted = False
    while not accepted:
        try:
            (nni.report_final_result if number == 19 else nni.report_intermediate_result)(value)
            accepted = True
        except OSError:  # the disk is full
            select.select([], [], [], 0.1)
    while os.path.exists(hold):
        select.select([], [], [], 0.05)
os.write(own, b"end\\n")
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt wrote of itself, on which machine. ``metrics``: [(position, type, text)]."""

    machine: Machine
    metrics: list[tuple[int, str, str]]
    starts: int
    ended: bool


class Field(Scene):
    """An experiment on several machines."""

    def __init__(
        self, serve: Callable[[int | None], Server], directory: Path, machines: list[Machine]
    ) -> None:
        super().__init__(serve(None), directory)
        self._serve = serve
        self.machines = machines

    def restart(self) -> None:
        """kill -9 of the server; another takes its place."""
        self.server.end(signal.SIGKILL)
        self.server = self._serve(self.server.port)

    def begin(
        self,
        *,
        trials: int = 9,
        concurrency: int = 6,
        seconds: tuple[float, float] = (0.8, 2.0),
        service: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Create it. ``service``: further fields of the training service; ``more``: of the experiment."""
        shortest, longest = map(str, seconds)
        program = TRIAL.replace("SHORTEST", shortest).replace("LONGEST", longest)
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(program)
        fields: dict[str, Any] = {
            "trialConcurrency": concurrency,
            "maxTrialNumber": trials,
            "silentAfter": "2s",
            "trainingService": {
                "platform": "remote",
                "keepAliveInterval": 1,
                "machineList": [machine.entry() for machine in self.machines],
                **(service or {}),
            },
        }
        self.create("python3 trial.py", **fields | {"trialCodeDirectory": str(code)} | more)

    def begin_on_all(self, *, concurrency: int = 6, **more: Any) -> None:
        """Create it, and wait until trials run on all machines. None ends before.

        A machine runs no more trials than its part of ``concurrency``, or it might leave none to the others.
        """
        for machine in self.machines:
            (machine.records / HOLD).touch()
        part = (os.cpu_count() or 1) * len(self.machines) / concurrency
        self.begin(concurrency=concurrency, trialCpuNumber=part, **more)
        for machine in self.machines:
            self.await_running(machine)
        for machine in self.machines:
            (machine.records / HOLD).unlink()

    # ---- what happens there -------------------------------------------------------------------------------

    def attempts(self) -> dict[str, Attempt]:
        """What ran, by job."""
        found: dict[str, Attempt] = {}
        for machine in self.machines:
            for path in machine.records.iterdir():
                if path.name == HOLD:
                    continue
                lines = path.read_text().splitlines()
                metrics = [
                    (number, "FINAL" if number == METRICS - 1 else "PERIODICAL", line.split()[2])
                    for number, line in enumerate(line for line in lines if line.startswith("metric"))
                ]
                assert path.name not in found, f"{path.name} ran on two machines"
                found[path.name] = Attempt(
                    machine, metrics, starts=lines.count("start"), ended=lines[-1:] == ["end"]
                )
        return found

    def running_on(self, machine: Machine) -> list[str]:
        """The jobs that have begun to report there and have not ended."""
        return [
            job
            for job, each in self.attempts().items()
            if each.machine is machine and each.metrics and not each.ended
        ]

    def await_running(self, machine: Machine) -> list[str]:
        return eventually(lambda: self.running_on(machine), f"a trial on {machine.name}")

    # ---- what is recorded ----------------------------------------------------------------------------------

    def rows(self, query: str) -> list[Any]:
        database = sqlite3.connect(f"file:{self.folder}/db/nnimgr.sqlite?mode=ro", uri=True)
        with contextlib.closing(database):
            return database.execute(query).fetchall()

    def compare(self, *, trials: int = 9, lost: int | None = 0) -> None:
        """Wait for the end; what ran and what is recorded must agree row by row.

        ``lost``: how many attempts ended by the loss of their host (None: any number); each is followed by
        another, and all others have run once, from their start to their end.
        """
        self.done(LIMIT_S)
        ended = self.rows("SELECT job_id, end_reason, exit_code, frames FROM jobs")
        good = sorted(row for row in ended if row[1] == "exited")
        ran = self.attempts()
        assert {each.starts for each in ran.values()} == {1}, "an attempt has started twice"
        whole = {job: each.metrics for job, each in ran.items() if each.ended}
        assert good == [(job, "exited", 0, METRICS) for job in sorted(whole)], ended
        if lost is not None:
            assert len(ended) - len(good) == lost, ended
        statuses = [row[0] for row in self.rows("SELECT status FROM trials")]
        assert statuses == ["SUCCEEDED"] * trials, statuses
        recorded: dict[str, list[tuple[int, str, str]]] = {}
        for trial_id, attempt, position, kind, text in self.rows(
            "SELECT trial_id, attempt, position, type, text FROM metrics ORDER BY number"
        ):
            recorded.setdefault(f"exp-{trial_id}-{attempt}", []).append((position, kind, text))
        assert {job: rows for job, rows in recorded.items() if job in whole} == whole
        for job in recorded.keys() - whole.keys():  # of a lost attempt: a beginning of what it reported
            assert recorded[job] == ran[job].metrics[: len(recorded[job])], job


@contextlib.contextmanager
def field(
    directory: Path, bed: Bed, machines: list[Machine], *options: str, kind: type[Field] = Field
) -> Iterator[Field]:
    """A server that logs in as the bed's client, for an experiment on these machines."""
    with nothing_left(directory), contextlib.ExitStack() as servers:

        def serve(port: int | None = None) -> Server:
            environ = {"HOME": str(bed.client), "SSH_AUTH_SOCK": ""}
            return servers.enter_context(serving(directory, *options, port=port, environ=environ))

        found = kind(serve, directory, machines)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")
