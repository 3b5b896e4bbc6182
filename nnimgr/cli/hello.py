"""``nnictl hello``: writes an example to start from. Also prints the help of ``nnictl`` without a command."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from pathlib import Path

import nnimgr
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError

__all__ = ["hello", "hint"]

_CONFIG = "exp.yml"
_PYTHON = "python3"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def hint(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print all commands in groups. This is the output of ``nnictl`` without a command."""
    from nnimgr.cli.parsers import nnictl_parser

    terminal.out.write(nnictl_parser().format_help())
    return 0


def hello(args: argparse.Namespace, terminal: Terminal) -> int:
    """Write an example experiment into a new folder. The example needs no package other than nnimgr."""
    package = Path(nnimgr.__file__).parent
    candidates = [package / "examples" / "hello", package.parent / "examples" / "hello"]
    source = next((path for path in candidates if path.is_dir()), None)
    if source is None:
        raise ClientError(
            f"This installation has no example: there is no {candidates[0]}.",
            mend="Install nnimgr again: pip install --force-reinstall --no-deps nnimgr",
        )
    target = Path(args.directory)
    if target.exists():
        raise ClientError(
            f"{target} exists already.",
            mend=f"Write to another folder: {{prog}} --directory {shlex.quote(f'{target}_2')}",
        )
    try:
        shutil.copytree(source, target, ignore=_LEFT_OUT)
        _use_this_python(target / _CONFIG)
    except (OSError, shutil.Error) as error:
        raise ClientError(
            f"The example cannot be written to {target}: {error}.",
            mend="Write to another folder: {prog} --directory DIRECTORY",
        ) from error
    config = target / _CONFIG
    terminal.info(f"An example experiment is in {target}")
    terminal.say("Start it:")
    terminal.say(f"  {shlex.join([_nnictl(), 'create', '--config', str(config), '--foreground'])}")
    if terminal.as_json:
        terminal.json({"directory": str(target.absolute()), "config": str(config.absolute())})
    return 0


def _use_this_python(config: Path) -> None:
    """Let the example's trials use the Python that runs nnictl, if ``python3`` on the PATH is another one."""
    found = shutil.which("python3")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return
    lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
    for at, line in enumerate(lines):
        key, _, command = line.partition(": ")
        if key == "trialCommand":
            command = command.strip().replace(_PYTHON, shlex.quote(sys.executable))
            lines[at] = f"{key}: {json.dumps(command)}\n"
    config.write_text("".join(lines), encoding="utf-8")


def _nnictl() -> str:
    """Return how users can start ``nnictl``: the name if it is on the PATH, otherwise the program's path."""
    here = Path(sys.argv[0]).absolute()
    found = shutil.which("nnictl")
    if here.name != "nnictl" or not here.is_file():
        return "nnictl"
    if found is not None and Path(found).resolve() == here.resolve():
        return "nnictl"
    return str(here)
