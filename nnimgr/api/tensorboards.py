"""Start of TensorBoards by requests: finds the trials, their files, and the Python that runs TensorBoard."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

from nnimgr.api.dependencies import ApiParts, NotFound
from nnimgr.api.trial_paths import TrialPaths
from nnimgr.config import read_canonical
from nnimgr.config.shared_storage import shared_folder
from nnimgr.core.managing.folder import Surroundings
from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import ExperimentReader, TrialRow
from nnimgr.tensorboard.process import Interpreter
from nnimgr.tensorboard.tasks import MOST_TRIALS, Place, Task, TensorBoardRefused
from nnimgr.tensorboard.trials import FOLDERS, LoggedTrial
from training_services.base import FileListing
from training_services.keepers.host import attempt_folder
from training_services.keepers.names import LOCAL, why_no_files

__all__ = ["refresh_tensorboard", "start_tensorboard"]

_OUTPUT = "tensorboard"


async def start_tensorboard(parts: ApiParts, experiment_id: str, trial_ids: Sequence[str] | None) -> Task:
    """Start a TensorBoard over these trials, or over all trials that have been started.

    Raise NotFound, TensorBoardMissing or TensorBoardRefused.
    """
    directory = parts.manager.directory(experiment_id)
    place = Place(directory=directory, sockets=parts.manager.home.private_path, server=str(parts.port))
    trials = await _trials(parts, experiment_id, trial_ids)
    creator = await asyncio.to_thread(_creator, directory)
    return await parts.tensorboards.start(experiment_id, place, trials, creator)


async def refresh_tensorboard(parts: ApiParts, task: Task) -> None:
    """Let a TensorBoard (``task``) read the files of its trials again, including files of attempts that have
    begun since.
    """
    known = [trial.trial_id for trial in task.trials]
    await task.refresh(await _trials(parts, task.experiment_id, known))


async def _trials(
    parts: ApiParts, experiment_id: str, trial_ids: Sequence[str] | None
) -> Sequence[LoggedTrial]:
    reader, paths = parts.manager.reader(experiment_id), parts.trial_paths(experiment_id)

    def read() -> list[LoggedTrial]:
        row = reader.experiment()
        shared = shared_folder(read_canonical({**row.config, "searchSpace": row.search_space}))
        storage = None if shared is None else Path(shared.local)
        return [_trial(parts, paths, trial, job, storage=storage) for trial, job in _jobs(reader, trial_ids)]

    return await asyncio.to_thread(read)


def _jobs(reader: ExperimentReader, trial_ids: Sequence[str] | None) -> list[tuple[TrialRow, JobRow]]:
    """Return these trials, or all trials, with their latest attempts. Trials that were never started are left
    out.

    Raise NotFound, or TensorBoardRefused if there are too many trials or none.
    """
    wanted = None if trial_ids is None else list(dict.fromkeys(trial_ids))
    if wanted is not None and len(wanted) > MOST_TRIALS:
        raise TensorBoardRefused(f"A TensorBoard shows at most {MOST_TRIALS} trials, not {len(wanted)}.")
    if wanted is None:
        rows = reader.trials_from(0, statuses=(), limit=MOST_TRIALS + 1)
        if len(rows) > MOST_TRIALS:
            raise TensorBoardRefused(
                f"The experiment has more than {MOST_TRIALS} trials, the limit of a TensorBoard: choose "
                "trials, for example with nnictl tensorboard start --trial_id 0,3,7"
            )
    else:
        found = reader.trials_of(wanted)
        if (missing := next((each for each in wanted if each not in found), None)) is not None:
            raise NotFound(f"There is no trial {missing}.")
        rows = [found[each] for each in wanted]
    started = [(row, jobs[-1]) for row in rows if (jobs := reader.jobs(row.trial_id))]
    chosen = [(row, job) for row, job in started if why_no_files(job.keeper_id) is None]
    if started and not chosen:
        row, job = started[-1]
        raise TensorBoardRefused(
            f"Trial {row.title} {why_no_files(job.keeper_id)}, so nnimgr has no files of it."
        )
    if not chosen:
        raise TensorBoardRefused("None of the trials has been started, so there are no files to show.")
    return chosen


def _trial(
    parts: ApiParts, paths: TrialPaths, row: TrialRow, job: JobRow, *, storage: Path | None
) -> LoggedTrial:
    run = f"{row.sequence}-{row.trial_id}"
    if storage is not None:
        output = storage / "nni" / paths.experiment_id / "trials" / row.trial_id / "nnioutput" / _OUTPUT
        return LoggedTrial(
            trial_id=row.trial_id, sequence=row.sequence, shown=str(output), folders={run: output}
        )
    shown = f"{paths.log_path(job, job.keeper_id)}/{_OUTPUT}"
    if job.keeper_id not in (None, LOCAL):
        return LoggedTrial(
            trial_id=row.trial_id,
            sequence=row.sequence,
            shown=shown,
            folders={},
            distant=_Files(parts, paths.experiment_id, job),
        )
    attempt = paths.directory.joinpath(*attempt_folder(row.trial_id, job.attempt))
    return LoggedTrial(
        trial_id=row.trial_id,
        sequence=row.sequence,
        shown=shown,
        folders={run + suffix: attempt / folder for folder, suffix in FOLDERS.items()},
    )


class _Files:
    """Files of one attempt, read on the machine where it ran."""

    def __init__(self, parts: ApiParts, experiment_id: str, job: JobRow) -> None:
        self._parts, self._experiment_id, self._job = parts, experiment_id, job

    async def listing(self) -> FileListing:
        return await self._parts.list_files(self._job, experiment_id=self._experiment_id)

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        source = self._parts.read_file(self._job, path, experiment_id=self._experiment_id)
        async with aclosing(cast("AsyncGenerator[bytes, None]", source)) as chunks:
            async for chunk in chunks:
                yield chunk


def _creator(directory: Path) -> Interpreter:
    """Return the Python and the environment with which a user created the experiment, or else those of the
    server.
    """
    try:
        around = Surroundings.read(directory)
    except (OSError, ValueError, KeyError):  # the experiment has come from another machine
        return Interpreter(sys.executable, os.environ)
    return Interpreter(around.python, around.environ)
