"""Another tuner for a running experiment: what has to be looked at before it is asked of the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnimgr.config import ConfigError, Problem, ReferenceUnresolved, resolve_secrets
from nnimgr.config.load import check_algorithm
from nnimgr.config.places import directory_fault
from nnimgr.config.shape import Reading, match_key
from nnimgr.config.update import read_tuner
from nnimgr.core.managing.folder import Surroundings
from nnimgr.core.running.runner import ExperimentRunner

__all__ = ["change_config"]


async def change_config(runner: ExperimentRunner, directory: Path, changes: Mapping[str, Any]) -> None:
    """Change top-level fields of the experiment whose folder this is. Raises ConfigError, RequestRefused."""
    for field, value in changes.items():
        if match_key(field) == "tuner" and value is not None:
            await asyncio.to_thread(_check, value, directory, runner.state.objectives)
    await runner.change_config(changes)


def _check(value: Any, directory: Path, objectives: Mapping[str, str]) -> None:
    """Raise ConfigError if the tuner is none that the experiment's Python could make."""
    tuner = read_tuner(value, objectives=objectives)
    around = Surroundings.read(directory)
    reading = Reading()
    fields = tuner.model_dump(by_alias=True, exclude_unset=True)
    check_algorithm(reading, "tuner", fields, interpreter=around.interpreter)
    if tuner.code_directory is not None and (trouble := directory_fault(tuner.code_directory)) is not None:
        reading.fault(("tuner", "codeDirectory"), f"the directory {tuner.code_directory} {trouble}")
    try:
        resolve_secrets(tuner.class_args or {}, around.environ, around.cwd)
    except ReferenceUnresolved as error:
        sentence = f"{error} in the environment that the experiment was created in"
        reading.problems.append(Problem(message=sentence, field="tuner.classArgs"))
    if reading.problems:
        raise ConfigError(reading.problems)
