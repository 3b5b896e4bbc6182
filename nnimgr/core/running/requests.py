"""Requests of users to a running experiment, as builders (functions that return facts).

A builder is called with the state at the beginning of a turn (pass of the runner's loop). If the request is
not possible in this state, the builder raises RequestRefused with a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
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
from nnimgr.core.running.mailbox import Builder
from nnimgr.dispatcher.history import CONSTRAINTS
from nnimgr.goal import optimize_mode
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import is_deleted
from nnimgr.rules.checkpoints import checkpoint_of, recovery_point, where_it_continues
from nnimgr.rules.retention import pinned as pinned_of
from nnimgr.rules.state import ExperimentState, TrialState, job_id_of
from nnimgr.traits import traits_of


class RequestRefused(Exception):
    """Error: the request is not possible now. The message is one sentence for the user."""


class UnknownTrial(RequestRefused):
    """Error: no unfinished trial has this id."""


def stop_trial(trial_id: str, *, kind: f.StopKind = f.StopKind.USER) -> Builder:
    def build(state: ExperimentState) -> Sequence[f.Fact]:
        unfinished(state, trial_id)
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
        trial = unfinished(state, trial_id)
        check_open(state)
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
        trial = unfinished(state, trial_id)
        check_open(state)
        if trial.target is not f.StopKind.PAUSE:
            raise RequestRefused(f"trial {trial.title} is {trial.status}: only a paused trial can be resumed")
        return (f.ResumeRequested(trial_id=trial_id),)

    return build


def save_trial(trial_id: str) -> Builder:
    """Return a builder that asks a running trial to save its state. The trial runs on."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = unfinished(state, trial_id)
        check_open(state)
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
        check_open(state)
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
                f"{see_checkpoints(state, trial_id)}"
            )
        origin = None if live or saved is None or not pinned else replace(saved, trial_id=None)
        return (f.CheckpointPinned(job_id=job_id, number=number, pinned=pinned, origin=origin),)

    return build


def lose_trial(trial_id: str) -> Builder:
    """Return a builder of the fact that a trial on a silent machine is lost."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        trial = unfinished(state, trial_id)
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
        check_open(state)
        return (f.DataImported(records=text),)

    return build


def change_machines(facts: Sequence[f.Fact]) -> Builder:
    """Return a builder of ``facts``, which add, drain or remove machines."""

    def build(state: ExperimentState) -> Sequence[f.Fact]:
        check_open(state)
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


def see_checkpoints(state: ExperimentState, trial_id: str) -> str:
    """Return the end of a sentence with the command that lists a trial's checkpoints."""
    return f'to list its checkpoints: "nnictl trial checkpoint ls {state.id} -T {trial_id}"'


def unfinished(state: ExperimentState, trial_id: str) -> TrialState:
    trial = state.trials.get(trial_id)
    if trial is None:
        raise UnknownTrial(f"trial {trial_id} has ended, or does not exist")
    return trial


def check_open(state: ExperimentState) -> None:
    if state.status in (f.ExperimentStatus.VIEWED, f.ExperimentStatus.STOPPED, f.ExperimentStatus.ERROR):
        raise RequestRefused(f"the experiment is {state.status}: resume it first")
    if state.stop_requested:
        raise RequestRefused("the experiment is being stopped")
