"""What a user may ask of a running experiment, as builders of facts: each sees the state of its turn.

Raises RequestRefused with a sentence when what is asked for is not possible then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nnimgr.config import (
    ConfigError,
    ExperimentConfig,
    Problem,
    apply_updates,
    check_constraints,
    read_canonical,
)
from nnimgr.constraints import Constraints
from nnimgr.core.running.search import Builder
from nnimgr.dispatcher.history import CONSTRAINTS, constraints_of
from nnimgr.goal import optimize_mode
from nnimgr.rules import facts as f
from nnimgr.rules.state import AddedTrial, ExperimentState, trial_id_of


class RequestRefused(Exception):
    """What was asked for is not possible now; the message is one sentence for the user."""


class UnknownTrial(RequestRefused):
    """There is no live trial with this id."""


class BudgetSpent(RequestRefused):
    """As many trials as maxTrialNumber allows exist already."""


class TrialAddition:
    """A customised trial to add, or the one that a previous request with the same key has added.

    ``outstanding``: suggestions on their way, which have their claim on the budget. ``added`` is known once
    the request is answered. Called with the state of its turn, as a ``Builder``.
    """

    def __init__(self, parameters: Any, *, outstanding: int, key: str | None = None) -> None:
        self._parameters = parameters
        self._text = _text(parameters)
        self._outstanding = outstanding
        self._key = key
        self.added: AddedTrial | None = None

    def __call__(self, state: ExperimentState) -> Sequence[f.Fact]:
        wanted = AddedTrial.of(trial_id_of(state.id, state.next_sequence), state.next_sequence, self._text)
        known = None if self._key is None else state.added.get(self._key)
        if known is not None:
            if known.sha256 != wanted.sha256:
                raise RequestRefused(
                    f"the Idempotency-Key {self._key} has added trial {known.trial_id} with other "
                    "parameters: send a new key to add another trial"
                )
            self.added = known
            return ()
        _check_open(state)
        complaint = _constraints(constraints_of(state.config) or ()).complaint(self._parameters)
        if complaint is not None:
            raise RequestRefused(complaint)
        if state.budget is not None and state.budget <= self._outstanding:
            raise BudgetSpent(
                f"maxTrialNumber ({state.limits.max_trial_number}) is reached: raise it to add a trial"
            )
        self.added = wanted
        return (
            f.Suggested(
                trial_id=wanted.trial_id,
                sequence=wanted.sequence,
                source=f.SuggestionSource.CUSTOMIZED,
                parameter_id=None,
                parameters=self._text,
                request_key=self._key,
            ),
        )


def initial_trials(experiment_id: str, sets: Sequence[Any]) -> list[f.Suggested]:
    """The trials that an experiment begins with."""
    return [
        f.Suggested(
            trial_id=trial_id_of(experiment_id, sequence),
            sequence=sequence,
            source=f.SuggestionSource.CUSTOMIZED,
            parameter_id=None,
            parameters=_text(parameters),
        )
        for sequence, parameters in enumerate(sets)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTrial:
    """A trial that has failed and was not run again; ``parameters`` is JSON text."""

    id: str
    parameter_id: int | None
    parameters: str


def rerun(trials: Sequence[FailedTrial]) -> Builder:
    """Run these again, each as a new trial with its parameters, which counts in its place."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        return [
            f.Suggested(
                trial_id=trial_id_of(state.id, sequence),
                sequence=sequence,
                source=f.SuggestionSource.RERUN,
                parameter_id=trial.parameter_id,
                parameters=trial.parameters,
                retry_of=trial.id,
            )
            for sequence, trial in enumerate(trials, state.next_sequence)
        ]

    return build


def stop_trial(trial_id: str, *, kind: f.StopKind = f.StopKind.USER) -> Builder:
    def build(state: ExperimentState) -> Sequence[f.Fact]:
        if trial_id not in state.trials:
            raise UnknownTrial(f"trial {trial_id} is not alive")
        return (f.StopRequested(trial_id=trial_id, kind=kind),)

    return build


def stop_trials(trial_ids: Sequence[str]) -> Builder:
    """Stop those of these that are alive."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        return [f.StopRequested(trial_id=name) for name in dict.fromkeys(trial_ids) if name in state.trials]

    return build


def lose_trial(trial_id: str) -> Builder:
    """A user says that a trial whose machine is silent will not come back."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = state.trials.get(trial_id)
        if trial is None:
            raise UnknownTrial(f"trial {trial_id} is not alive")
        if trial.status is not f.TrialStatus.UNKNOWN:
            raise RequestRefused(
                f"trial {trial_id} is {trial.status}: only one whose machine is silent, so that it is "
                "UNKNOWN, can be declared lost"
            )
        return (f.LossDeclared(trial_id=trial_id),)

    return build


def change_config(changes: Mapping[str, Any]) -> Builder:
    """New values of canonical top-level fields; None lifts a limit. ConfigError passes through."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        if state.status is f.ExperimentStatus.VIEWED:
            raise RequestRefused("the experiment is only viewed: it cannot be changed")
        old = _config(state).canonical()
        after = changed_config(state, changes)
        new = after.canonical()
        if state.best is not None or state.worst is not None:
            _keep_direction(old, new)
        space = new.pop("searchSpace")
        other = {key: new.get(key) for key in (*new, *old) if new.get(key) != old.get(key)}
        other.pop("searchSpace", None)
        # With other constraints it is another space: what was suggested before may be none of it.
        is_other = space != old["searchSpace"] or CONSTRAINTS in other
        return (
            f.ConfigChanged(changes=other, limits=after.limits(), search_space=space if is_other else None),
        )

    return build


def changed_config(state: ExperimentState, changes: Mapping[str, Any]) -> ExperimentConfig:
    """The configuration with these changes. Raises ConfigError."""
    elapsed = state.active_for(state.last_at) if state.last_at else state.active
    after = apply_updates(_config(state), changes, elapsed=elapsed)
    if after.search_space_constraints:
        check_constraints(after)
    return after


def _keep_direction(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ConfigError if what was the best result so far would be the worst from now on."""
    mode = optimize_mode(old)
    if optimize_mode(new) != mode:
        sentence = (
            f"the experiment is to {mode} and has results already, so its new tuner must be told the same: "
            f"optimize_mode: {mode} in its classArgs"
        )
        raise ConfigError([Problem(message=sentence, field="tuner.classArgs.optimize_mode")])


def import_data(records: Sequence[Mapping[str, Any]]) -> Builder:
    """Results from elsewhere for the tuner: a list of {"parameter": {...}, "value": number or mapping}."""
    for number, record in enumerate(records):
        if not isinstance(record, Mapping) or "parameter" not in record or "value" not in record:
            raise RequestRefused(f"record {number} is not an object with 'parameter' and 'value'")
    # One by one: other threads would have to wait for as long as the text of all is made.
    texts = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
    text = f"[{','.join(texts)}]"

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        return (f.DataImported(records=text),)

    return build


def change_machines(facts: Sequence[f.Fact]) -> Builder:
    """Machines are added, drained or removed."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        return facts

    return build


def stop_experiment(*, detach: bool) -> Builder:
    def build(state: ExperimentState) -> Sequence[f.Fact]:
        runs_on = state.detached and not detach and bool(state.trials)
        if state.status is f.ExperimentStatus.VIEWED or (
            state.status is f.ExperimentStatus.STOPPED and not runs_on
        ):
            return ()
        return (f.ExperimentStopRequested(detach=detach),)

    return build


def _text(parameters: Any) -> str:
    return json.dumps(parameters, ensure_ascii=False, allow_nan=False)


def _config(state: ExperimentState) -> ExperimentConfig:
    return read_canonical({**state.config, "searchSpace": dict(state.search_space)})


@lru_cache(maxsize=64)
def _constraints(texts: tuple[str, ...]) -> Constraints:
    return Constraints(texts)


def _check_open(state: ExperimentState) -> None:
    if state.status in (f.ExperimentStatus.VIEWED, f.ExperimentStatus.STOPPED, f.ExperimentStatus.ERROR):
        raise RequestRefused(f"the experiment is {state.status}: resume it first")
    if state.stop_requested:
        raise RequestRefused("the experiment is being stopped")
