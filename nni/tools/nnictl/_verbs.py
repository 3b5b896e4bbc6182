"""Builds functions that run a subcommand of ``nnictl``.

The functions take parsed arguments, as the functions of NNI's command line do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["verb"]

Function = Callable[[argparse.Namespace], int]


def verb(words: str, *positional: str, **options: str) -> Function:
    """Return a function that runs the subcommand ``words`` of ``nnictl`` for parsed arguments and returns the
    exit code.

    ``positional``: attributes of the parsed arguments whose values are appended to the command line.
    ``options``: attribute -> option that is added with its value, or alone if the value is True. An attribute
    that is missing, None or False adds nothing.
    """

    def run(args: argparse.Namespace) -> int:
        from nnimgr.cli.main import main

        line = words.split()
        for name in positional:
            value: Any = getattr(args, name, None)
            line += map(str, value if isinstance(value, list) else [] if value is None else [value])
        for name, option in options.items():
            value = getattr(args, name, None)
            if value is True:
                line.append(option)
            elif value is not None and value is not False:
                line += [option, str(value)]
        return main(line)

    run.__doc__ = f"Run ``nnictl {words}`` with these arguments. Return the exit code."
    return run
