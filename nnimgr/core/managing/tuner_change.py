"""Checks the tuner that a user has chosen for a running experiment."""

from __future__ import annotations

from pathlib import Path

from nnimgr.config import AlgorithmConfig, ConfigError, Problem, ReferenceUnresolved, resolve_secrets
from nnimgr.config.load import check_algorithm, check_own_class
from nnimgr.config.parsing import Reading
from nnimgr.config.path_checks import directory_fault
from nnimgr.core.managing.folder import Surroundings
from nnimgr.rules.facts import Role

__all__ = ["check_tuner"]


def check_tuner(tuner: AlgorithmConfig, directory: Path) -> None:
    """Raise ConfigError if the experiment in ``directory`` cannot create the tuner."""
    around = Surroundings.read(directory)
    reading = Reading()
    fields = tuner.model_dump(by_alias=True, exclude_unset=True)
    check_algorithm(reading, Role.TUNER, fields, interpreter=around.interpreter)
    check_own_class(reading, Role.TUNER, fields, interpreter=around.interpreter)
    if tuner.code_directory is not None and (trouble := directory_fault(tuner.code_directory)) is not None:
        reading.fault(("tuner", "codeDirectory"), f"the directory {tuner.code_directory} {trouble}")
    try:
        resolve_secrets(tuner.class_args or {}, around.environ, around.cwd)
    except ReferenceUnresolved as error:
        sentence = f"{error} in the environment that the experiment was created in"
        reading.problems.append(Problem(message=sentence, field="tuner.classArgs"))
    if reading.problems:
        raise ConfigError(reading.problems)
