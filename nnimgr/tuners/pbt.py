"""Population based training, PBT (Jaderberg, Dalibard, Osindero and others, 2017)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import NoMoreTrialError, Past
from nnimgr.search_space import Choice, Nested, ParameterType, Space, Spec
from nnimgr.tuners.learning import LearningTuner

__all__ = ["DIRECTORIES", "PBTTuner"]

_LOAD, _SAVE = DIRECTORIES = ("load_checkpoint_dir", "save_checkpoint_dir")  # NNI's names


@dataclass(slots=True)
class _Member:
    """Place in a generation, which is filled by one trial.

    ``plan``: the parameters for this trial; None: any parameters. ``replaced``: the trial continues from the
    checkpoint of a better member, and ``plan`` is ignored.
    """

    plan: dict[str, Any] | None
    load: str  # directory with the checkpoint from which the trial continues
    save: str
    replaced: bool = False
    given: dict[str, Any] | None = None  # parameters of its trial; None: it has no trial yet
    ended: bool = False
    loss: float | None = None


class PBTTuner(LearningTuner):
    """Tuner that trains a population in generations.

    Each trial continues from the checkpoint of an earlier trial. A trial gets two more parameters: it saves
    its checkpoint in ``save_checkpoint_dir``, which is ``all_checkpoint_dir``/generation/member. If there is
    a checkpoint in ``load_checkpoint_dir``, it continues from that checkpoint. In the first generation, both
    directories are the same. Later, ``load_checkpoint_dir`` is the directory in which the earlier trial saved
    its checkpoint.

    When all members of a generation have ended, the next generation begins. The worst ``fraction`` and the
    members without a result continue from members of the best ``fraction`` with changed parameters. Each
    parameter is drawn again with the probability ``resample_probability``, otherwise moved by ``factor`` of
    its range. A choice or an integer moves by one.

    ``factors`` is another name for ``factor``, which NNI accepts. Results that are imported before the first
    trial become the first members. If ``all_checkpoint_dir`` is None, a directory of the experiment is used.
    """

    waits: ClassVar[bool] = True
    _accept_customized = False

    def __init__(
        self,
        optimize_mode: str = "maximize",
        all_checkpoint_dir: str | None = None,
        population_size: int = 10,
        factor: float = 0.2,
        resample_probability: float = 0.25,
        fraction: float = 0.2,
        factors: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(optimize_mode, seed)
        if all_checkpoint_dir is None:
            all_checkpoint_dir = os.environ.get("NNI_CHECKPOINT_DIRECTORY", "checkpoint")
        self._directory = all_checkpoint_dir
        self._size = population_size
        self._factor = factor if factors is None else factors
        self._resample, self._fraction = resample_probability, fraction
        self._generation = 0
        self._members: list[_Member] = []
        self._best: list[_Member] = []  # best members of the previous generation
        self._runs: dict[int, _Member] = {}  # id -> member, for the trials of this generation
        self._imported: list[tuple[float, int, dict[str, Any]]] = []
        self._foreign: set[int] = set()  # ids of parameter sets that another tuner suggested before this one
        self._base: dict[str, Any] | None = (
            None  # parameter set that ``suggest`` is to change; None: draw any set
        )

    # ---- methods of the base class Tuner ------------------------------------------------------------------

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.ALL

    def space_changed(self) -> None:
        """Start a new population. It has its own directories for checkpoints."""
        self._repeats = False  # False: do not avoid repetitions, because members may have equal parameters
        self._generation += any(member.given is not None for member in self._members)
        self._begin()

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        return [
            self._give(parameter_id, member)
            for parameter_id, member in zip(parameter_id_list, self._waiting(), strict=False)
        ]

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        for member in self._waiting():
            return self._give(parameter_id, member)
        raise NoMoreTrialError(self.why_waiting())

    def why_waiting(self) -> str:
        count = sum(not member.ended for member in self._members)
        trials = "a trial" if count == 1 else f"{count} trials"
        return f"it waits for {trials} of generation {self._generation} before the next one begins"

    def recall(self, parameter_id: int, parameters: Any) -> None:
        super().recall(parameter_id, parameters)
        if _SAVE not in parameters:  # another tuner suggested this set, which has no checkpoint
            self._foreign.add(parameter_id)
            return
        for member in self._waiting()[:1]:
            self._run(parameter_id, member, _without_directories(parameters))

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        member = self._runs.pop(parameter_id, None)
        if member is not None:
            member.given = None

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        super().receive_trial_result(parameter_id, parameters, value)
        if parameter_id in self._foreign:
            self._take_in()
        else:
            self._end(parameter_id, self.results.pop()[1])

    def trial_end(self, parameter_id: int | None, success: bool, **kwargs: Any) -> None:
        super().trial_end(parameter_id, success)
        if not kwargs.get("untried") and not kwargs.get("again"):
            self._end(parameter_id, None)

    def import_data(self, data: list[dict[str, Any]]) -> None:
        super().import_data(data)
        self._take_in()

    def _take_in(self) -> None:
        """Store imported results. The best of them become the first generation, unless it has begun."""
        for parameters, loss in self.results:
            if isinstance(parameters, Mapping):
                self._imported.append((loss, len(self._imported), _without_directories(parameters)))
        self.results.clear()
        if not self._generation and not self._runs:
            self._begin()

    # ---- generations --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Create the members of a generation that start without checkpoints."""
        self._runs.clear()
        plans: list[dict[str, Any] | None] = []
        if self._imported and not self._generation:
            best = sorted(self._imported, key=lambda each: each[:2])
            plans += [each for _, _, each in best if not spaces.contains(self.space, each)]
        plans = [*plans, *[None] * self._size][: self._size]
        places = [self._place(index) for index in range(self._size)]
        self._members = [
            _Member(plan=plan, load=place, save=place) for plan, place in zip(plans, places, strict=True)
        ]

    def _place(self, index: int) -> str:
        return os.path.join(self._directory, str(self._generation), str(index))

    def _waiting(self) -> list[_Member]:
        """Return the members of this generation that have no trial yet."""
        return [member for member in self._members if member.given is None]

    def _give(self, parameter_id: int, member: _Member) -> dict[str, Any]:
        rng = Random(f"{self._seed}/{parameter_id}")
        plan, load = member.plan, member.load
        if member.replaced:
            better = rng.choice(self._best)
            plan, load = better.given, better.save
        if plan is not None and not member.replaced and self._rules.feasible(plan):
            parameters = plan
        else:
            self._base = plan
            allowed = self._allowed(rng, parameter_id)
            parameters = self._given.next_of_grid() if allowed is None else allowed
        self._run(parameter_id, member, parameters)
        given = {**parameters, _LOAD: load, _SAVE: member.save}
        self._opened(parameter_id, given)
        return given

    def _run(self, parameter_id: int, member: _Member, parameters: dict[str, Any]) -> None:
        member.given = parameters
        self._runs[parameter_id] = member

    def _end(self, parameter_id: int | None, loss: float | None) -> None:
        """Record that a trial of this generation has ended, with its loss or None.

        When all trials of the generation have ended, start the next generation.
        """
        member = self._runs.get(-1 if parameter_id is None else parameter_id)
        if member is None:
            return
        member.ended = True
        member.loss = loss if loss is not None else member.loss
        if all(each.ended for each in self._members):
            self._breed()

    def _breed(self) -> None:
        """Start the next generation.

        The worst members continue from the best ones, and all others from their own checkpoints.
        """
        ranked = sorted(
            (member for member in self._members if member.loss is not None),
            key=lambda member: member.loss or 0.0,
        )
        count = math.ceil(self._fraction * self._size)
        self._generation += 1
        if not ranked:
            self._begin()
            return
        self._runs.clear()
        self._best = ranked[: max(1, count)]
        good = ranked[: max(len(self._best), self._size - count)]
        self._members = [
            _Member(
                plan=member.given,
                load=member.save,
                save=self._place(index),
                replaced=not any(member is each for each in good),
            )
            for index, member in enumerate(self._members)
        ]

    # ---- exploration --------------------------------------------------------------------------------------

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        return (
            spaces.sample(self.space, rng)
            if self._base is None
            else self._changed(self.space, self._base, rng)
        )

    def _changed(self, space: Space, base: Mapping[str, Any], rng: Random) -> dict[str, Any]:
        found = {}
        for name, spec in space.parameters:
            if name not in base or rng.random() < self._resample:
                found.update(spaces.sample(Space(((name, spec),)), rng))
            else:
                found[name] = self._moved(spec, base[name], rng)
        return found

    def _moved(self, spec: Spec, value: Any, rng: Random) -> Any:
        if isinstance(spec, Nested):
            inner = dict(spec.options)[value["_name"]]
            return {"_name": value["_name"], **self._changed(inner, value, rng)}
        side = rng.choice((-1, 1))
        if isinstance(spec, Choice):
            keys = [json.dumps(option, sort_keys=True) for option in spec.options]
            at = keys.index(json.dumps(value, sort_keys=True)) + side
            return spec.options[min(max(at, 0), len(keys) - 1)]
        if spec.type is ParameterType.RANDINT:
            return int(min(max(value + side, spec.a), spec.b - 1))
        if not spec.type.logarithmic:
            extent = spec.b if spec.type.gaussian else spec.b - spec.a
            return spec.nearest(value + side * max(self._factor * extent, spec.q or 0.0))
        extent = spec.b if spec.type.gaussian else math.log(spec.b / spec.a)
        # A value of 0 results from rounding a value below q / 2, so take q / 4 for it.
        moved = max(value, (spec.q or 0.0) / 4) * math.exp(side * self._factor * extent)
        if spec.q is not None and spec.quantise(moved) == value:
            moved = value + side * spec.q
        return spec.nearest(moved)


def _without_directories(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in DIRECTORIES}
