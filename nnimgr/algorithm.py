"""NNI's contract for tuners and assessors, and the optional methods that make a rebuild exact.

``nni.tuner``, ``nni.assessor`` and ``nni.utils`` re-export these names. Every algorithm lives in a process of
its own, which calls it from one thread, one call at a time: the result of a trial before its end, always.
Only where a tuner waits in ``generate_parameters`` for results to come, another thread brings them.
When that process has died, a new one is brought up to date in the best way the class allows:

- ``recall``: the answers are a function of the arguments, the seed and what the object was told, and nothing
  has to be repeated. All built-in algorithms have it. ``needs`` says what of the past it wants to hear of.
  What is no such function goes into ``dump_state() -> value``, recorded with every parameter set and given
  back with it as ``recall(..., state=value)``; None with a set that has none, another tuner's perhaps.
- ``dump_state`` / ``load_state``: ``dump_state() -> value`` (anything JSON can hold) is recorded with every
  parameter set; ``load_state(value)`` gets the last one, and then the calls made after it.
- ``replayable = True``: the same calls are made again in the same order, parameter sets asked for one by one,
  and each answer is compared with the record. The class must draw its random numbers from a fixed seed.
- none of these: as NNI resumes. ``load_checkpoint``, ``update_search_space``, then ``import_data`` of all
  finished trials; an assessor starts anew.

Standard library only: this is imported at the start of every experiment.
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
    """A tuner raises it when it has no parameter set to give."""


class OptimizeMode(Enum):
    Minimize = "minimize"
    Maximize = "maximize"


class AssessResult(Enum):
    """What an assessor thinks of a running trial. Bad: it is stopped early."""

    Good = True
    Bad = False


class Past(Flag):
    """What of the past a tuner with ``recall`` must hear of to be what it was, beside changes of space."""

    NOTHING = 0
    OPEN = auto()  # suggestions whose trials have not ended
    SUGGESTIONS = auto()  # all of them
    RESULTS = auto()  # the ends of trials
    IMPORTS = auto()
    ALL = OPEN | SUGGESTIONS | RESULTS | IMPORTS


def _anything(parameters: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an experiment asks of every parameter set.

    ``feasible``: whether a set meets the constraints. ``may_repeat``: sets that were given before may be
    given again, since somebody else decides what becomes of them. ``never_repeat``: none may, not even where
    that is as good as impossible.
    """

    feasible: Callable[[Any], bool] = _anything
    may_repeat: bool = False
    never_repeat: bool = False


class Recoverable:
    """What may be kept in files of the algorithm's own."""

    def load_checkpoint(self) -> None:
        """Called after the constructor when an experiment goes on in a new process."""

    def save_checkpoint(self) -> None:
        """Never called, as in NNI 3.0; an algorithm may call it itself."""

    def get_checkpoint_path(self) -> str | None:
        """The directory for checkpoints (``NNI_CHECKPOINT_DIRECTORY``), if there is one."""
        path = os.environ.get("NNI_CHECKPOINT_DIRECTORY")
        return path if path and os.path.isdir(path) else None


class Tuner(Recoverable):
    """Suggests parameter sets. Override ``update_search_space``, ``generate_parameters`` and
    ``receive_trial_result``.

    A tuner with ``recall(parameter_id, parameters)`` is told so of every set that an earlier process
    suggested, mixed with the results in the order in which all this happened. With ``needs(search_spaces)``
    it may say beforehand, knowing the spaces that the experiment has had, that a part of it (a ``Past``) will
    do: what it does not need is not even read.

    A tuner with ``obey(rules)`` is told before anything else what is asked of every set (``Rules``), and
    gives no other. One without it is asked again until it gives one that will do.

    A tuner with ``set_objectives(objectives)`` is told, after the constructor, what the configuration names
    as objectives, if it names any: {"accuracy": "maximize", "latency": "minimize"}, the main one first. Every
    result is then a mapping with a finite number under each name, or, of one objective, that number alone.
    Built-in tuners need it for several only: of one they find the number as ``default``, and what is best as
    ``optimize_mode``.

    A tuner with ``take_back(parameter_id, parameters)`` is told so, after ``trial_end``, of every set whose
    trial was called off before it was tried, since the search space was replaced, say, and that it may
    suggest again. What a user stops is not among them.

    A tuner that ``waits`` for results of some trials before it gives others leaves ids over in
    ``generate_multiple_parameters`` and is asked for these again after everything that it is told; it needs
    no ``st_callback``. With ``why_waiting() -> str`` it says in a few words what it waits for.
    """

    learns: ClassVar[bool] = True  # False: what it suggests does not depend on results, so it is asked ahead
    replayable: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    _accept_customized: bool = False

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        """Called first, and at every change of the search space."""
        raise NotImplementedError("Tuner: update_search_space is not implemented")

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        """One parameter set, anything JSON can hold. Raises NoMoreTrialError when there is none."""
        raise NotImplementedError("Tuner: generate_parameters is not implemented")

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        """Parameter sets for the first ids of the list.

        The ids left over may be served later through ``kwargs["st_callback"](parameter_id, parameters)``. A
        call that waits for something, results of other trials for instance, gets those from another thread.
        """
        found = []
        for parameter_id in parameter_id_list:
            try:
                found.append(self.generate_parameters(parameter_id, **kwargs))
            except NoMoreTrialError:
                break
        return found

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        """A trial's final result, a number or a mapping with one as ``default``.

        ``kwargs``: ``customized`` (bool; its ``parameter_id`` is None) and ``trial_job_id``.
        """
        raise NotImplementedError("Tuner: receive_trial_result is not implemented")

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        """The trial has ended. ``success`` only if it ran to its end; ``kwargs``: ``trial_job_id``.

        Tuners with ``recall`` are also told ``untried=True`` where ``take_back`` follows, and ``again=True``
        where the experiment was stopped and the same set runs again, as another trial, when it goes on.
        """

    def import_data(self, data: list[dict[str, Any]]) -> None:
        """Results from elsewhere, each ``{"parameter": ..., "value": ...}``."""

    def _accept_customized_trials(self, accept: bool = True) -> None:
        """From now on results of trials that a user submitted by hand are received too."""
        self._accept_customized = accept

    def _on_exit(self) -> None:
        """The experiment lets go of the tuner."""

    def _on_error(self) -> None:
        """The tuner raised an exception that ends its process."""


class Assessor(Recoverable):
    """Judges running trials by their intermediate results. Override ``assess_trial``.

    An assessor with ``recall(trial_job_id, trial_history, success)`` is told so of every trial that ended
    under an earlier process, in the order of the ends. One that is ``replayable`` gets all calls again
    instead, in the order of the reports and ends: for what depends on who came first.

    An assessor with ``why(trial_job_id)`` is asked so whenever it has said Bad. It returns one sentence, or a
    mapping with it as ``reason`` and, if there are such, ``rung`` (the step at which trials are compared) and
    ``better`` (ids of a few trials that this one was worse than).
    """

    replayable: ClassVar[bool] = False

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult | bool:
        """``trial_history``: the values reported so far, in order. Not every report need bring a call."""
        raise NotImplementedError("Assessor: assess_trial is not implemented")

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        """A trial that had reported something has ended."""

    def _on_exit(self) -> None:
        """The experiment lets go of the assessor."""

    def _on_error(self) -> None:
        """The assessor raised an exception that ends its process."""


class ClassArgsValidator(abc.ABC):
    """Base of the validators that registered algorithms bring along for their ``classArgs``."""

    @abc.abstractmethod
    def validate_class_args(self, **kwargs: Any) -> None:
        """Raise if the algorithm cannot be built with these arguments."""

    def choices(self, key: str, *args: Any) -> Callable[[Any], bool]:
        """A test that the value of ``key`` is one of ``args``; it raises ValueError."""

        def test(value: Any) -> bool:
            if value not in args:
                raise ValueError(f"{key} must be one of {', '.join(map(repr, args))}, not {value!r}")
            return True

        return test

    def range(self, key: str, keyType: type, start: float, end: float) -> Callable[[Any], bool]:
        """A test that the value of ``key`` is a ``keyType`` between two bounds; it raises ValueError."""

        def test(value: Any) -> bool:
            if not isinstance(value, keyType) or not start <= value <= end:  # type: ignore[operator]
                raise ValueError(f"{key} must be {keyType.__name__} from {start} to {end}, not {value!r}")
            return True

        return test

    def path(self, key: str) -> Callable[[Any], bool]:
        """A test that the value of ``key`` is a path that exists; it raises ValueError."""

        def test(value: Any) -> bool:
            if not os.path.exists(value):
                raise ValueError(f"{key} must be an existing path, not {value!r}")
            return True

        return test


def extract_scalar_reward(value: Any, scalar_key: str = "default") -> float:
    """The number that a result stands for: itself, or its entry ``scalar_key``. Raises RuntimeError."""
    reward = value
    if not isinstance(value, int | float) and isinstance(value, Mapping):
        reward = value.get(scalar_key)
    if isinstance(reward, int | float):
        return reward
    raise RuntimeError(
        f'a result must be a number or a mapping with a number as "{scalar_key}", not {value!r}'
    )


def extract_scalar_history(trial_history: Sequence[Any], scalar_key: str = "default") -> list[float]:
    """The numbers that intermediate results stand for. Raises RuntimeError."""
    return [extract_scalar_reward(value, scalar_key) for value in trial_history]
