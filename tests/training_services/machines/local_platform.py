"""Platform of this machine for the contract suite, and the scripts that its trials run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from tests.gpus import ScriptedGpus
from tests.processes import kill
from tests.training_services.hosting import serve
from training_services.base import ExperimentContext
from training_services.keepers.hub import KeeperHub
from training_services.machines.local import LocalConfig, LocalService
from training_services.machines.process import WatchedProcess, lock_holder
from training_services.placement.ledger import HostLedger
from training_services.testing import Behaviour, ContractPlatform
from training_services.tools import ServiceTools

P = TypeVar("P", bound="LocalPlatform")

PRELUDE = """
frame() {
    printf 'ME%06d%s\\n' $((${#1} + 1)) "$1" >> "$NNI_SYS_DIR/.nni/metrics"
}
report() {
    body='{"parameter_id": 0, "trial_job_id": "'$NNI_TRIAL_JOB_ID'", "type": "'$1'", "sequence": '$2
    frame "$body, \\"value\\": \\"$3\\"}"
}
saved() {
    body='{"type": "CHECKPOINT", "trial_job_id": "'$NNI_TRIAL_JOB_ID'", "sequence": '$1', "step": '$2
    frame "$body, \\"size\\": 2, \\"files\\": 1, \\"asked\\": false}"
}
"""
REPORT = """
echo hello
report PERIODICAL 0 1
report PERIODICAL 1 2
report FINAL 0 3
"""
CONTINUE = """
number=1
if [ -n "$NNI_RESUME_DIR" ]; then number=$(($(cat "$NNI_RESUME_DIR/value.bytes") + 1)); fi
report PERIODICAL 0 $number
mkdir -p "$NNI_CHECKPOINT_DIR/1"
echo $number > "$NNI_CHECKPOINT_DIR/1/value.bytes"
saved 1 $number
report FINAL 0 $number
"""
SCRIPTS = {
    Behaviour.CONTINUES: CONTINUE,
    Behaviour.REPORTS: REPORT,
    Behaviour.REPORTS_LATER: 'until read -r word < "$NNI_TRIAL_JOB_ID.gate"; do :; done\n' + REPORT,
    Behaviour.SLEEPS: "setsid sleep 1000 &\nsleep 1000\n",
}


class LocalPlatform(ContractPlatform):
    def __init__(self, directory: Path, tools: ServiceTools) -> None:
        self.directory = directory
        self.code = directory / "code"
        self.code.mkdir()
        self.tools = tools
        self.config = LocalConfig()
        self.gpu_number: float | None = None
        self.silent_after = timedelta(seconds=30)
        self.lease: timedelta | None = None
        self.environ = {**os.environ}
        self.python = sys.executable

    def make(self) -> LocalService:
        return LocalService(self.context(), self.config, self.tools)

    def context(self) -> ExperimentContext:
        (self.directory / "contract").mkdir(exist_ok=True)
        return ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=". ./$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=self.gpu_number,
            python=self.python,
            environ=self.environ,
            silent_after=self.silent_after,
            lease=self.lease,
        )

    def give_gpus(self, number: float, *indices: int) -> ScriptedGpus:
        """Let each trial ask for ``number`` of the GPUs ``indices``."""
        self.gpu_number = number
        gpus = ScriptedGpus(self.directory, *indices)
        self.environ.update(gpus.environ)
        return gpus

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        self.script(trial_id, SCRIPTS[behaviour])

    def script(self, trial_id: str, body: str) -> None:
        (self.code / f"{trial_id}.sh").write_text(PRELUDE + body)
        os.mkfifo(self.code / f"{trial_id}.gate")

    def release(self, trial_id: str) -> None:
        (self.code / f"{trial_id}.gate").write_text("go\n")

    def processes(self, trial_id: str) -> int:
        return len(self._pids(f"/{trial_id}\0"))

    def kill_trials(self) -> None:
        kill(*self._pids("/"))

    def _pids(self, tail: str) -> list[int]:
        mark = f"\0NNI_SYS_DIR={self.directory}/contract/trials{tail}".encode()
        found = [process for process in Path("/proc").glob("[0-9]*/environ") if mark in _content(process)]
        return [int(process.parent.name) for process in found]

    @property
    def keeper_directory(self) -> Path:
        return self.directory / "contract" / "keeper"

    def keeper(self) -> WatchedProcess | None:
        return lock_holder(self.keeper_directory / "lock")

    async def kill_keeper(self) -> None:
        keeper = self.keeper()
        assert keeper is not None
        keeper.send(signal.SIGKILL)
        await keeper.ended()
        keeper.close()


@asynccontextmanager
async def opened_platform(kind: type[P], directory: Path) -> AsyncIterator[P]:
    """Platform with a door of its own; nothing of it runs afterwards."""
    hub = KeeperHub()
    async with serve(hub) as doors:
        platform = kind(directory, ServiceTools(hub=hub, ledger=HostLedger(), doors=doors))
        yield platform
    if (keeper := platform.keeper()) is not None:  # only after a failed test
        keeper.close()
        await platform.kill_keeper()
        platform.kill_trials()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
