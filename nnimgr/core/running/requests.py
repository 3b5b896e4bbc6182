"""Requests of users to a running experiment, as builders (functions that return facts).

A builder is called with the state at the beginning of a turn (pass of the runner's loop). If the request is
not possible in this state, the builder raises RequestRefused with a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from nnimgr.config import (
    ConfigError,
    ExperimentConfig,
    Problem,
    apply_updates,
    check_constraints,
    read_canonical,
    refuse_needs,
)
from nnimgr.config.parameter_sets import misfits
from nnimgr.constraints import Constraints
from nnimgr.core.running.mailbox import Builder
from nnimgr.dispatcher.history import CONSTRAINTS, constraints_of
from nnimgr.goal import optimize_mode
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import is_deleted
from nnimgr.rules.checkpoints import checkpoint_of, recovery_point, where_it_continues
from nnimgr.rules.retention import pinned as pinned_of
from nnimgr.rules.state import AddedTrial, ExperimentState, TrialState, job_id_of, trial_id_of
from nnimgr.rules.stop_rules import rule_that_holds
from nnimgr.traits import traits_of


class RequestRefused(Exception):
    """Error: the request is not possible now. The message is one sentence for the user."""


class UnknownTrial(RequestRefused):
    """Error: no unfinished trial has this id."""


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
        _check_open(state)
        complaint = _constraints(constraints_of(state.config) or ()).complaint(self._parameters)
        if complaint is not None:
            raise RequestRefused(complaint)
        _check_rules(state)
        if self._origin is not None:
            _check_origin(state, self._origin)
        raised: Sequence[f.Fact] = ()
        if state.budget is not None and state.budget <= self._outstanding:
            enough = state.counted + self._outstanding + 1
            if self._raise_limit is None:
                raise BudgetSpent(
                    f"no trial can be added: maxTrialNumber ({state.limits.max_trial_number}) is reached; "
                    f'raise it to {enough} for this trial with --raise-limit ("raiseLimit": true in REST)'
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
    trial = _unfinished(state, trial_id)
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
            f"trial {name} has no checkpoint {named[1]} of attempt {named[0]}; {_list_of(state, trial_id)}"
        )
    return replace(found.origin, trial_id=trial_id, position=0)


def _no_checkpoint(state: ExperimentState, trial: TrialState) -> str:
    """Return why an unfinished trial cannot be forked: it has no checkpoint that can be used."""
    if state.limits.multi_phase:
        return _NO_MULTI_PHASE
    if not trial.checkpoints and trial.origin is None:
        return (
            f"trial {trial.title} has saved no checkpoint yet from which a fork could continue: its code "
            "saves one with nni.save_checkpoint"
        )
    return f"no host has a usable checkpoint of trial {trial.title} now; {_list_of(state, trial.id)}"


def _list_of(state: ExperimentState, trial_id: str) -> str:
    """Return the end of a sentence with the command that lists a trial's checkpoints."""
    return f'to list its checkpoints: "nnictl trial checkpoint ls {state.id} -T {trial_id}"'


def _check_origin(state: ExperimentState, origin: f.Origin) -> None:
    """Raise RequestRefused if the checkpoint for a fork has been deleted, or if its host is unknown."""
    assert origin.trial_id is not None
    if state.limits.multi_phase:
        raise RequestRefused(_NO_MULTI_PHASE)
    job_id = job_id_of(state.id, origin.trial_id, origin.attempt)
    if origin.trial_id in state.trials:
        gone = checkpoint_of(state, job_id, origin.number) is None
    else:
        gone = is_deleted(state, job_id, origin.number)
    if gone or origin.keeper_id not in state.keepers:
        raise RequestRefused(f"checkpoint {origin.number} of trial {origin.trial_id} cannot be used any more")


def check_changes(
    experiment_id: str, config: ExperimentConfig, before: Any, parameters: Mapping[str, Any]
) -> list[str]:
    """Return a sentence for each value of a new trial that is changed and outside of the search space.

    ``before``: the parameters of the trial from which it was made. Raise RequestRefused for a value of a
    wrong type.
    """
    kept = before if isinstance(before, Mapping) else {}
    changed = {name: value for name, value in parameters.items() if name not in kept or kept[name] != value}
    wrong, outside = misfits(config, changed)
    if wrong:
        raise RequestRefused(f'{wrong[0]}; see the search space: "nnictl config show {experiment_id}"')
    return outside


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
    """Failed trial that was not run again yet. ``parameters``: JSON text. ``forked``: it was a fork."""

    id: str
    parameter_id: int | None
    parameters: str
    forked: bool = False


def rerun(trials: Sequence[FailedTrial]) -> Builder:
    """Return a builder of facts that run failed trials again, each as a new trial.

    A new trial takes the place of its failed trial in the count for maxTrialNumber.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        _check_rules(state)
        facts: list[f.Fact] = []
        for sequence, trial in enumerate(trials, state.next_sequence):
            again = f.Suggested(
                trial_id=state.trial_id(sequence),
                sequence=sequence,
                source=f.SuggestionSource.RERUN,
                parameter_id=trial.parameter_id,
                parameters=trial.parameters,
                retry_of=trial.id,
            )
            facts.append(again)
            if trial.forked:
                note = f"{trial.id} was a fork; its retry starts from the beginning, without the checkpoint"
                facts.append(f.TrialNoted(trial_id=again.trial_id, note=note))
        return facts

    return build


def stop_trial(trial_id: str, *, kind: f.StopKind = f.StopKind.USER) -> Builder:
    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _unfinished(state, trial_id)
        return (f.StopRequested(trial_id=trial_id, kind=kind),)

    return build


def stop_trials(trial_ids: Sequence[str]) -> Builder:
    """Return a builder of facts that stop each of these trials that has not ended."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        return [f.StopRequested(trial_id=name) for name in dict.fromkeys(trial_ids) if name in state.trials]

    return build


def pause_trial(trial_id: str) -> Builder:
    """Return a builder that pauses a trial. A trial that a user pauses already stays as it is."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = _unfinished(state, trial_id)
        _check_open(state)
        if trial.target is f.StopKind.PAUSE and trial.paused_by is f.PausedBy.USER:
            return ()
        if trial.is_to_end:
            raise RequestRefused(f"trial {trial.title} is being stopped, because {trial.target_reason}")
        if trial.status is f.TrialStatus.PAUSED:  # by the scheduler
            where = where_it_continues(trial, recovery_point(state, trial))
            return (f.TrialPaused(trial_id=trial_id, reason=f"a user paused it; {where}"),)
        return (f.StopRequested(trial_id=trial_id, kind=f.StopKind.PAUSE),)

    return build


def resume_trial(trial_id: str) -> Builder:
    """Return a builder that continues a paused trial, or takes back a pause that is not complete yet."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = _unfinished(state, trial_id)
        _check_open(state)
        if trial.target is not f.StopKind.PAUSE:
            raise RequestRefused(f"trial {trial.title} is {trial.status}: only a paused trial can be resumed")
        return (f.ResumeRequested(trial_id=trial_id),)

    return build


def save_trial(trial_id: str) -> Builder:
    """Return a builder that asks a running trial to save its state. The trial runs on."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = _unfinished(state, trial_id)
        _check_open(state)
        if state.limits.multi_phase:
            raise RequestRefused(
                "multi-phase trials do not continue from checkpoints: they are not asked to save"
            )
        if trial.status is not f.TrialStatus.RUNNING:
            raise RequestRefused(
                f"trial {trial.title} is {trial.status}: only a running trial can save its state"
            )
        if trial.target is not None:
            raise RequestRefused(f"trial {trial.title} is being stopped or paused: {trial.target_reason}")
        return () if trial.save_wanted else (f.SaveRequested(trial_id=trial_id),)

    return build


def pin_checkpoint(
    trial_id: str, attempt: int, number: int, *, pinned: bool, saved: f.Origin | None
) -> Builder:
    """Return a builder that pins a checkpoint, or takes its pin back. A repeated request changes nothing.

    ``saved``: the checkpoint as the database has it; None: it has been deleted, or does not exist.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        job_id = job_id_of(state.id, trial_id, attempt)
        if ((attempt, number) in pinned_of(state, trial_id)) == pinned:
            return ()
        live = trial_id in state.trials
        known = checkpoint_of(state, job_id, number) is not None
        if not live:
            known = saved is not None and not is_deleted(state, job_id, number)
        if pinned and not known:
            name = state.trials[trial_id].title if live else trial_id
            raise RequestRefused(
                f"trial {name} has no checkpoint {number} of attempt {attempt} any more; "
                f"{_list_of(state, trial_id)}"
            )
        origin = None if live or saved is None or not pinned else replace(saved, trial_id=None)
        return (f.CheckpointPinned(job_id=job_id, number=number, pinned=pinned, origin=origin),)

    return build


def lose_trial(trial_id: str) -> Builder:
    """Return a builder of the fact that a trial on a silent machine is lost."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = _unfinished(state, trial_id)
        if trial.status is not f.TrialStatus.UNKNOWN:
            raise RequestRefused(
                f"trial {trial.title} is {trial.status}: only an UNKNOWN trial, whose machine does not "
                "answer, can be declared lost"
            )
        return (f.LossDeclared(trial_id=trial_id),)

    return build


def read_config(state: ExperimentState) -> ExperimentConfig:
    """Return the experiment's configuration, parsed from its state."""
    return read_canonical({**state.config, "searchSpace": dict(state.search_space)})


def changed_config(
    before: ExperimentConfig, changes: Mapping[str, Any], *, elapsed: timedelta
) -> ExperimentConfig:
    """Return the configuration with new values of top-level fields. The value None removes a limit.

    Raise ConfigError if the new configuration is not valid.
    """
    after = apply_updates(before, changes, elapsed=elapsed)
    if after.search_space_constraints:
        check_constraints(after)
    if after.search_space is not before.search_space:
        refuse_needs(after)
    return after


def record_config(before: ExperimentConfig, after: ExperimentConfig) -> Builder:
    """Return a builder of the fact that ``after`` replaces the configuration ``before``.

    The builder raises ConfigError or RequestRefused.
    """

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        if state.status is f.ExperimentStatus.VIEWED:
            raise RequestRefused("the experiment is only viewed: it cannot be changed")
        old, new = before.canonical(), after.canonical()
        if state.best is not None or state.worst is not None:
            _keep_direction(old, new)
        space = new.pop("searchSpace")
        other = {key: new.get(key) for key in (*new, *old) if new.get(key) != old.get(key)}
        other.pop("searchSpace", None)
        # Changed constraints count as a changed search space: earlier suggestions may be invalid.
        is_other = space != old["searchSpace"] or CONSTRAINTS in other
        return (
            f.ConfigChanged(
                changes=other,
                limits=after.limits(),
                search_space=space if is_other else None,
                traits=traits_of(new) if "tuner" in other else None,
            ),
        )

    return build


def _keep_direction(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ConfigError if the change switches between maximize and minimize: the best result would become
    the worst.
    """
    mode = optimize_mode(old)
    if optimize_mode(new) != mode:
        sentence = (
            f"the experiment already has results with optimize_mode: {mode}, so the new tuner needs the same "
            "value in its classArgs"
        )
        raise ConfigError([Problem(message=sentence, field="tuner.classArgs.optimize_mode")])


def import_data(records: Sequence[Mapping[str, Any]]) -> Builder:
    """Return a builder of the fact that results of other experiments are imported for the tuner.

    ``records``: a list of {"parameter": {...}, "value": number or mapping}.
    """
    for number, record in enumerate(records):
        if not isinstance(record, Mapping) or "parameter" not in record or "value" not in record:
            raise RequestRefused(f"record {number} is not an object with 'parameter' and 'value'")
    # Convert one record at a time: a single conversion of all records would block other threads.
    texts = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
    text = f"[{','.join(texts)}]"

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        return (f.DataImported(records=text),)

    return build


def change_machines(facts: Sequence[f.Fact]) -> Builder:
    """Return a builder of ``facts``, which add, drain or remove machines."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        _check_open(state)
        return facts

    return build


class ExperimentStop:
    """Request to stop the experiment. With ``detach``, trials continue; with ``save``, they save first.

    An instance is called as a builder of facts. ``opened_at``: when the experiment was last opened at that
    moment; a later opening is a resume.
    """

    def __init__(self, *, detach: bool, save: bool = False) -> None:
        self._fact = f.ExperimentStopRequested(detach=detach, save=save)
        self.opened_at: datetime | None = None

    def __call__(self, state: ExperimentState) -> Sequence[f.Fact]:
        self.opened_at = state.opened_at
        runs_on = state.detached and not self._fact.detach and bool(state.trials)
        if state.status is f.ExperimentStatus.VIEWED or (
            state.status is f.ExperimentStatus.STOPPED and not runs_on
        ):
            return ()
        return (self._fact,)


def _text(parameters: Any) -> str:
    return json.dumps(parameters, ensure_ascii=False, allow_nan=False)


@lru_cache(maxsize=64)
def _constraints(texts: tuple[str, ...]) -> Constraints:
    return Constraints(texts)


def _unfinished(state: ExperimentState, trial_id: str) -> TrialState:
    trial = state.trials.get(trial_id)
    if trial is None:
        raise UnknownTrial(f"trial {trial_id} has ended, or does not exist")
    return trial


def _check_open(state: ExperimentState) -> None:
    if state.status in (f.ExperimentStatus.VIEWED, f.ExperimentStatus.STOPPED, f.ExperimentStatus.ERROR):
        raise RequestRefused(f"the experiment is {state.status}: resume it first")
    if state.stop_requested:
        raise RequestRefused("the experiment is being stopped")


def _check_rules(state: ExperimentState) -> None:
    """Raise RequestRefused if a rule of stopWhen holds, because it would cancel a new trial at once."""
    rule = None if state.last_at is None else rule_that_holds(state, state.last_at)
    if rule is not None:
        raise RequestRefused(
            f"no more trials are created: {rule}; change or remove stopWhen to continue: "
            f'"nnictl update stopwhen {state.id} --filename FILE"'
        )
