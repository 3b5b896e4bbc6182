"""NNI's interface of tuners and assessors, and optional methods that restore their exact state.

``nni.tuner``, ``nni.assessor`` and ``nni.utils`` re-export these names. Every algorithm runs in its own
process, in one thread, one call at a time. The result of a trial always comes before its end. Only if a tuner
waits for results in ``generate_parameters``, another thread delivers them.

After the process has died, a new process restores the algorithm in the best way that its class allows:

- ``recall``: the answers depend only on the arguments, the seed and the messages to the object, so no call
  is repeated. All built-in algorithms have it. ``needs`` names the parts of the past that it wants. State
  that does not follow from these goes into ``dump_state() -> value``. The value is recorded with every
  parameter set and returned with it as ``recall(..., state=value)``. The state is None if the set has none,
  for example because another tuner made it.
- ``dump_state`` / ``load_state``: ``dump_state() -> value`` (any JSON value) is recorded with every
  parameter set. ``load_state(value)`` gets the last value, followed by the calls that came after it.
- ``replayable = True``: all calls are repeated in the same order, with parameter sets requested one by one,
  and each answer is compared with the record. The class must draw its random numbers from a fixed seed.
- none of these: as in NNI, ``load_checkpoint`` and ``update_search_space`` are called, then ``import_data``
  with all finished trials. An assessor starts empty.

Standard library only, because every experiment imports this module at its start.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any, ClassVar

__all__ = [
    "AssessResult",
    "Assessor",
    "ClassArgsValidator",
    "NoMoreTrialError",
    "OptimizeMode",
    "Past",
    "Recoverable",
    "Rules",
    "Tuner",
    "extract_scalar_history",
    "extract_scalar_reward",
]


class NoMoreTrialError(Exception):
    """Error that a tuner raises if it has no more parameter sets to suggest."""


class OptimizeMode(Enum):
    Minimize = "minimize"
    Maximize = "maximize"


class AssessResult(Enum):
    """Judgment of an assessor about a running trial. A trial that is judged Bad is stopped early."""

    Good = True
    Bad = False


class Past(Flag):
    """Parts of an experiment's past that a tuner with the method ``recall`` needs to restore its state.

    Changes of the search space are always included, whatever the parts.
    """

    NOTHING = 0
    OPEN = auto()  # suggestions whose trials have not ended
    SUGGESTIONS = auto()  # all suggestions
    RESULTS = auto()  # the ends of trials
    IMPORTS = auto()
    INTERMEDIATES = auto()  # intermediate results, for a tuner with receive_intermediate_result
    ALL = OPEN | SUGGESTIONS | RESULTS | IMPORTS | INTERMEDIATES


def _anything(parameters: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Conditions that an experiment sets for every parameter set that a tuner suggests.

    ``feasible``: function that returns whether a set meets the constraints. ``may_repeat``: the tuner may
    suggest a set again, because another part of the program handles duplicates. ``never_repeat``: no set may
    be suggested twice, even if new sets are hardly possible.
    """

    feasible: Callable[[Any], bool] = _anything
    may_repeat: bool = False
    never_repeat: bool = False


class Recoverable:
    """Checkpoint methods of tuners and assessors that keep their state in files of their own."""

    def load_checkpoint(self) -> None:
        """Load the state from a checkpoint. Called after the constructor when an experiment is continued."""

    def save_checkpoint(self) -> None:
        """Save the state to a checkpoint. nnimgr never calls this method, as in NNI 3.0. An algorithm may
        call it itself.
        """

    def get_checkpoint_path(self) -> str | None:
        """Return the directory for checkpoints (``NNI_CHECKPOINT_DIRECTORY``), or None if it is missing."""
        path = os.environ.get("NNI_CHECKPOINT_DIRECTORY")
        return path if path and os.path.isdir(path) else None

    def is_created_in_previous_exp(self, param_id: Any) -> bool:
        """Return False for every parameter set.

        After a restart, earlier parameter sets reach an algorithm only as imported data.
        """
        return False


class Tuner(Recoverable):
    """Base class of tuners, which suggest parameter sets.

    Override ``update_search_space``, ``generate_parameters`` and ``receive_trial_result``. The other methods
    are optional:

    ``recall(parameter_id, parameters)`` is called for every set that an earlier process suggested. These
    calls are mixed with the results, in the order in which all of them happened. ``needs(search_spaces)`` may
    return the part of the past (a ``Past``) that is enough, given the spaces that the experiment has had.
    Other parts are not read.

    ``obey(rules)`` is called before anything else with the conditions for every set (``Rules``). Such a tuner
    gives only sets that meet them. A tuner without ``obey`` is asked again until its set meets them.

    ``set_objectives(objectives)`` is called after the constructor if the configuration names objectives, for
    example {"accuracy": "maximize", "latency": "minimize"}, the main objective first. Every result is then a
    mapping with a finite number under each name. If there is one objective, a result may be the number alone.
    Built-in tuners need this method only for several objectives. A single objective reaches them as
    ``default`` in the result and ``optimize_mode`` in the arguments.

    ``take_back(parameter_id, parameters)`` is called after ``trial_end`` for every set whose trial was
    canceled before it was tried, for example because the search space or its constraints were changed. The
    tuner may suggest the set again. It is not called for trials that a user stops.

    ``receive_intermediate_result(parameter_id, parameters, value, *, sequence, trial_job_id)`` is called for
    every intermediate result of the tuner's trials, in order, once the result is recorded. ``value`` has the
    form that ``receive_trial_result`` gets, and values that are not usable are left out. ``sequence``: number
    of the result in its trial, from 0.

    ``intermediate_rolled_back(parameter_id, trial_job_id, reports)`` is called if a trial continues from a
    checkpoint, or starts again. Only its first ``reports`` intermediate results still count. The trial makes
    the others again, and the tuner gets them again. Without ``receive_intermediate_result``, the method is
    never called.

    A tuner with ``waits = True`` may need results of some trials before it gives more sets. Its
    ``generate_multiple_parameters`` returns fewer sets than ids, and is called again with the other ids after
    each new message. So such a tuner does not need the callback ``kwargs["st_callback"]`` to send sets later.
    ``why_waiting() -> str`` returns a few words about the reason.
    """

    learns: ClassVar[bool] = True  # False: suggestions do not depend on results, so they are requested ahead
    replayable: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    _accept_customized: bool = False

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        """Set the search space. Called before all requests, and after every change of the search space."""
        raise NotImplementedError("Tuner: update_search_space is not implemented")

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        """Return one parameter set (any JSON value). Raise NoMoreTrialError if there are no more sets."""
        raise NotImplementedError("Tuner: generate_parameters is not implemented")

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        """Return parameter sets for the first ids of the list.

        Sets for the other ids may follow later through ``kwargs["st_callback"](parameter_id, parameters)``.
        While a call waits, for example for results of other trials, another thread delivers these results.
        """
        found = []
        for parameter_id in parameter_id_list:
            try:
                found.append(self.generate_parameters(parameter_id, **kwargs))
            except NoMoreTrialError:
                break
        return found

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        """Receive a trial's final result: a number, or a mapping with a number as ``default``.

        ``kwargs``: ``customized`` (bool; if True, ``parameter_id`` is None) and ``trial_job_id``.
        """
        raise NotImplementedError("Tuner: receive_trial_result is not implemented")

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        """Receive the end of a trial. ``success``: the trial ended by itself without an error.

        ``kwargs`` contains ``trial_job_id``. A tuner with ``recall`` also gets ``untried=True`` if
        ``take_back`` follows. It gets ``again=True`` if the experiment was stopped and, after a resume, the
        same set runs again as another trial.
        """

    def import_data(self, data: list[dict[str, Any]]) -> None:
        """Receive results from outside this experiment, each as ``{"parameter": ..., "value": ...}``."""

    def _accept_customized_trials(self, accept: bool = True) -> None:
        """Choose whether the tuner also receives the results of trials that a user submitted."""
        self._accept_customized = accept

    def _on_exit(self) -> None:
        """Called when the experiment stops using the tuner."""

    def _on_error(self) -> None:
        """Called when the tuner has raised an exception that ends its process."""


class Assessor(Recoverable):
    """Base class of assessors, which judge running trials by their intermediate results.

    Override ``assess_trial``. The other methods are optional:

    ``recall(trial_job_id, trial_history, success)`` is called for every trial that ended during an earlier
    process, in the order of the ends. An assessor with ``replayable = True`` gets all earlier calls again
    instead, in the order of the reports and ends, for algorithms that depend on the order of trials.

    ``trial_rolled_back(trial_job_id, reports)`` is called if a trial continues from a checkpoint, or starts
    again, and the assessor has seen more than ``reports`` of its values. Only the first ``reports`` values
    still count. The trial reports the others again, so the next history is shorter. An assessor needs this
    method only if it keeps anything about running trials.

    ``why(trial_job_id)`` is called after each Bad. It returns one sentence, or a mapping with the sentence as
    ``reason`` and optionally ``rung`` (the step at which trials are compared) and ``better`` (ids of a few
    trials that were better than this one).
    """

    replayable: ClassVar[bool] = False

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult | bool:
        """Judge a trial by ``trial_history``, the values that it has reported so far, oldest first.

        Several reports may lead to one call only.
        """
        raise NotImplementedError("Assessor: assess_trial is not implemented")

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        """Receive the end of a trial that has reported at least one value."""

    def _on_exit(self) -> None:
        """Called when the experiment stops using the assessor."""

    def _on_error(self) -> None:
        """Called when the assessor has raised an exception that ends its process."""


class ClassArgsValidator(abc.ABC):
    """Base class of validators, which check the arguments (``classArgs``) of a registered algorithm."""

    @abc.abstractmethod
    def validate_class_args(self, **kwargs: Any) -> None:
        """Raise an exception if the algorithm cannot be built with these arguments."""

    def choices(self, key: str, *args: Any) -> Callable[[Any], bool]:
        """Return a function that raises ValueError unless its argument is one of ``args``.

        ``key``: name of the argument in the message.
        """

        def test(value: Any) -> bool:
            if value not in args:
                raise ValueError(f"{key} must be one of {', '.join(map(repr, args))}, not {value!r}")
            return True

        return test

    def range(self, key: str, keyType: type, start: float, end: float) -> Callable[[Any], bool]:
        """Return a function that raises ValueError unless its argument is from ``start`` to ``end``.

        ``keyType``: required type of the argument. ``key``: name of the argument in the message.
        """

        def test(value: Any) -> bool:
            if not isinstance(value, keyType) or not start <= value <= end:  # type: ignore[operator]
                raise ValueError(f"{key} must be {keyType.__name__} from {start} to {end}, not {value!r}")
            return True

        return test

    def path(self, key: str) -> Callable[[Any], bool]:
        """Return a function that raises ValueError unless its argument is the path of an existing file.

        ``key``: name of the argument in the message.
        """

        def test(value: Any) -> bool:
            if not os.path.exists(value):
                raise ValueError(f"{key} must be an existing path, not {value!r}")
            return True

        return test


def extract_scalar_reward(value: Any, scalar_key: str = "default") -> float:
    """Return the number in a trial's result: the result itself, or its entry ``scalar_key``.

    Raise RuntimeError if there is no number.
    """
    reward = value
    if not isinstance(value, int | float) and isinstance(value, Mapping):
        reward = value.get(scalar_key)
    if isinstance(reward, int | float):
        return reward
    raise RuntimeError(
        f'a result must be a number or a mapping with a number as "{scalar_key}", not {value!r}'
    )


def extract_scalar_history(trial_history: Sequence[Any], scalar_key: str = "default") -> list[float]:
    """Return the numbers in a trial's intermediate results. Raise RuntimeError if one has no number."""
    return [extract_scalar_reward(value, scalar_key) for value in trial_history]
