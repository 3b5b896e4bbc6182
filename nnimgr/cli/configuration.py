"""Reading the configuration that a command was given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nnimgr.cli.terminal import CliError, Terminal

if TYPE_CHECKING:
    from nnimgr.config import Loaded

__all__ = ["load"]


def load(file: str, terminal: Terminal) -> Loaded:
    """The configuration in ``file``; its warnings are shown. Raises CliError with every fault."""
    from nnimgr.config import ConfigError, load_config

    try:
        loaded = load_config(Path(file))
    except ConfigError as error:
        lines = [str(problem) for problem in error.problems]
        raise CliError(*lines, problems=[problem.plain() for problem in error.problems]) from error
    for warning in loaded.warnings:
        terminal.warn(str(warning))
    return loaded
