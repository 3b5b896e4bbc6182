"""Reading of the configuration file that is given to a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError

if TYPE_CHECKING:
    from nnimgr.config import ConfigError, Loaded

__all__ = ["load", "refusal", "wrong_files"]

_RULE = "=" * 80


def refusal(file: str, error: ConfigError) -> ClientError:
    """Build the error that a command reports if the configuration in ``file`` cannot be used."""
    lines = [str(problem) for problem in error.problems]
    problems = [problem.plain() for problem in error.problems]
    mend: str | None = "Write a configuration to start from: nnictl hello"
    if Path(file).is_dir():
        mend = None
    elif Path(file).exists():
        wrong = wrong_files(problems, file)
        mend = f"Correct {wrong}, then check it: nnictl create --dry-run --config {shlex.quote(file)}"
    return ClientError(*lines, problems=problems, mend=mend)


def wrong_files(problems: Sequence[Mapping[str, Any]], file: str) -> str:
    """Return the files that have errors, with "and" between them. ``file``: of errors that name no file."""
    found = dict.fromkeys(problem.get("file") or file for problem in problems)
    return " and ".join(name.removeprefix(f"{os.getcwd()}{os.sep}") for name in found)


def load(file: str, terminal: Terminal) -> Loaded:
    """Load the configuration in ``file``, and print its warnings. Raise ClientError with all errors."""
    from nnimgr.config import ConfigError, load_config

    try:
        loaded = load_config(Path(file))
    except ConfigError as error:
        raise refusal(file, error) from error
    if loaded.converted is not None:
        said = f"{file} is in NNI's first format (v1). It was read as this file in the second format (v2):"
        terminal.warn(said, plain=f"{_RULE}\n{loaded.converted}\n{_RULE}")
    for warning in loaded.warnings:
        terminal.warn(str(warning))
    return loaded
