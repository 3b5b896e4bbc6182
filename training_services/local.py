"""This machine: one keeper per experiment, beside the server."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

import trial_keeper
from training_services.base import ExperimentContext, TrialJobSpec
from training_services.keeper_link import StartOrder
from training_services.keeper_service import KeeperHost, KeeperService, ServiceTools
from training_services.logs import LogFile
from training_services.placement import Host
from training_services.process import WatchedProcess, launch, lock_holder

__all__ = ["KEEPER_ID", "LocalConfig", "LocalService"]

KEEPER_ID = "local"
LOG_CAP = 1 << 30  # bytes of output kept of a trial
LEAVE_S = 5.0  # for a keeper that was told to leave, and again after SIGTERM
LOOK_S = 0.1  # between looks at a file that is followed


def _indices(value: Any) -> Any:
    """NNI takes a list, one number, or numbers with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() for part in value):
            raise ValueError("must be numbers of GPUs, with commas between them")
        value = [int(part) for part in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, list | tuple) and all(type(index) is int for index in value):
        if len(set(value)) != len(value) or any(index < 0 for index in value):
            raise ValueError("must be different numbers, none of them negative")
    return value


class LocalConfig(BaseModel):
    """``trainingService`` with ``platform: local``: NNI's fields.

    ``reuseMode`` is accepted and changes nothing: trials are started from a warm process in any case.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    platform: Literal["local"] = "local"
    use_active_gpu: bool | None = None
    max_trial_number_per_gpu: Annotated[int, Field(gt=0)] = 1
    gpu_indices: Annotated[list[int] | None, BeforeValidator(_indices)] = None
    reuse_mode: bool = False


class LocalKeeper(KeeperHost):
    """The keeper of one experiment on this machine, in ``<experiment>/keeper``."""

    keeper_id = KEEPER_ID

    def __init__(self, directory: Path, *, python: str, environ: Mapping[str, str], host: Host) -> None:
        self.host = host
        self._directory = directory
        self._python = python
        self._environ = environ
        self._launched: WatchedProcess | None = None  # by a ``keep`` that was cancelled

    async def read_manager(self) -> Mapping[str, Any] | None:
        try:
            manager = json.loads((self._directory / "manager.json").read_bytes())
        except (OSError, ValueError):
            return None
        return manager if isinstance(manager, dict) else None

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._directory / "manager.json.new"
        content = json.dumps(manager).encode()
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(new)) from error
        finally:
            os.close(descriptor)
        new.rename(self._directory / "manager.json")

    async def keep(self) -> None:
        process = self._find() or await self._launch()
        if process is None:
            return
        try:
            await process.ended()
        finally:
            process.close()

    async def end(self, *, told: bool) -> None:
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            process = self._launched or self._find()
            self._launched = None
            if process is None:
                return
            try:
                if number is not None:
                    process.send(number)
                elif not told:
                    continue
                async with asyncio.timeout(LEAVE_S):
                    await process.ended()
                return
            except (TimeoutError, ProcessLookupError):
                continue
            finally:
                process.close()

    async def close(self) -> None:
        if self._launched is not None:
            self._launched.close()
            self._launched = None

    def _command(self) -> list[str]:
        package = Path(trial_keeper.__file__).parent
        return [self._python, "-S", "-E", str(package), str(self._directory)]

    async def _launch(self) -> WatchedProcess | None:
        """Start a keeper. Whoever is cancelled meanwhile waits for it: none is started behind our back."""
        launching = asyncio.ensure_future(
            launch(
                self._command(),
                environ=self._environ,
                python=self._python,
                output=self._directory / "keeper.log",
            )
        )
        try:
            return await asyncio.shield(launching)
        except asyncio.CancelledError:
            await asyncio.wait({launching})
            if launching.exception() is None:
                self._launched = launching.result()
            raise

    def _find(self) -> WatchedProcess | None:
        """The keeper that runs, whoever has started it."""
        process = lock_holder(self._directory / "lock")
        if process is None or process.arguments()[-1:] == [str(self._directory)]:
            return process
        process.close()  # the inode of another file system
        return None


class LocalService(KeeperService):
    """Runs trials on this machine, in the trial code's own directory."""

    def __init__(self, context: ExperimentContext, config: LocalConfig, tools: ServiceTools) -> None:
        super().__init__(context, tools)
        self._config = config
        self._ends: dict[str, list[asyncio.Future[None]]] = {}

    async def find_hosts(self) -> Sequence[KeeperHost]:
        context, config = self.context, self._config
        host = Host(
            id="local",
            name="this machine",
            gpu_indices=None if config.gpu_indices is None else tuple(config.gpu_indices),
            use_active_gpu=bool(config.use_active_gpu),
            max_jobs_per_gpu=config.max_trial_number_per_gpu,
        )
        directory = context.directory.resolve() / "keeper"
        return [LocalKeeper(directory, python=context.python, environ=context.environ, host=host)]

    def obstacle(self) -> str | None:
        context = self.context
        if not context.trial_code_directory.is_dir():
            return f"waits for the trial code's directory {context.trial_code_directory}, which is missing"
        if shutil.which(context.python) is None:
            return f"waits for the Python interpreter {context.python}, which is missing"
        return None

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        context = self.context
        code = str(context.trial_code_directory)
        environment: dict[str, str | None] = {
            "NNI_PLATFORM": "local",
            "NNIMGR_PLATFORM": "local",
            "NNI_EXP_ID": context.experiment_id,
            "NNI_TRIAL_JOB_ID": job.trial_id,
            "NNI_TRIAL_SEQ_ID": str(job.sequence),
            "NNI_CODE_DIR": code,
            # What the user's own environment may hold of another experiment.
            "NNI_TRIAL_COMMAND_CHANNEL": None,
            "REUSE_MODE": None,
            "MULTI_PHASE": "true" if context.multi_phase else None,
        }
        if context.trial_gpu_number is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
        if gpus:
            environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbers as nvidia-smi gives them
        return {
            "trial_id": job.trial_id,
            "attempt": job.attempt,
            "directory": "/".join(_place_of(job.trial_id, job.attempt)),
            "command": context.trial_command,
            "cwd": code,
            "environment": environment,
            "parameter": job.parameter_text,
            "log_cap": LOG_CAP,
        }

    async def read_log(self, job_id: str, name: str, *, follow: bool) -> AsyncIterator[bytes]:
        _, trial_id, attempt = job_id.rsplit("-", 2)
        parts = _place_of(trial_id, int(attempt))
        file = LogFile(self.context.directory, parts, name)
        try:
            while True:
                running = follow and self.is_open(job_id)  # asked first: what it wrote last is read after
                while chunk := file.read():
                    yield chunk
                if not running:
                    return
                await self._ended(job_id, LOOK_S)
        finally:
            file.close()

    def job_ended(self, job_id: str) -> None:
        for waiter in self._ends.pop(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _ended(self, job_id: str, seconds: float) -> None:
        """Wait for the end of the job, but not longer than this."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._ends.setdefault(job_id, [])
        waiters.append(waiter)
        await asyncio.wait({waiter}, timeout=seconds)
        if not waiter.done():
            waiters.remove(waiter)
            if not waiters:
                self._ends.pop(job_id, None)


def _place_of(trial_id: str, attempt: int) -> tuple[str, ...]:
    """The directory of an attempt, below the experiment's."""
    first = ("trials", trial_id)
    return first if attempt == 1 else (*first, f"attempt-{attempt}")
