"""Runs verbs of ``nnictl`` for functions of NNI's command line, which take parsed arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["verb"]

Function = Callable[[argparse.Namespace], int]


def verb(words: str, *positional: str, **options: str) -> Function:
    """Return a function of parsed arguments that runs ``nnictl`` with ``words``. It returns the exit code.

    ``positional``: attributes whose values follow the words. ``options``: attribute -> option that gets its
    value, or stands alone if the value is True. Attributes that are missing, None or False are left out.
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
