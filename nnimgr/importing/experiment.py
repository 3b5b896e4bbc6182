"""Creates a stopped experiment from trials of another program."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.config import ConfigError, ExperimentConfig, initial_sets, read_canonical
from nnimgr.config.parameter_sets import completed
from nnimgr.config.secrets import hide_secrets
from nnimgr.core.managing.folder import Surroundings, flush_folder, make_folder
from nnimgr.goal import optimize_mode
from nnimgr.home import Home
from nnimgr.identity import identity
from nnimgr.importing.history import ImportedHistory
from nnimgr.importing.spaces import space_of
from nnimgr.importing.trials import Foreigners, ForeignTrial, SourceError, expressible
from nnimgr.index import Index, IndexEntry, new_experiment_id, seed_of
from nnimgr.objectives import objectives_of
from nnimgr.rules import facts as f
from nnimgr.rules.terms import NO_COMMAND, TrialStatus
from nnimgr.store.writer import ExperimentWriter
from nnimgr.traits import traits_of

__all__ = ["create_imported", "goal_fault", "shown_config", "with_whole_reruns"]

_BESIDE = ".import-"  # beginning of the name of a folder that is being written


def shown_config(home: Home, found: Foreigners, directions: Mapping[str, str]) -> ExperimentConfig:
    """Return a configuration for trials that are only shown. A server does not resume the experiment.

    ``directions``: name of each number in a result -> "maximize" or "minimize"; {"": ...} for one number.
    Raise SourceError.
    """
    named = {name: direction for name, direction in directions.items() if name}
    fields: dict[str, Any] = {
        "experimentName": found.title.removeprefix("the "),
        "searchSpace": dict(found.space) or space_of(trial.parameters for trial in found.trials),
        "trialCommand": NO_COMMAND,
        "trialCodeDirectory": str(home.path),
        "trialConcurrency": 1,
        "maxTrialNumber": len(found.trials),
        "experimentWorkingDirectory": str(home.path),
        "tuner": {"name": "Random"},
        "trainingService": {"platform": "local"},
        **({"objectives": named} if named else {}),
        **({"goal": directions[""]} if "" in directions else {}),
    }
    try:
        return read_canonical(fields)
    except ConfigError as error:
        raise SourceError(f"{found.title} gives no valid experiment: {error}") from error


def goal_fault(config: Mapping[str, Any], found: Foreigners) -> str | None:
    """Return a sentence if the configuration's goal contradicts the source's; None if it does not.

    ``config``: in its canonical form. A source that does not state its goal contradicts none.
    """
    goals: Mapping[str, str] = objectives_of(config) or {"": optimize_mode(config)}
    for name, goal in goals.items():
        theirs = found.directions.get(name, found.directions.get("") if len(goals) == 1 else None)
        if theirs not in (None, goal):
            which = f"objectives.{name}" if name else "the goal"
            return f"{which} is {goal} in the configuration, and {theirs} in {found.title}"
    return None


def with_whole_reruns(config: ExperimentConfig, found: Foreigners) -> Foreigners:
    """Return the trials, in which those that a resume runs lack no parameter of the search space.

    The values that they lack are drawn, as for ``initialParameters``.
    """
    open_ = [trial for trial in found.trials if trial.rerun]
    own = (config.tuner.class_args or {}).get("seed", 0)
    sets = completed(config, (trial.parameters for trial in open_), seed=f"{own}/import")
    whole = iter([replace(trial, parameters=each) for trial, each in zip(open_, sets, strict=True)])
    return replace(found, trials=[next(whole) if trial.rerun else trial for trial in found.trials])


def create_imported(home: Home, config: ExperimentConfig, found: Foreigners) -> IndexEntry:
    """Create a stopped experiment with these trials, and return its entry in the index.

    The folder is written under another name, and renamed when it is complete. So if this process is killed,
    there is the whole experiment or none. Raise SourceError, StoreError, HomeError or OSError.
    """
    if config.multi_phase:
        raise SourceError("trials cannot be imported into an experiment with 'multiPhase'; leave it out")
    index = Index(home)
    home.prepare()
    parent = config.experiment_working_directory
    parent.mkdir(parents=True, exist_ok=True)
    known = index.entries()
    experiment_id = new_experiment_id(known)
    _remove_unfinished(parent, known)
    work = parent / f"{_BESIDE}{experiment_id}"
    with _held(work):
        try:
            history = _Import(config=config, found=found, now=datetime.now(UTC))
            began = asyncio.run(history.write(work / experiment_id))
            (work / experiment_id).rename(parent / experiment_id)
            flush_folder(parent)
            entry = IndexEntry(
                id=experiment_id,
                port=None,
                started_at=began,
                ended_at=history.now,
                status=f.ExperimentStatus.STOPPED.value,
                platform=config.platform,
                name=config.experiment_name or "",
                log_dir=str(parent),
            )
            index.add(entry)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    config: ExperimentConfig
    found: Foreigners
    now: datetime

    def _planned(self, experiment_id: str) -> list[ForeignTrial]:
        """Return trials with the configuration's initial parameters, without those that were imported."""
        known = {identity(expressible(trial.parameters)) for trial in self.found.trials}
        return [
            ForeignTrial(
                name="initialParameters",
                parameters=parameters,
                status=TrialStatus.SYS_CANCELED,
                reason="it is one of initialParameters, and runs when the experiment is resumed",
                rerun=True,
            )
            for parameters in initial_sets(self.config, seed_of(experiment_id))
            if identity(parameters) not in known
        ]

    async def write(self, directory: Path) -> datetime:
        """Write the experiment's folder. Return when its first trial began."""
        hidden, secrets = hide_secrets(self.config)
        around = Surroundings.of_creator(environ=None, cwd=None, python=None)
        make_folder(directory, replace(around, secrets=secrets))
        canonical = hidden.canonical()
        space = canonical.pop("searchSpace")
        created = f.ExperimentCreated(
            experiment_id=directory.name,
            config=canonical,
            search_space=space,
            limits=hidden.limits(),
            traits=traits_of(canonical),
        )
        writer = ExperimentWriter(directory)
        try:
            state = await writer.open()
            history = ImportedHistory(writer=writer, state=state, now=self.now, title=self.found.title)
            await history.write(created, self.found.trials, self._planned(directory.name))
            await writer.close(state)
        finally:
            await writer.close()
        return state.created_at or self.now


@contextlib.contextmanager
def _held(work: Path) -> Iterator[None]:
    """Create the folder of an import, and hold its lock inside the ``with`` block."""
    work.mkdir(mode=0o700)
    with _lock(work, wait=True):
        yield


def _remove_unfinished(parent: Path, known: Container[str]) -> None:
    """Remove what imports that were killed have left. The lock of a running import is held.

    ``known``: ids of the experiments in the index.
    """
    for work in parent.glob(f"{_BESIDE}*"):
        experiment_id = work.name.removeprefix(_BESIDE)
        with contextlib.suppress(OSError), _lock(work, wait=False):
            if experiment_id not in known:  # the import was killed before it added the experiment
                shutil.rmtree(parent / experiment_id, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _lock(work: Path, *, wait: bool) -> Iterator[None]:
    descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
