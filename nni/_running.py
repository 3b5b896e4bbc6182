"""The object ``trial`` that functions for trials get, and the loop that steps classes for trials.

``nni.run`` uses this module. The user's code is a function, ``f(parameters)`` or ``f(parameters, trial)``, or
a class with a method ``step``.
"""

from __future__ import annotations

import itertools
import os
import time

from nni import _trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Union

    State = Union[dict[str, Any], bytes, str, os.PathLike[str]]
    Saving = Union[State, Callable[[], State]]

__all__ = ["Trial", "run_class", "run_function", "run_object"]

_SHARE = 10  # saving takes at most one part in this number of the trial's time


class Trial:
    """Trial that runs in this process, as the user's function sees it::

        def train(parameters, trial):
            state = trial.load(default={"weights": 0.0})
            for step in trial.steps(30):
                accuracy = train_one_epoch(state, parameters)
                trial.report(accuracy, save=state)

    ``parameters``: the trial's parameters. To try a function without an experiment, create the object
    yourself: ``train({"lr": 0.1}, Trial({"lr": 0.1}))``. Results are then printed.
    """

    def __init__(self, parameters: Any = None) -> None:
        self.parameters = parameters
        self._step: int | None = None  # number of completed steps when the present step has ended
        self._in_last_step = False
        self._began = time.monotonic()
        self._spent = 0.0  # seconds that saving has taken
        self._last: Any = None
        self._has_final = False
        self._pending: tuple[Saving, int | None] | None = None

    @property
    def id(self) -> str:
        """The trial's id, or ``STANDALONE`` outside an experiment."""
        return _trial.get_trial_id()

    @property
    def number(self) -> int:
        """The trial's number in its experiment, counted from 0. It is 0 outside an experiment."""
        return _trial.get_sequence_id()

    @property
    def seed(self) -> int:
        """The seed for random numbers: from 1 if the trial confirms another one, else 0."""
        return _trial.get_trial_seed()

    def steps(self, count: int | None = None) -> Iterator[int]:
        """Yield the numbers of the steps that are left, of the steps 0 to ``count - 1``.

        The first number is the step of the checkpoint from which the trial continues, or 0. A checkpoint that
        is saved in a step gets that step's number plus one. ``count`` None: there is no last step.
        """
        begin = int(os.environ.get("NNI_RESUME_STEP") or 0)
        try:
            for step in itertools.count(begin) if count is None else range(begin, count):
                self._step = step + 1
                self._in_last_step = step + 1 == count
                yield step
        finally:
            self._in_last_step = False

    def report(
        self, value: Any = None, *, save: Saving | None = None, step: int | None = None, **metrics: Any
    ) -> None:
        """Report an intermediate result: a number, a dict of metrics, or metrics as keyword arguments.

        With a number, keyword arguments are further metrics beside the result: ``report(0.9, loss=0.3)``.

        ``save``: also save this state, as in the method ``save``. The result and the state are never recorded
        without each other. A function that returns the state is called only if a save is due. It is due if
        somebody pauses the trial or asks for a save, or if saving has taken less than a tenth of the trial's
        time.

        If somebody pauses the trial, this call saves the state and ends the trial's process. In the last step
        of ``steps``, the state is saved after the final result instead.
        """
        if value is None and not metrics:
            raise TypeError("report() needs a result: report(0.9), report(acc=0.9), report(0.9, loss=0.3)")
        if metrics and value is not None:
            metrics = {**(value if isinstance(value, dict) else {"default": value}), **metrics}
        self._report(metrics or value, save, step=step)

    def _report(
        self, value: Any, save: Saving | None, *, step: int | None = None, due: bool | None = None
    ) -> None:
        """Report a result. ``due``: whether a save is due. None: it depends on the time that saving takes."""
        self._last = value
        if save is None:
            _trial.report_intermediate_result(value)
        else:
            self._save(save, step=step, metric=value, due=due)

    def save(self, state: Saving, *, step: int | None = None) -> bool:
        """Save the state of the trial, so that it can continue from here after a pause or a failure.

        ``state``: a dict, bytes, the path of a file or folder, or a function that returns one of these.
        ``step``: the number of completed steps. It is needed only without ``steps``. Return whether the state
        was saved. If somebody pauses the trial, the call ends the trial's process after the save.
        """
        return self._save(state, step=step, metric=None, due=True)

    def load(self, default: Any = None) -> Any:
        """Return the saved state from which the trial continues.

        If the trial starts from the beginning, return ``default``, or its result if it is a function. The
        state of a saved file or folder is a path: copy the files before you change them.
        """
        from nni import _checkpoint

        state = _checkpoint.load_checkpoint()
        if state is not None:
            return state
        return default() if callable(default) else default

    def should_checkpoint(self) -> bool:
        """Return whether the trial should save its state now: somebody pauses it, or asks for a save."""
        from nni import _checkpoint

        return _checkpoint.should_checkpoint()

    def final(self, result: Any) -> None:
        """Report the trial's final result: a number, or a dict of metrics."""
        self._has_final = True
        _trial.report_final_result(result)

    def finish(self, result: Any) -> None:
        """Report the final result at the end of the user's code, and save what is left to be saved.

        ``result``: what the user's function has returned. If it is None, the last report counts.
        """
        last = self._last if result is None else result
        if not self._has_final and last is not None:
            self.final(last)
        if self._pending is not None and os.environ.get("NNI_CHECKPOINT_DIR") is not None:
            from nni import _checkpoint

            state, step = self._pending
            # Somebody who pauses the trial now gets its end instead.
            _checkpoint.save(state() if callable(state) else state, step=step, answers=False)

    def _save(self, state: Saving, *, step: int | None, metric: Any, due: bool | None) -> bool:
        step = self._step if step is None else step
        if self._in_last_step:
            self._pending = state, step
        elif os.environ.get("NNI_CHECKPOINT_DIR") is not None:
            from nni import _checkpoint

            asked = _checkpoint.should_checkpoint()
            leaves = asked and not _checkpoint.stays()
            began = time.monotonic()
            if due is None:
                due = not callable(state) or began - self._began >= _SHARE * self._spent
            if asked or due:
                source = state() if callable(state) else state
                saved = _checkpoint.save(source, step=step, metric=metric)
                self._spent += time.monotonic() - began
                if saved and leaves:
                    raise SystemExit(0)
                return saved
        if metric is not None:
            _trial.report_intermediate_result(metric)
        return False


def run_function(function: Callable[..., Any], trial: Trial) -> None:
    """Call the user's function, and report its result."""
    arguments = (trial.parameters, trial) if wants_trial(function) else (trial.parameters,)
    trial.finish(function(*arguments))


def run_class(kind: Callable[..., Any], trial: Trial) -> Any:
    """Step an object of the user's class until its last step, and report its last result.

    The object is ``kind()`` with ``setup(parameters)``, or ``kind(parameters)`` if the class has no method
    ``setup``, or ``kind()`` if it has no constructor either.

    ``steps``: number of steps. Without it, ``step`` returns a dict with ``done`` in the last step.
    ``save_every``: number of steps between two saves. Without it, see ``Trial.report``. Return the object.
    """
    has_setup = hasattr(kind, "setup")
    stepped = kind() if has_setup or not _has_constructor(kind) else kind(trial.parameters)
    run_object(stepped, trial, stepped.setup if has_setup else None)
    return stepped


def _has_constructor(kind: Any) -> bool:
    """Return False for a class that has only the constructor of all objects, which takes no parameters."""
    return kind.__init__ is not object.__init__ or kind.__new__ is not object.__new__


def run_object(stepped: Any, trial: Trial, setup: Callable[[Any], object] | None = None) -> None:
    """Step an object of the user's class, as ``run_class`` does. Call ``setup`` first, if it is given."""
    if hasattr(stepped, "save") and not hasattr(stepped, "load"):
        raise TypeError(
            f"{type(stepped).__name__} has save(), but no load(state), which gets back what was saved"
        )
    try:
        if setup is not None:
            setup(trial.parameters)
        state = trial.load() if hasattr(stepped, "load") else None
        if state is not None:
            stepped.load(state)
        save = getattr(stepped, "save", None)
        every = getattr(stepped, "save_every", None)
        for step in trial.steps(getattr(stepped, "steps", None)):
            result = stepped.step()
            if result is None:
                raise TypeError("step() must return a number or a dict of metrics, not None")
            if isinstance(result, dict) and "done" in result:
                trial._in_last_step = trial._in_last_step or bool(result["done"])
                result = {key: value for key, value in result.items() if key != "done"}
            trial._report(result, save, due=None if every is None else (step + 1) % every == 0)
            if trial._in_last_step:
                break
        trial.finish(None)
    finally:
        if hasattr(stepped, "cleanup"):
            stepped.cleanup()


def wants_trial(function: Callable[..., Any]) -> bool:
    """Return whether the user's function takes the object ``trial`` as its second argument.

    It does if its second parameter has no default value, or has the name ``trial``.
    """
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__wrapped__"):  # importing inspect takes longer
        names = code.co_varnames[: code.co_argcount]
        needed = len(names) - len(getattr(function, "__defaults__", None) or ())
        bound = hasattr(function, "__self__")
        return len(names) > 1 + bound and (needed > 1 + bound or names[1 + bound] == "trial")
    import inspect

    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [each for each in inspect.signature(function).parameters.values() if each.kind in positional]
    return len(taken) > 1 and (taken[1].default is inspect.Parameter.empty or taken[1].name == "trial")
