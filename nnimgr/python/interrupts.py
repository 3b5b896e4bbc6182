"""Ctrl-C while a program waits for an experiment ends the program calmly, without a traceback."""

from __future__ import annotations

import sys
from types import TracebackType

__all__ = ["without_traceback"]


def without_traceback(interrupt: KeyboardInterrupt) -> None:
    """Let Python and notebooks show nothing for this exception if no code catches it.

    The program still ends as after any Ctrl-C: by SIGINT, and a notebook runs no further cells. A program
    that has replaced ``sys.excepthook`` gets the exception there.
    """
    interrupt._render_traceback_ = _nothing  # type: ignore[attr-defined] # IPython asks for it
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _nothing(*_: object) -> list[str]:
    return []


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if getattr(error, "_render_traceback_", None) is not _nothing:
        sys.__excepthook__(kind, error, traceback)
