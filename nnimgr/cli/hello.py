"""``nnictl hello``: an example to start from. Also the hint that ``nnictl`` without a command prints."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import nnimgr
from nnimgr.cli.terminal import CliError, Terminal

__all__ = ["hello", "hint"]


def hint(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print a hint for ``nnictl`` without a command."""
    terminal.say('nnictl runs and watches experiments; "nnictl --help" lists its commands.')
    return 0


def hello(args: argparse.Namespace, terminal: Terminal) -> int:
    """Copy the quickstart example."""
    package = Path(nnimgr.__file__).parent
    candidates = [package / "examples" / "quickstart", package.parent / "examples" / "quickstart"]
    source = next((path for path in candidates if path.is_dir()), None)
    if source is None:
        raise CliError(f"This installation has no example: there is no {candidates[0]}.")
    target = Path(args.directory)
    if target.exists():
        raise CliError(f"{target} exists already; remove it or name another with --directory.")
    try:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    except (OSError, shutil.Error) as error:
        raise CliError(f"The example cannot be copied to {target}: {error}.") from error
    config = next(iter(sorted(target.glob("*.y*ml"))), target)
    terminal.info(f"An example experiment has been copied to {target}")
    terminal.say(f'Start it with "nnictl create --config {config} --foreground".')
    if terminal.as_json:
        terminal.json({"directory": str(target.absolute()), "config": str(config.absolute())})
    return 0
