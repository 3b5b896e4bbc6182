"""Requests of users for new trials: trials with their parameters, forks, and retries of failed trials.

As in ``nnimgr.core.running.requests``, a request is a builder of facts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from nnimgr.config import ExperimentConfig
from nnimgr.config.parameter_sets import misfits
from nnimgr.constraints import Constraints
from nnimgr.core.running.mailbox import Builder
from nnimgr.core.running.requests import RequestRefused, check_open, see_checkpoints, unfinished
from nnimgr.dispatcher.history import constraints_of
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import is_deleted
from nnimgr.rules.checkpoints import checkpoint_of, has_files, is_usable, recovery_point
from nnimgr.rules.experiment_status import time_is_up
from nnimgr.rules.phrases import in_seconds
from nnimgr.rules.state import AddedTrial, ExperimentState, TrialState, job_id_of, trial_id_of
from nnimgr.rules.stop_rules import rule_that_holds
from training_services.keepers.names import host_of


class BudgetSpent(RequestRefused):
    """Error: the experiment has reached maxTrialNumber."""


class TrialAddition:
    """Request to add a customised trial. A repeated request with the same key returns the first trial.

    An instance is called as a builder of facts. ``outstanding``: number of suggestions that the tuner was
    asked for and has not sent, which also count towards maxTrialNumber. ``origin``: checkpoint of another
    trial from which the trial continues: it is a fork. ``raise_limit`` is called with a number if
    maxTrialNumber is reached, and returns a builder that raises it to the number; None: the trial is refused.
    ``added``: the trial, set when the builder was called.
    """

    def __init__(
        self,
        parameters: Any,
        *,
        outstanding: int,
        key: str | None = None,
        origin: f.Origin | None = None,
        raise_limit: Callable[[int], Builder] | None = None,
    ) -> None:
        self._parameters = parameters
        self._text = _text(parameters)
        self._outstanding = outstanding
        self._key = key
        self._origin = origin
        self._raise_limit = raise_limit
        self.added: AddedTrial | None = None

    def __call__(self, state: ExperimentState) -> Sequence[f.Fact]:
        wanted = AddedTrial.of(state.trial_id(state.next_sequence), state.next_sequence, self._text)
        known = None if self._key is None else state.added.get(self._key)
        if known is not None:
            if known.sha256 != wanted.sha256:
                raise RequestRefused(
                    f"the Idempotency-Key {self._key} has added trial {known.trial_id} with other "
                    "parameters: send a new key to add another trial"
                )
            self.added = known
            return ()
        check_open(state)
        complaint = _constraints(constraints_of(state.config) or ()).complaint(self._parameters)
        if complaint is not None:
            raise RequestRefused(complaint)
        _check_limits(state)
        if self._origin is not None:
            if state.limits.multi_phase:
                raise RequestRefused(_NO_MULTI_PHASE)
            if (
                fault := _fault_of_origin(state, self._origin) or _out_of_reach(state, self._origin)
            ) is not None:
                raise RequestRefused(fault)
        raised: Sequence[f.Fact] = ()
        if state.budget is not None and state.budget <= self._outstanding:
            enough = state.counted + self._outstanding + 1
            if self._raise_limit is None:
                raise BudgetSpent(
                    f"no trial can be added: the limit of maxTrialNumber, {state.limits.max_trial_number}, "
                    f"is reached; to raise it to {enough} for this trial: "
                    '--raise-limit ("raiseLimit": true in REST)'
                )
            raised = self._raise_limit(enough)(state)
        self.added = wanted
        return (
            *raised,
            f.Suggested(
                trial_id=wanted.trial_id,
                sequence=wanted.sequence,
                source=_SOURCES[self._origin is not None],
                parameter_id=None,
                parameters=self._text,
                request_key=self._key,
                retry_of=None if self._origin is None else self._origin.trial_id,
                origin=self._origin,
            ),
        )


_NO_MULTI_PHASE = "multi-phase trials do not continue from checkpoints, so they cannot be forked"
_SOURCES = {False: f.SuggestionSource.CUSTOMIZED, True: f.SuggestionSource.FORK}


def fork_origin(state: ExperimentState, trial_id: str, named: tuple[int, int] | None) -> f.Origin:
    """Return the checkpoint of an unfinished trial from which a fork of the trial continues.

    ``named``: (attempt, number); None: the newest checkpoint. Raise RequestRefused if there is none.
    """
    trial = unfinished(state, trial_id)
    if named is None:
        point = recovery_point(state, trial)
        if point is None:
            raise RequestRefused(_no_checkpoint(state, trial))
        named = point.origin.attempt, point.origin.number
        trial_id = point.origin.trial_id or trial_id
    found = checkpoint_of(state, job_id_of(state.id, trial_id, named[0]), named[1])
    if found is None:
        name = trial.title if trial_id == trial.id else trial_id
        raise RequestRefused(
            f"trial {name} has no checkpoint {named[1]} of attempt {named[0]}; "
            f"{see_checkpoints(state, trial_id)}"
        )
    return replace(found.origin, trial_id=trial_id, position=0)


def _no_checkpoint(state: ExperimentState, trial: TrialState) -> str:
    """Return why an unfinished trial cannot be forked: it has no checkpoint that can be used."""
    if state.limits.multi_phase:
        return _NO_MULTI_PHASE
    if not trial.checkpoints and trial.origin is None:
        return (
            f"trial {trial.title} has saved no checkpoint yet, so no fork can continue from it; a trial "
            "saves one by calling nni.save_checkpoint"
        )
    return f"no host has a usable checkpoint of trial {trial.title} now; {see_checkpoints(state, trial.id)}"


def _fault_of_origin(state: ExperimentState, origin: f.Origin) -> str | None:
    """Return why no trial can begin with this checkpoint; None: it can. It may be deleted, or on a host that
    is not known or has left.
    """
    assert origin.trial_id is not None
    job_id = job_id_of(state.id, origin.trial_id, origin.attempt)
    found = checkpoint_of(state, job_id, origin.number)
    gone = found is None if origin.trial_id in state.trials else is_deleted(state, job_id, origin.number)
    usable = has_files(state, origin.keeper_id) if found is None else is_usable(state, found)
    if gone or not usable:
        why = "was deleted, or its host has left" if gone else "cannot be used any more"
        return f"checkpoint {origin.number} of trial {origin.trial_id} {why}"
    return None


def _out_of_reach(state: ExperimentState, origin: f.Origin) -> str | None:
    """Return why a fork would wait for the checkpoint: only a machine has it that takes no more trials.

    Of each unfinished trial, only the newest checkpoint is copied from such a machine.
    """
    assert origin.trial_id is not None
    found = checkpoint_of(state, job_id_of(state.id, origin.trial_id, origin.attempt), origin.number)
    machine = state.machines.get(origin.keeper_id)
    if machine is None or not machine.draining or (found is not None and found.kept is not None):
        return None
    return (
        f"checkpoint {origin.number} of trial {origin.trial_id} is only on "
        f"{host_of(origin.keeper_id) or origin.keeper_id}, which takes no more trials; to let it take trials "
        'again, see "nnictl machine drain --help"'
    )


def check_changes(
    experiment_id: str, config: ExperimentConfig, before: Any, parameters: Mapping[str, Any]
) -> list[str]:
    """Return a sentence for each value of a new trial that is changed and outside of the search space, and
    for each that is missing.

    ``before``: the parameters of the trial from which it was made. Raise RequestRefused for a value of a
    wrong type.
    """
    kept = before if isinstance(before, Mapping) else {}
    changed = {name: value for name, value in parameters.items() if name not in kept or kept[name] != value}
    wrong, outside = misfits(config, changed)
    if wrong:
        raise RequestRefused(f'{wrong[0]}; see the search space: "nnictl config show {experiment_id}"')
    return [*outside, *(f"{name} is missing" for name in kept if name not in parameters)]


def initial_trials(experiment_id: str, sets: Sequence[Any]) -> list[f.Suggested]:
    """Return the facts that create the initial trials, one trial for each parameter set."""
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
    """Failed trial that was not run again yet. ``parameters``: JSON text.

    ``origin``: the checkpoint of another trial with which it began; None: it began at the beginning.
    """

    id: str
    parameter_id: int | None
    parameters: str
    origin: f.Origin | None = None


def rerun(trials: Sequence[FailedTrial]) -> Builder:
    """Return a builder of facts that run failed trials again, each as a new trial.

    A new trial takes the place of its failed trial in the count for maxTrialNumber. A fork begins again with
    its checkpoint, if that can still be used.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        check_open(state)
        _check_limits(state)
        facts: list[f.Fact] = []
        for sequence, trial in enumerate(trials, state.next_sequence):
            lost = None if trial.origin is None else _fault_of_origin(state, trial.origin)
            again = f.Suggested(
                trial_id=state.trial_id(sequence),
                sequence=sequence,
                source=f.SuggestionSource.RERUN,
                parameter_id=trial.parameter_id,
                parameters=trial.parameters,
                retry_of=trial.id,
                origin=trial.origin if lost is None else None,
            )
            facts.append(again)
            if lost is not None:
                note = f"{lost}: this retry of the fork {trial.id} starts from the beginning"
                facts.append(f.TrialNoted(trial_id=again.trial_id, note=note))
        return facts

    return build


def _text(parameters: Any) -> str:
    return json.dumps(parameters, ensure_ascii=False, allow_nan=False)


@lru_cache(maxsize=64)
def _constraints(texts: tuple[str, ...]) -> Constraints:
    return Constraints(texts)


def _check_limits(state: ExperimentState) -> None:
    """Raise RequestRefused if maxExperimentDuration or stopWhen would cancel a new trial at once."""
    if state.last_at is None:
        return
    limit = state.limits.max_experiment_duration
    if limit is not None and time_is_up(state, state.last_at):
        raise RequestRefused(
            f"no more trials are created: maxExperimentDuration ({in_seconds(limit)}) is reached; raise it "
            f'to continue: "nnictl update duration {state.id} --value DURATION"'
        )
    if (rule := rule_that_holds(state, state.last_at)) is not None:
        raise RequestRefused(
            f"no more trials are created: {rule}; change or remove stopWhen to continue: "
            f'"nnictl update stopwhen {state.id} --filename FILE"'
        )
