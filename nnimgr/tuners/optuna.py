"""Tuners that use Optuna's samplers. The study, Optuna's record of all trials, is in memory only.

A suggestion depends on the seed, the parameter id, the earlier calls, and on data that the sampler has stored
with its trials and its study. ``dump_state`` returns this data after each suggestion, unless it can be
computed. After a restart, ``recall`` gets the data back.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, nsgaii
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from nnimgr.algorithm import Past, extract_scalar_reward
from nnimgr.libraries import need
from nnimgr.objectives import DEFAULT, Objectives
from nnimgr.tuners.learning import LearningTuner
from nnimgr.tuners.optuna_samplers import NEEDS, fault_of_arguments, fault_of_sampler, sampler_class
from nnimgr.tuners.optuna_space import Translation

__all__ = ["NSGA2Tuner", "OptunaTuner"]

State = dict[str, Any]

_OF_PARAMS = "tpe:relative_params"  # stored data that only repeats the trial's parameters


class CmaEsSampler(optuna.samplers.CmaEsSampler):
    """Optuna's CMA-ES sampler with a fixed choice of numeric parameters that it models.

    Optuna's own class models the numeric parameters that all results so far have in common. With nested
    choices, the number of these parameters may fall. Then Optuna's class fails, or only draws at random.
    """

    modelled: dict[str, BaseDistribution]

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self.modelled


@dataclass(frozen=True, slots=True)
class _Asked:
    """Trial that the study has created, but whose parameter set is not suggested yet."""

    number: int
    parameters: dict[str, Any]


class OptunaTuner(LearningTuner):
    """Tuner that uses one of Optuna's samplers. It supports several objectives if the sampler does.

    ``sampler``: the name of the sampler's class, with or without "Sampler" at the end. ``sampler_args``:
    arguments of its constructor; a crossover is given by its name. Raise ValueError if an argument is wrong,
    and ModuleNotFoundError if Optuna or a library of the sampler is not installed.
    """

    def __init__(
        self,
        optimize_mode: str = "minimize",
        seed: int | None = None,
        sampler: str = "TPESampler",
        sampler_args: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(optimize_mode, seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._directions: Objectives = {DEFAULT: optimize_mode}
        self._class = _sampler_named(sampler)
        self._arguments = _arguments_of(self._class, dict(sampler_args or {}))
        self._arguments["seed"] = Random(f"{self._seed}").getrandbits(32)
        # With its argument ``group``, Optuna's TPE also stores parameters of options that were not chosen.
        self._grouped = bool(self._arguments.get("group"))
        self._told: list[tuple[Any, list[float]]] = []  # every result, in the order of arrival
        self._begin()

    def set_objectives(self, objectives: dict[str, str]) -> None:
        if len(objectives) < 2:
            return
        fault = fault_of_arguments({"sampler": self._class.__name__}, several=True)
        if fault is not None:
            raise ValueError(fault[1])
        self._directions = objectives

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.ALL  # all events, because samplers depend even on a trial's number

    # ---- the study ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Create a study for the current search space.

        Add all results and unfinished trials that are in this space.
        """
        self._translation = Translation(self.space)
        self._storage = InMemoryStorage()
        self._sampler = self._make_sampler()
        directions = [StudyDirection[mode.upper()] for mode in self._directions.values()]
        self._study = optuna.create_study(storage=self._storage, sampler=self._sampler, directions=directions)
        self._study_id = self._storage.get_study_id_from_name(self._study.study_name)
        self._size = 0  # number of trials in the study
        self._asked: _Asked | None = None
        # number of trials that the study has created since the last suggestion and that were not suggested
        self._rejected = 0
        self._noted: Mapping[
            str, Any
        ] = {}  # data that the sampler had stored with the study at the last suggestion
        self._restored: State = {}
        self._state: State = {}
        self._ended: int | None = None  # number of the trial that has just ended; its result may follow
        for parameters, values in self._told:
            self._add(TrialState.COMPLETE, parameters, values=values)
        added = [(each, self._add(TrialState.RUNNING, held)) for each, held in self.open.items()]
        self._numbers = {each: number for each, number in added if number is not None}

    def _make_sampler(self) -> BaseSampler:
        with warnings.catch_warnings():  # ignore warnings about experimental and deprecated arguments
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = self._class(**self._arguments)
        if isinstance(sampler, CmaEsSampler):
            sampler.modelled = self._translation.shared_numbers()
        return sampler

    def _add(
        self,
        state: TrialState,
        parameters: Any,
        *,
        values: list[float] | None = None,
        raw: Mapping[str, Any] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> int | None:
        """Add a trial with this parameter set to the study.

        Return the trial's number, or None if the set is not in the search space.
        """
        params = self._translation.params_of(parameters)
        if params is None:
            return None
        distributions = {key: self._translation.distributions[key] for key in params}
        self._study.add_trial(
            create_trial(
                state=state,
                values=values,
                params={**params, **(raw or {})},
                distributions=distributions,
                system_attrs=notes,
            )
        )
        self._size += 1
        return self._size - 1

    def _notes(self) -> Mapping[str, Any]:
        return self._storage.get_study_system_attrs(self._study_id)

    # ---- hooks --------------------------------------------------------------------------------------------

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        self._reject()
        if self._grouped or self._class.__name__ == "GPSampler":
            # Use a new sampler, because the old one has data (fitted models) that a restarted process lacks.
            self._sampler = self._study.sampler = self._make_sampler()
        for generator in _generators(self._sampler):
            generator.seed(rng.getrandbits(32))
        trial = self._study.ask()
        self._size += 1
        parameters = self._translation.draw(trial)
        self._asked = _Asked(trial.number, parameters)
        return parameters

    def _reject(self) -> None:
        """Mark the trial that the study created last as failed, because its parameter set is not
        suggested.
        """
        if self._asked is not None:
            self._study.tell(self._asked.number, state=TrialState.FAIL)
            self._rejected += 1
            self._asked = None

    def space_changed(self) -> None:
        self._begin()

    def opened(self, parameter_id: int, parameters: Any) -> None:
        number: int | None
        if self._asked is not None and self._asked.parameters is parameters:
            number, self._asked = self._asked.number, None
        else:
            self._reject()
            number = self._restore(parameters)
        self._state = self._state_with(number, parameters)
        if number is not None:
            self._numbers[parameter_id] = number

    def closed(self, parameter_id: int, parameters: Any) -> None:
        self._ended = self._numbers.pop(parameter_id, None)

    def trial_end(self, parameter_id: int | None, success: bool, **kwargs: Any) -> None:
        super().trial_end(parameter_id, success, **kwargs)
        if self._ended is not None:
            self._study.tell(self._ended, state=TrialState.FAIL)
            self._ended = None

    def _learn(self, parameters: Any, value: Any) -> None:
        values = [float(extract_scalar_reward(value, name)) for name in self._directions]
        self._told.append((parameters, values))
        number, self._ended = self._ended, None
        if number is None:
            self._add(TrialState.COMPLETE, parameters, values=values)
        else:
            self._study.tell(number, values)

    # ---- state --------------------------------------------------------------------------------------------

    def dump_state(self) -> State | None:
        """Return data about the last suggestion that cannot be computed from its parameter set.

        ``raw``: Optuna's values that the set does not determine exactly. ``trial``, ``study``: data that the
        sampler has stored with the trial, and new data stored with the study. ``rejected``: the number of
        trials that the study created before, but whose sets were not suggested.
        """
        return self._state or None

    def recall(self, parameter_id: int, parameters: Any, state: State | None = None) -> None:
        """Record a parameter set that was suggested before this process started.

        ``state``: the data that ``dump_state`` returned after that suggestion.
        """
        self._restored = state or {}
        super().recall(parameter_id, parameters)
        self._restored = {}

    def _restore(self, parameters: Any) -> int | None:
        """Add a trial to the study for a parameter set that the sampler of this process has not suggested.

        Return its number.
        """
        for _ in range(self._restored.get("rejected", 0)):
            self._study.add_trial(create_trial(state=TrialState.FAIL))
            self._size += 1
        for key, value in self._restored.get("study", {}).items():
            self._storage.set_study_system_attr(self._study_id, key, value)
        raw, notes = self._restored.get("raw"), self._restored.get("trial")
        return self._add(TrialState.RUNNING, parameters, raw=raw, notes=notes)

    def _state_with(self, number: int | None, parameters: Any) -> State:
        before, self._noted = self._noted, self._notes()
        rejected, self._rejected = self._rejected, 0
        study = {}
        if before is not self._noted:  # the mapping object is replaced when it changes
            study = {key: value for key, value in self._noted.items() if before.get(key) != value}
        raw, notes = {}, {}
        if number is not None:
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            trial = self._storage.get_trial(trial_id)
            computed = self._translation.params_of(parameters) or {}
            raw = {key: value for key, value in trial.params.items() if computed.get(key) != value}
            notes = {
                key: value
                for key, value in trial.system_attrs.items()
                if self._grouped or not key.startswith(_OF_PARAMS)
            }
        state = {"rejected": rejected, "study": study, "raw": raw, "trial": notes}
        return {name: part for name, part in state.items() if part}


class NSGA2Tuner(OptunaTuner):
    """Tuner for several objectives: the genetic algorithm NSGA-II with elitism (Deb and others, 2002)."""

    def __init__(
        self,
        optimize_mode: str = "minimize",
        seed: int | None = None,
        population_size: int = 50,
        mutation_prob: float | None = None,
        crossover: str = "uniform",
        crossover_prob: float = 0.9,
        swapping_prob: float = 0.5,
    ) -> None:
        arguments = {
            "population_size": population_size,
            "mutation_prob": mutation_prob,
            "crossover": crossover,
            "crossover_prob": crossover_prob,
            "swapping_prob": swapping_prob,
        }
        super().__init__(optimize_mode, seed, "NSGAIISampler", arguments)


def _sampler_named(name: str) -> type[BaseSampler]:
    fault, found = fault_of_sampler(name), sampler_class(name)
    if fault is not None or found is None:
        raise ValueError(f"the argument sampler of Optuna {fault}, not {name!r}")
    needed = NEEDS.get(found)
    if needed is not None:
        need(f"Optuna's {found}", needed)
    if found == CmaEsSampler.__name__:
        return CmaEsSampler
    sampler: type[BaseSampler] | None = getattr(optuna.samplers, found, None)
    if sampler is None:
        raise ValueError(
            f"the installed Optuna {optuna.__version__} has no {found}; install a newer version: "
            "pip install --upgrade optuna"
        )
    return sampler


def _arguments_of(sampler: type[BaseSampler], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for the sampler's constructor, with a crossover as an object.

    Raise ValueError if an argument is not valid.
    """
    takes = set(inspect.signature(sampler).parameters) - {"seed"}
    for name in given:
        if name not in takes:
            raise ValueError(
                f"{sampler.__name__} takes no argument {name!r} in sampler_args; valid arguments are "
                f"{', '.join(sorted(takes))}"
            )
    if isinstance(given.get("crossover"), str):
        given["crossover"] = _crossover(given["crossover"])
    if "warn_independent_sampling" in takes:
        given.setdefault("warn_independent_sampling", False)  # Optuna would warn at every trial
    return given


def _crossover(name: str) -> nsgaii.BaseCrossover:
    known = {
        each.removesuffix("Crossover").lower(): each for each in nsgaii.__all__ if each.endswith("Crossover")
    }
    del known["base"]
    found = known.get(name.lower().removesuffix("crossover"))
    if found is None:
        raise ValueError(f"the crossover must be one of {', '.join(sorted(known))}, not {name!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        crossover: nsgaii.BaseCrossover = getattr(nsgaii, found)()
    return crossover


def _generators(sampler: BaseSampler) -> Iterator[np.random.RandomState]:
    """Yield all random number generators in a sampler and in its inner objects, in a fixed order."""
    seen: set[int] = set()
    stack: list[Any] = [sampler]
    while stack:
        thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.random.RandomState):
            yield thing
        elif thing is sampler or type(thing).__module__.startswith("optuna."):
            stack.extend(getattr(thing, "__dict__", {}).values())
