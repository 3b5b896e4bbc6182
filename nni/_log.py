"""The functions ``nni.silence_stdout`` and ``nni.enable_global_logging``. Runs on Python 3.8 or newer."""

from __future__ import annotations

import logging
import sys

from nni import _trial

__all__ = ["enable_global_logging", "silence_stdout"]

_NAME = "nni"


def silence_stdout() -> None:
    """Stop printing results and log messages in a trial that runs outside an experiment."""
    _trial.silence()
    _remove()


def enable_global_logging(enable: bool = True) -> None:
    """Print log messages of all modules, from level INFO up, to standard output.

    Stop this if ``enable`` is False.
    """
    _remove()
    if enable:
        handler = logging.StreamHandler(sys.stdout)
        handler.set_name(_NAME)
        handler.setFormatter(logging.Formatter(*_trial.LOG_FORMAT))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(min(root.level, logging.INFO))


def _remove() -> None:
    root = logging.getLogger()
    for handler in list(root.handlers):
        if handler.get_name() == _NAME:
            root.removeHandler(handler)
