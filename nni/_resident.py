"""Runs one trial of a class after another in this process, for experiments with ``resident``.

The class has a method ``reset(parameters)``, which prepares its object for the next trial. ``nni.run`` uses
this module.
"""

from __future__ import annotations

import contextlib
import os

from nni import _checkpoint, _trial
from nni._running import Trial, run_class, run_function, run_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol

    class Worker(Protocol):
        """Source of further trials for this process (``trial_keeper.worker``)."""

        def next(self) -> bool:
            """Wait for the next trial. Return False if this process is to end instead."""

        def refuse(self) -> None:
            """Give the present trial back, so that another process runs it from the beginning."""

        def note(self, sentence: str) -> None:
            """Show users why this process runs no further trial."""


__all__ = ["run"]


def run(found: Callable[..., Any], trial: Trial, worker: Worker) -> None:
    """Run the trial, and then the trials that the worker gets, with the same object of the user's class.

    A trial is given back if ``reset`` returns False or raises NotImplementedError. Other errors are raised.
    """
    is_class = hasattr(found, "step")
    if not is_class or not hasattr(found, "reset"):
        lack = "has no method reset" if is_class else "is no class"
        name = getattr(found, "__name__", "the trial")
        worker.note(f"{name} {lack}, so each trial gets a process of its own")
        (run_class if is_class else run_function)(found, trial)
        return
    stepped = run_class(found, trial)
    while worker.next():
        _forget()
        trial = Trial(_trial.get_next_parameter())
        if not _reset(stepped, trial.parameters):
            worker.refuse()
            return
        run_object(stepped, trial)


def _reset(stepped: Any, parameters: Any) -> bool:
    """Prepare the object for a trial with these parameters. Return False if it refuses."""
    try:
        return stepped.reset(parameters) is not False
    except NotImplementedError:
        return False
    except BaseException:
        if hasattr(stepped, "cleanup"):
            stepped.cleanup()
        raise


def _forget() -> None:
    """Forget the previous trial, whose parameters and open files this library still has."""
    state = _trial._trial
    channel = None if os.environ.get("NNI_TRIAL_COMMAND_CHANNEL") else state._channel
    if state._metrics is not None:
        with contextlib.suppress(OSError):  # the trial may have closed it
            os.close(state._metrics)
    vars(state).update(vars(_trial.Trial()))
    state.use_channel(channel)
    _checkpoint._next_look = 0.0
