"""The server's own machine as a platform: one keeper per experiment runs its trials there."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

import trial_keeper
from training_services.addresses import Reach
from training_services.base import ExperimentContext, FileListing, ServiceError, TrialJobSpec
from training_services.keepers.host import (
    JobFiles,
    KeeperFiles,
    KeeperHost,
    read_manager_file,
    start_order,
    write_manager_file,
)
from training_services.keepers.jobs import StartOrder
from training_services.keepers.names import LOCAL
from training_services.logs import FolderFiles, LogFile, folder_file, folder_listing
from training_services.machines.file_check import FileCheck
from training_services.machines.process import WatchedProcess, launch, lock_holder
from training_services.machines.service import MachineService
from training_services.placement.ledger import Host
from training_services.placement.needs import Wants
from training_services.platform import ConfigFault, PlatformConfig, gpu_faults
from training_services.tools import ServiceTools
from trial_keeper.actions import journal
from trial_keeper.core import recovery
from trial_keeper.log import STARTS

__all__ = ["LocalConfig", "LocalService", "continue_keeper", "faults"]

LEAVE_S = 3.0  # longest wait for a keeper's end after the order to exit, and again after SIGKILL
_START_BYTES = 64 << 10  # most bytes of the log of a keeper's start
LOOK_S = 0.1  # pause between two reads of a log that is followed


def _indices(value: Any) -> Any:
    """Convert GPU indices to a list and check them. NNI accepts a list, a number, or a text like "0, 1"."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() for part in value):
            raise ValueError("must be GPU numbers with commas between them")
        value = [int(part) for part in value]
    elif isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, list | tuple) and all(type(index) is int for index in value):
        if len(set(value)) != len(value) or any(index < 0 for index in value):
            raise ValueError("must be different numbers from 0 up")
    return value


class LocalConfig(PlatformConfig):
    """Configuration of the platform: ``trainingService`` with ``platform: local``. It has NNI's fields.

    ``reuseMode`` is accepted and has no effect: trials are always started from a warm process.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    shares_storage: ClassVar[bool] = True
    beside_server: ClassVar[bool] = True

    platform: Literal["local"] = "local"
    use_active_gpu: bool | None = None
    max_trial_number_per_gpu: Annotated[int, Field(gt=0)] = 1
    gpu_indices: Annotated[list[int] | None, BeforeValidator(_indices)] = None
    reuse_mode: bool = False

    def sizes_each_trial(self) -> bool:
        return True


def faults(config: LocalConfig, wants: Wants) -> Iterator[ConfigFault]:
    """Yield the errors in a configuration for this machine. ``wants``: resources that each job needs."""
    if wants.gpus and config.use_active_gpu is None:
        yield ConfigFault(
            ("useActiveGpu",),
            "must be set to true or false if trialGpuNumber is above 0 (usually false: trials do not use "
            "GPUs on which other programs run)",
        )
    yield from gpu_faults(config, (), wants.gpus)


class LocalKeeper(KeeperHost):
    """Keeper of one experiment on this machine. Its directory is ``keeper`` in the experiment's folder."""

    keeper_id = LOCAL
    beside_server = True
    call_margin = timedelta(seconds=10)  # shorter than for other hosts, because no network delays the calls

    def __init__(self, context: ExperimentContext, config: LocalConfig, tools: ServiceTools) -> None:
        self.host = Host(
            id="local",
            name="this machine",
            gpu_indices=None if config.gpu_indices is None else tuple(config.gpu_indices),
            use_active_gpu=bool(config.use_active_gpu),
            max_jobs_per_gpu=config.max_trial_number_per_gpu,
        )
        self.wants = Wants.of(context)
        self._context = context
        self._tools = tools
        self._directory = context.directory.resolve() / "keeper"
        self._check = FileCheck(
            partial(_missing, context.trial_code_directory, context.python),
            hangs=f"waits for the disk of the trial code's directory {context.trial_code_directory} or of "
            f"the Python interpreter {context.python}, which does not answer",
            answered=lambda: self.changed(),
        )
        self._launched: WatchedProcess | None = None  # keeper started by a call of ``keep`` that was canceled

    async def read_manager(self) -> Mapping[str, Any] | None:
        return read_manager_file(self._directory)

    async def reach(self) -> Reach:
        doors = self._tools.doors
        return await (doors.network("127.0.0.1") if self._knows_only_ports() else doors.local())

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        folder = self._directory.parent
        # Do not create a missing folder: the user may have moved the experiment's folder, and move it back.
        if not folder.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "the experiment's folder is missing; move it back", str(folder)
            )
        write_manager_file(self._directory, manager)

    async def keep(self) -> None:
        process = self._taken()
        if process is not None:
            await self._watch(process)
            return
        log = self._directory / "keeper.log"
        written = log.stat().st_size if log.exists() else 0
        process = await self._launch(log)
        if process is not None:
            await self._watch(process)
        error = _start_error(log, written)
        if error is not None:
            raise ServiceError(f"the keeper has ended; the end of its log: {error}")

    async def _watch(self, process: WatchedProcess) -> None:
        """Return when the keeper has ended."""
        try:
            await process.ended()
        except asyncio.CancelledError:
            # Remember the process, because ``_find`` finds a keeper only after it has locked its file.
            self._launched = process
            raise
        process.close()

    async def end(self, *, told: bool) -> None:
        process = self._taken()
        if process is None:
            return
        try:
            for number in (None, signal.SIGKILL) if told else (signal.SIGKILL,):
                with contextlib.suppress(TimeoutError):
                    if number is not None:
                        process.send(number)
                    async with asyncio.timeout(LEAVE_S):
                        await process.ended()
                    return
        except ProcessLookupError:
            return
        finally:
            process.close()

    async def revive(self) -> None:
        process = self._find()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send(signal.SIGKILL)
            process.close()

    def is_without_keeper(self) -> bool:
        process = self._launched or self._find()
        if process is not None and process is not self._launched:
            process.close()
        return process is None

    async def close(self) -> None:
        self._check.close()
        if self._launched is not None:
            self._launched.close()
            self._launched = None

    def obstacle(self) -> str | None:
        return self._check.obstacle()

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        folder = self._context.shared_folder
        return start_order(
            self._context,
            job,
            gpus,
            platform="local",
            storage=None if folder is None else folder.local,
            beside_server=True,
        )

    def files(self) -> KeeperFiles:
        return FolderFiles(self._context.directory)

    async def read_log(
        self, job: JobFiles, name: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        file = LogFile(self._context.directory, job.parts, name)
        try:
            if tail is not None:
                await asyncio.to_thread(file.seek_tail, tail)
            while True:
                # Check for the trial's end before the file is read, so that its last output is not missed.
                running = follow and job.is_open()
                while chunk := file.read():
                    yield chunk
                if not running:
                    return
                await job.ended(LOOK_S)
        finally:
            file.close()

    async def read_file(self, job: JobFiles, path: str) -> AsyncGenerator[bytes, None]:
        async with aclosing(folder_file(self._context.directory, job.parts, path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def list_files(self, job: JobFiles) -> FileListing:
        return await folder_listing(self._context.directory, job.parts)

    def _command(self) -> list[str]:
        package = Path(trial_keeper.__file__).parent
        return [self._context.python, "-S", "-E", str(package), str(self._directory)]

    async def _launch(self, log: Path) -> WatchedProcess | None:
        """Start a keeper and return its process.

        If the caller is canceled, wait until the keeper has started, so that it does not run unnoticed.
        """
        launching = asyncio.ensure_future(launch(self._command(), environ=self._context.environ, output=log))
        try:
            return await asyncio.shield(launching)
        except asyncio.CancelledError:
            await asyncio.wait({launching})
            if launching.exception() is None:
                self._launched = launching.result()
            raise

    def _knows_only_ports(self) -> bool:
        """Return True if a keeper of an earlier version of nnimgr may run, which cannot use Unix sockets.

        Such a keeper calls the server at an address with a port, until the keeper ends.
        """
        manager = read_manager_file(self._directory) or {}
        if not any(str(url).startswith(("http://", "https://")) for url in manager.get("urls", ())):
            return False
        process = self._find()
        if process is None:
            return False
        process.close()
        return True

    def _taken(self) -> WatchedProcess | None:
        """Return the process of the running keeper, or None. The caller must close the returned object."""
        process, self._launched = self._launched, None
        return process or self._find()

    def _find(self) -> WatchedProcess | None:
        """Return the process of this experiment's keeper, whichever server has started it, or None."""
        process = lock_holder(self._directory / "lock")
        if process is None or process.arguments()[-1:] == [str(self._directory)]:
            return process
        process.close()  # the lock is held on another file system, on a file with the same inode number
        return None


def _missing(code: Path, python: str) -> str | None:
    """Return a sentence about what the trials lack on this machine, or None."""
    if not os.path.isdir(code):
        return f"waits for the trial code's directory {code}, which is missing"
    if shutil.which(python) is None:
        return f"waits for the Python interpreter {python}, which is missing"
    return None


def _start_error(log: Path, written: int) -> str | None:
    """Return the last line of a keeper's log if the keeper could not work, else None.

    ``written``: size of the log before the keeper was started.
    """
    try:
        with log.open("rb") as file:
            file.seek(written)
            lines = file.read(_START_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return None
    if any(STARTS in line for line in lines):
        return None
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def continue_keeper(directory: Path, *, instance: str, last_cmd: int) -> None:
    """Write the files with which the next keeper continues the one of a copied experiment's original.

    The keeper's own files are not copied, but its checkpoints are, and they count only for this instance. No
    trial runs in the copy. ``directory``: the experiment's folder. ``last_cmd``: number of the last command
    that the original keeper may have got. Raises OSError.
    """
    folder = directory / "keeper"
    folder.mkdir(mode=0o700, exist_ok=True)
    ended = recovery.DurableState([{"k": "nop", "seq": last_cmd}])
    journal.rewrite(str(folder / "journal"), ended.records())
    journal.replace(str(folder / "instance"), instance.encode("ascii"))


class LocalService(MachineService):
    """Training service that runs trials on this machine, in the trial code's own directory."""

    def __init__(self, context: ExperimentContext, config: LocalConfig, tools: ServiceTools) -> None:
        super().__init__(context, tools, LocalHosts(context, config, tools).all())


class LocalHosts:
    """Hosts of the local platform: only this machine, with one keeper per experiment."""

    def __init__(self, context: ExperimentContext, config: LocalConfig, tools: ServiceTools) -> None:
        self._context, self._config, self._tools = context, config, tools

    def all(self) -> list[KeeperHost]:
        return [LocalKeeper(self._context, self._config, self._tools)]
