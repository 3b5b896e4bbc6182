"""Completion in bash, zsh and fish for commands, options, file names, experiment ids and trial numbers.

The package argcomplete completes the names in the parsers. The shell starts ``nnictl`` for each completion,
so this module imports little, and never starts a server or waits for one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError

__all__ = ["complete", "completion"]

_MOST = 200
_PATIENCE_S = 0.2

Completer = Callable[..., dict[str, str]]


def completion(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print the code that turns on completion in a shell."""
    from argcomplete.shell_integration import shellcode

    code = shellcode(["nnictl"], shell=args.shell, use_defaults=False)
    if terminal.as_json:
        terminal.json({"shell": args.shell, "code": code})
    else:
        terminal.out.write(code if code.endswith("\n") else code + "\n")
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the possible completions of the typed command line for the shell, and end the process."""
    from argcomplete.completers import DirectoriesCompleter, FilesCompleter, SuppressCompleter
    from argcomplete.finders import CompletionFinder

    by_argument: dict[str, Any] = {
        "ID": _experiments,
        "ID|SOURCE": _experiments_or_files,
        "TRIAL": _trials,
        "DIR": DirectoriesCompleter(),
        "FILE": FilesCompleter(),
    }
    _add_completers(parser, by_argument)
    finder = CompletionFinder()
    finder(parser, always_complete_options=False, default_completer=SuppressCompleter())


def _add_completers(parser: argparse.ArgumentParser, by_argument: dict[str, Any]) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                _add_completers(child, by_argument)
        elif isinstance(action.metavar, str) and action.metavar in by_argument:
            action.completer = by_argument[action.metavar]  # type: ignore[attr-defined]


def _experiments(prefix: str, **more: Any) -> dict[str, str]:
    """Return the ids and names of experiments that begin with the typed letters, newest experiments first."""
    from nnimgr.home import Home, HomeError
    from nnimgr.index import Index

    try:
        entries = Index(Home.find()).entries().values()
    except HomeError:
        return {}
    found: dict[str, str] = {}
    for entry in reversed(list(entries)):
        if entry.id.startswith(prefix):
            found[entry.id] = f"{entry.name} {entry.status}".strip()
        if prefix and entry.name.startswith(prefix):
            found.setdefault(entry.name, entry.status)
    return dict(list(found.items())[:_MOST])


def _experiments_or_files(prefix: str, parsed_args: argparse.Namespace, **more: Any) -> Any:
    """Return the files that begin with the typed letters if they name a source, otherwise the experiments."""
    from argcomplete.completers import FilesCompleter

    return FilesCompleter()(prefix) if getattr(parsed_args, "kind", None) else _experiments(prefix)


def _trials(prefix: str, parsed_args: argparse.Namespace, **more: Any) -> dict[str, str]:
    """Return the numbers and ids of the experiment's newest trials that begin with the typed letters."""
    from nnimgr.cli.selection import select
    from nnimgr.home import Home

    home = Home.find()
    try:
        entry = select(home, getattr(parsed_args, "id", None), quiet=True)
        if entry.port is None or home.server_running(entry.port) is None:
            return {}
        from nnimgr.client.calls import Client

        path = home.server_socket_path(entry.port)
        client = Client("", path=path, token=home.token())
        trials = client.call(
            "GET", "experiments", entry.id, "trials", timeout_s=_PATIENCE_S, order="desc", limit=_MOST
        )["trials"]
    except ClientError:
        return {}
    found: dict[str, str] = {}
    for trial in trials:
        for word in (str(trial["sequence"]), trial["id"]):
            if word.startswith(prefix) and (prefix or word != trial["id"]):
                found[word] = trial["status"]
    return found
