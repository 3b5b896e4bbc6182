"""Entry point of ``nnictl``: runs a command, and turns its errors into sentences and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence

from nnimgr.cli.command import Command
from nnimgr.cli.parsers import nnictl_parser
from nnimgr.cli.terminal import Terminal, drop_output
from nnimgr.client.errors import ClientError, other_version
from trial_keeper.machine.encoding import use_utf8

__all__ = ["main"]

Verb = Callable[[argparse.Namespace, Terminal], int]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments``. Return the exit code: 0 only if the command has succeeded."""
    if arguments is None:
        use_utf8()
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the locale cannot print, because names and results may contain any character.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    parser = nnictl_parser()
    if "_ARGCOMPLETE" in os.environ:
        from nnimgr.cli.completion import complete

        complete(parser)
    given = sys.argv[1:] if arguments is None else arguments
    command = Command(parser.prog, given)
    try:
        try:
            parsed = parser.parse_args(arguments)
        except SystemExit:  # after help, or after an error in the arguments
            sys.stdout.flush()
            raise
        after_verb = tuple(given[len(parsed.prog.split()) - 1 :])
        command = Command(parsed.prog, after_verb, parsed=vars(parsed), actions=parsed.actions)
        terminal = Terminal(as_json=getattr(parsed, "json", False), command=command)
        code = _run(parsed, terminal)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed the pipe
        drop_output(sys.stdout)
        return 0
    except OSError as error:  # for example, a full disk
        _tell_unwritten(error, command)
        drop_output(sys.stdout)
        return 1
    if code == 0 and terminal.lost is not None:
        _tell_unwritten(terminal.lost, command, done=True)
        return 1
    return code


def _run(parsed: argparse.Namespace, terminal: Terminal) -> int:
    """Run the verb, print its error if it fails, and return the exit code."""
    try:
        if not sys.platform.startswith("linux"):
            raise ClientError(f"nnimgr runs on Linux only, not on {sys.platform}.")
        return _load(parsed.verb)(parsed, terminal)
    # No other variable may hold the error: its traceback holds this function's variables and with them, until
    # the next garbage collection, the connections of the command.
    except ClientError as error:
        terminal.fail(error)
        return error.code
    except KeyError as error:
        found = _of_other_version(error)
        if found is None:
            raise
        terminal.fail(found)
        return found.code


def _tell_unwritten(error: OSError, command: Command, *, done: bool = False) -> None:
    """Print to standard error why the output could not be written.

    ``done``: whether the command has changed what it was to change, so that it must not be repeated.
    """
    closed = error.errno == errno.EBADF
    sentence = f"{error.filename or 'The output'} cannot be used: "
    sentence += "standard output is closed." if closed else f"{error.strerror}."
    mend = "To run the command without its output: {command} >/dev/null" if closed else None
    if done:
        sentence += " The command was carried out."
        mend = "See: nnictl experiment list --all"
    with contextlib.suppress(OSError):
        Terminal(as_json=False, command=command).fail(ClientError(sentence, mend=mend))


def _of_other_version(error: KeyError) -> ClientError | None:
    """Return the error of a command to which a server's answer lacks a field; None if it is another error."""
    from nnimgr.home import Home, HomeError

    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_globals.get("__name__", "").startswith("nnimgr.cli."):
        return None
    with contextlib.suppress(HomeError):
        pids = [server.pid for server in Home.find().servers() if server.pid is not None]
        where = f"{last.tb_frame.f_globals['__name__']}, line {last.tb_lineno}"
        if pids:
            return other_version(f"The server's answer has no field {error} ({where})", pids)
    return None


def _open_what_is_closed() -> None:
    """Open /dev/null for each standard stream that the shell has closed.

    Otherwise a file that is opened later would get the stream's number, and output would go into this file.
    Standard output cannot be written then, so that a command with results fails.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))


def _load(verb: str) -> Verb:
    """Import and return the function that runs a verb. ``verb``: "module:name" in this package."""
    import importlib

    module, _, name = verb.partition(":")
    function: Verb = getattr(importlib.import_module(f"nnimgr.cli.{module}"), name)
    return function


if __name__ == "__main__":
    sys.exit(main())
