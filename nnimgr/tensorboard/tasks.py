"""All TensorBoards of a server: they are started, listed and stopped, and end with the server.

As in NNI, one TensorBoard is called a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from nnimgr.tensorboard.copies import Copies
from nnimgr.tensorboard.process import Interpreter, TensorBoardProcess, find_interpreter
from nnimgr.tensorboard.trials import LoggedTrial
from training_services.private import make_private_folder

__all__ = ["MOST_TRIALS", "Place", "Status", "Task", "TensorBoardRefused", "TensorBoards", "UnknownTask"]

MOST_TASKS = 8  # running TensorBoards of one server; each takes some 200 MiB
MOST_TRIALS = 200
_MOST_ENDED = 20  # ended tasks that the list still shows
_REFRESH_S = 30.0
_PAUSE = 10  # a refresh is followed by a pause of at least this many times its duration

logger = logging.getLogger(__name__)


class TensorBoardRefused(Exception):
    """Error: the TensorBoard cannot be started. The message is one sentence for the user."""


class UnknownTask(Exception):
    """Error: the experiment has no TensorBoard with this id."""


class Status(StrEnum):
    """Status of a TensorBoard, with NNI's names."""

    RUNNING = "RUNNING"
    DOWNLOADING_DATA = "DOWNLOADING_DATA"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    ERROR = "ERROR"
    FAIL_DOWNLOAD_DATA = "FAIL_DOWNLOAD_DATA"

    @property
    def lives(self) -> bool:
        return self not in (Status.STOPPED, Status.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of the files and sockets of an experiment's TensorBoards.

    ``directory``: the experiment's folder. ``sockets``: folder that only the server's user can enter.
    ``server``: name of the server, which is part of the file names.
    """

    directory: Path
    sockets: Path
    server: str

    def folder(self, task_id: str) -> Path:
        return self.directory / "tensorboard" / f"{self.server}-{task_id}"

    def socket(self, task_id: str) -> Path:
        return self.sockets / f"tensorboard-{self.server}-{task_id}.sock"

    def clean(self, task_ids: Sequence[str]) -> None:
        """Remove files that an earlier process of this server left, except those of these TensorBoards."""
        kept = {path for task_id in task_ids for path in (self.folder(task_id), self.socket(task_id))}
        for path in self.folder("").parent.glob(f"{self.server}-*"):
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)
        for path in self.sockets.glob(f"tensorboard-{self.server}-*.sock"):
            if path not in kept:
                path.unlink(missing_ok=True)


class Task:
    """One TensorBoard that shows some trials of an experiment."""

    def __init__(
        self, task_id: str, experiment_id: str, place: Place, *, refresh_s: float = _REFRESH_S
    ) -> None:
        self.id, self.experiment_id = task_id, experiment_id
        self.trials: Sequence[LoggedTrial] = ()
        self.status = Status.DOWNLOADING_DATA
        self.started_at = datetime.now(UTC)
        self._reason: str | None = None  # how the process has ended
        self._folder, self._socket = place.folder(task_id), place.socket(task_id)
        self._logdir = self._folder / "runs"
        self._copies = Copies(self._logdir)
        self._process: TensorBoardProcess | None = None
        self._wanted = asyncio.Event()  # set to refresh the copies now
        self._refresh_s = refresh_s
        self._keeping: asyncio.Task[None] | None = None

    @property
    def prefix(self) -> str:
        """Path of this TensorBoard in the server's URLs."""
        return f"/tensorboard/{self.id}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def address(self) -> str | None:
        """Path of the Unix socket of the TensorBoard, or None if it does not run."""
        return self._process.address if self._process is not None and self.status.lives else None

    @property
    def message(self) -> str | None:
        """Sentence about what is wrong with this TensorBoard, or None."""
        return self._reason or self._copies.notice

    async def start(self, interpreter: Interpreter, trials: Sequence[LoggedTrial]) -> None:
        """Start the TensorBoard process, and start to copy files from other machines. Raise OSError."""
        try:
            await asyncio.to_thread(make_private_folder, self._logdir)
            await self._link(trials)
            if not any(trial.distant for trial in trials):
                self.status = Status.RUNNING
            self._process = await TensorBoardProcess.start(
                interpreter,
                socket_path=self._socket,
                folder=self._folder,
                logdir=self._logdir,
                prefix=self.prefix,
            )
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            raise
        self._keeping = asyncio.create_task(self._keep(self._process), name=f"tensorboard:{self.id}")

    async def refresh(self, trials: Sequence[LoggedTrial]) -> None:
        """Read the trials' files again now, instead of at the next regular refresh."""
        await self._link(trials)
        if self.status.lives and any(trial.distant for trial in trials):
            self.status = Status.DOWNLOADING_DATA
            self._wanted.set()

    async def stop(self) -> None:
        """End the TensorBoard process. Return when the process has ended."""
        if self.status.lives:
            self.status = Status.STOPPING
        if self._process is not None:
            self._process.kill()
        if self._keeping is not None:
            await asyncio.shield(self._keeping)

    async def wait(self) -> None:
        """Wait until the TensorBoard process has ended."""
        if self._keeping is not None:
            await asyncio.shield(self._keeping)

    async def _link(self, trials: Sequence[LoggedTrial]) -> None:
        """Link each folder of event files on this machine into the folder that TensorBoard reads."""

        def link() -> None:
            for trial in trials:
                # Remove links to an earlier attempt of the trial, which may have run on this machine.
                for run in () if trial.distant is None else trial.runs:
                    if (self._logdir / run).is_symlink():
                        (self._logdir / run).unlink()
                for run, folder in trial.folders.items():
                    path = self._logdir / run
                    if (
                        path.is_symlink() and path.readlink() != folder
                    ):  # the link leads to an earlier attempt
                        path.unlink()
                    if not path.is_symlink():
                        path.symlink_to(folder)

        await asyncio.to_thread(link)
        self.trials = trials

    async def _keep(self, process: TensorBoardProcess) -> None:
        """Copy files from other machines until the TensorBoard process ends. Then record how it ended."""
        copying = asyncio.create_task(self._copy(), name=f"tensorboard-copies:{self.id}")
        try:
            sentence = await process.ended()
        finally:
            copying.cancel()
            await asyncio.wait({copying})
        if self.status is Status.STOPPING:
            self.status = Status.STOPPED
        else:
            self.status, self._reason = Status.ERROR, sentence
            logger.warning("experiment %s: %s", self.experiment_id, sentence)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _copy(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wanted.clear()
            begun = loop.time()
            try:
                brought = await self._copies.refresh(self.trials)
            except Exception:  # an error in the copying must not end the TensorBoard
                logger.exception("the files of experiment %s cannot be copied", self.experiment_id)
                brought = False
            if self.status in (Status.DOWNLOADING_DATA, Status.RUNNING, Status.FAIL_DOWNLOAD_DATA):
                self.status = Status.RUNNING if brought else Status.FAIL_DOWNLOAD_DATA
            pause = max(self._refresh_s, _PAUSE * (loop.time() - begun))
            if not any(trial.distant for trial in self.trials):
                await self._wanted.wait()
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()


class TensorBoards:
    """All TensorBoards of the server. ``refresh_s``: seconds between two looks at files on other machines.

    ``now``: what is done to start a TensorBoard, as a sentence without a full stop. "": nothing is done.
    """

    def __init__(self, *, refresh_s: float = _REFRESH_S) -> None:
        self.now = ""
        self._tasks: dict[str, Task] = {}
        self._refresh_s = refresh_s
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(
        self, experiment_id: str, place: Place, trials: Sequence[LoggedTrial], creator: Interpreter
    ) -> Task:
        """Start a TensorBoard that shows these trials. Raise TensorBoardMissing or TensorBoardRefused."""
        async with self._starting:
            running = [task for task in self._tasks.values() if task.status.lives]
            if self._closed:
                raise TensorBoardRefused("The server is shutting down.")
            if len(running) >= MOST_TASKS:
                raise TensorBoardRefused(
                    f"{len(running)} TensorBoards run already, which is the limit of a server. Stop one: "
                    f"nnictl tensorboard stop {running[0].experiment_id} {running[0].id}"
                )
            try:
                interpreter = await find_interpreter(creator, self._tell)
            finally:
                self.now = ""
            await asyncio.to_thread(place.clean, list(self._tasks))
            task = Task(self._new_id(), experiment_id, place, refresh_s=self._refresh_s)
            try:
                await task.start(interpreter, trials)
            except OSError as error:
                raise TensorBoardRefused(f"TensorBoard could not be started: {error}.") from error
            self._tasks[task.id] = task
            self._forget()
        return task

    def of(self, experiment_id: str) -> list[Task]:
        """Return the TensorBoards of an experiment, oldest first."""
        return [task for task in self._tasks.values() if task.experiment_id == experiment_id]

    def get(self, experiment_id: str, task_id: str) -> Task:
        """Return the TensorBoard of an experiment with this id. Raise UnknownTask."""
        task = self._tasks.get(task_id)
        if task is None or task.experiment_id != experiment_id:
            raise UnknownTask(
                f"Experiment {experiment_id} has no TensorBoard {task_id}. "
                f"See: nnictl tensorboard list {experiment_id}"
            )
        return task

    def find(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    async def stop_all(self, experiment_id: str) -> None:
        """Stop all running TensorBoards of an experiment."""
        await asyncio.gather(*(task.stop() for task in self.of(experiment_id)))

    async def close(self) -> None:
        """Stop all TensorBoards. After that, no TensorBoard can be started."""
        async with self._starting:
            self._closed = True
        await asyncio.gather(*(task.stop() for task in self._tasks.values()))

    @property
    def idle(self) -> bool:
        """True if no TensorBoard of the server runs."""
        return not self.shown

    @property
    def shown(self) -> list[str]:
        """Ids of the experiments that running TensorBoards show."""
        return sorted({task.experiment_id for task in self._tasks.values() if task.status.lives})

    async def wait_idle(self) -> None:
        """Wait until no TensorBoard of the server runs."""
        while not self.idle:
            await asyncio.gather(*(task.wait() for task in self._tasks.values()))

    def _tell(self, sentence: str) -> None:
        self.now = sentence

    def _new_id(self) -> str:
        """Return a new id for a TensorBoard, in NNI's format: a letter, then letters and digits."""
        while True:
            source = random.SystemRandom()
            first = source.choice(string.ascii_letters)
            rest = "".join(source.choices(string.ascii_letters + string.digits, k=4))
            if first + rest not in self._tasks:
                return first + rest

    def _forget(self) -> None:
        ended = [task for task in self._tasks.values() if not task.status.lives]
        for task in ended[:-_MOST_ENDED]:
            del self._tasks[task.id]
