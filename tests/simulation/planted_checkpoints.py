"""Bugs to plant about checkpoints, beside those in ``planted``.

One rule is not here, because another rule backs it up: a checkpoint is built under another name and renamed.
Only a frame makes a checkpoint, and the frame comes last, so a half-built folder with a number is never used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from nnimgr.core.running import service_session
from nnimgr.rules import (
    checkpoint_limit,
    checkpoints,
    fold,
    fold_jobs,
    fold_trials,
    plan,
    pruning,
    retention,
    trial_ends,
)
from nnimgr.rules import facts as f
from nnimgr.rules.indexes import reindex
from nnimgr.rules.state import CheckpointState, ExperimentState, TrialState, job_id_of
from nnimgr.store import writer
from tests.simulation.copies import Incoming, SimStore
from tests.simulation.disk import Files
from tests.simulation.planted import PLANTED, planted
from tests.simulation.saves import Saver
from training_services.base import CheckpointsPruned, JobEvent, TrialJobSpec
from training_services.frames import read_frames
from training_services.keepers import job as keepers_job
from training_services.keepers.checkpoints import CheckpointsOfJobs
from training_services.keepers.jobs import Jobs, StartOrder
from training_services.keepers.keeping import Keeping
from training_services.keepers.prunes import Prunes
from training_services.keepers.reads import ReadStream
from trial_keeper.core import recovery
from trial_keeper.core.attempt import Attempt

__all__ = ["PLANTED"]


# ---- on the host ------------------------------------------------------------------------------------------


@planted
def frame_before_files() -> Iterator[None]:
    """A checkpoint is reported before its files are durable."""
    with patch.object(Saver, "ORDER", ("build", "name", "flush_parent", "report", "flush", "answer")):
        yield


@planted
def parent_not_flushed() -> Iterator[None]:
    """The name of a checkpoint is not durable when it is reported."""
    with patch.object(Saver, "ORDER", ("build", "flush", "name", "report", "answer")):
        yield


@planted
def numbers_reused() -> Iterator[None]:
    """A checkpoint gets the lowest free number, which a deleted one may have had."""

    def lowest(self: Files) -> int:
        return next(number for number in range(1, 1000) if number not in self.checkpoints)

    with patch.object(Files, "free_number", lowest):
        yield


@planted
def save_forgotten_by_a_new_keeper() -> Iterator[None]:
    """A keeper that was started again stops a trial at once, although it may save its state first."""
    restore = recovery._restore_attempt

    def hasty(attempt: Attempt, record: Any) -> None:
        restore(attempt, record)
        attempt.save = None

    with patch.object(recovery, "_restore_attempt", hasty):
        yield


# ---- between the two --------------------------------------------------------------------------------------


@planted
def prune_beyond_the_known() -> Iterator[None]:
    """The order to delete checkpoints names more of them than the recorded fact."""
    order = Prunes.order

    def greedy(self: Prunes, fact: CheckpointsPruned) -> None:
        order(self, replace(fact, up_to=fact.up_to + 3))

    with patch.object(Prunes, "order", greedy):
        yield


@planted
def deletions_confirmed_when_ordered() -> Iterator[None]:
    """An order to delete checkpoints counts as carried out when it was sent."""
    confirm = Prunes.confirm

    def hasty(self: Prunes, number: int) -> list[JobEvent]:
        return confirm(self, self._last)

    with patch.object(Prunes, "confirm", hasty):
        yield


@planted
def steps_from_zero() -> Iterator[None]:
    """The results of an attempt that continues are numbered from 0."""

    def unshifted(*args: Any, reports: int, **kwargs: Any) -> Any:
        return read_frames(*args, **kwargs)

    with patch.object(keepers_job, "read_frames", unshifted):
        yield


@planted
def save_order_not_adopted() -> Iterator[None]:
    """A server that was started again does not repeat the orders to save."""
    adopt = Jobs.adopt

    def forgetful(self: Jobs, spec: TrialJobSpec, start: StartOrder) -> None:
        adopt(self, replace(spec, save=None), start)

    with patch.object(Jobs, "adopt", forgetful):
        yield


# ---- in the core and the database -------------------------------------------------------------------------


@planted
def unpinned_at_start() -> Iterator[None]:
    """A checkpoint is deleted although the running attempt has started from it."""

    def retain(state: ExperimentState, trial: TrialState) -> None:
        excess = [each.origin for each in trial.checkpoints[: -state.limits.checkpoints_kept]]
        trial.pruned += excess
        trial.checkpoints = [each for each in trial.checkpoints if each.origin not in excess]

    def prune(state: ExperimentState, trial: TrialState) -> Iterator[CheckpointsPruned]:
        stay = {(each.origin.attempt, each.origin.number) for each in trial.checkpoints}
        return pruning._pruned(state, trial, trial.pruned, stay)

    with patch.object(checkpoints, "retain", retain), patch.object(plan, "prune", prune):
        yield


@planted
def off_branch_taken() -> Iterator[None]:
    """Checkpoints that are later than the origin of an attempt may be used by the next attempt."""
    step = fold._STEPS[f.AttemptDue]

    def hoarding(state: ExperimentState, fact: f.AttemptDue, recorded: f.Recorded) -> None:
        trial = state.trials[fact.trial_id]
        before = list(trial.checkpoints)
        step(state, fact, recorded)
        trial.checkpoints, trial.pruned = before, []
        reindex(state, trial)

    with patch.dict(fold._STEPS, {f.AttemptDue: hoarding}):
        yield


@planted
def other_instances_path() -> Iterator[None]:
    """A checkpoint counts as usable although its directory was wiped since then."""

    def usable(state: ExperimentState, checkpoint: CheckpointState) -> bool:
        return checkpoint.origin.keeper_id in state.keepers

    with patch.object(checkpoints, "is_usable", usable):
        yield


@planted
def exit_zero_is_success() -> Iterator[None]:
    """A trial that leaves with exit code 0 after it was asked to save counts as finished."""
    step = fold._STEPS[f.CheckpointReported]

    def unasked(state: ExperimentState, fact: f.CheckpointReported, recorded: f.Recorded) -> None:
        step(state, fact, recorded)
        state.jobs[fact.job_id].left = False

    with patch.dict(fold._STEPS, {f.CheckpointReported: unasked}):
        yield


@planted
def left_survives_frames() -> Iterator[None]:
    """A trial that has saved when asked, and then has finished, counts as paused."""
    step = fold._STEPS[f.MetricReported]

    def left(state: ExperimentState, fact: f.MetricReported, recorded: f.Recorded) -> None:
        job = state.jobs[fact.job_id]
        before = job.left
        step(state, fact, recorded)
        job.left = before

    with patch.dict(fold._STEPS, {f.MetricReported: left}):
        yield


@planted
def not_rolled_back() -> Iterator[None]:
    """Results after the origin of an attempt still count."""
    step = fold._STEPS[f.AttemptDue]

    def counting(state: ExperimentState, fact: f.AttemptDue, recorded: f.Recorded) -> None:
        trial = state.trials[fact.trial_id]
        before = trial.intermediates
        step(state, fact, recorded)
        trial.intermediates = before

    with patch.dict(fold._STEPS, {f.AttemptDue: counting}):
        yield


@planted
def slot_freed_before_the_end() -> Iterator[None]:
    """A trial counts as paused as soon as its stop is ordered."""
    step = fold._STEPS[f.StopOrdered]

    def hasty(state: ExperimentState, fact: f.StopOrdered, recorded: f.Recorded) -> None:
        step(state, fact, recorded)
        job = state.jobs.get(fact.job_id)
        if job is not None and fact.cmd_seq is not None and fact.save_within is not None:
            fold_jobs._close(state, job, state.trials[job.trial_id], recorded)

    with patch.dict(fold._STEPS, {f.StopOrdered: hasty}):
        yield


@planted
def donor_not_pinned() -> Iterator[None]:
    """A checkpoint is deleted although another trial continues, or is to continue, from it."""
    with (
        patch.object(pruning, "loans", lambda state, trial_id: iter(())),
        patch.object(pruning, "borrowed", lambda state, trial_id: set()),
    ):
        yield


@planted
def old_leg_taken() -> Iterator[None]:
    """A trial goes back to a checkpoint of an earlier leg."""
    begin = checkpoints.begin_leg

    def keeping(trial: TrialState, checkpoint: CheckpointState) -> None:
        before = list(trial.checkpoints)
        begin(trial, checkpoint)
        trial.checkpoints, trial.pruned = [*before, *trial.checkpoints], []

    with patch.object(fold_trials, "begin_leg", keeping):
        yield


@planted
def leg_with_old_parameters() -> Iterator[None]:
    """A leg begins with the trial's earlier parameters."""
    step = fold._STEPS[f.AttemptDue]

    def stale(state: ExperimentState, fact: f.AttemptDue, recorded: f.Recorded) -> None:
        before = state.trials[fact.trial_id].parameters
        step(state, fact, recorded)
        state.trials[fact.trial_id].parameters = before

    with patch.dict(fold._STEPS, {f.AttemptDue: stale}):
        yield


@planted
def earlier_legs_not_superseded() -> Iterator[None]:
    """Results of an earlier leg are shown beside those that the next leg has reported in their place."""
    shown = writer.CONTINUED.replace("AND sequence < ?", "AND ? >= 0")
    with patch.object(writer, "CONTINUED", shown):
        yield


@planted
def leg_of_a_lost_checkpoint() -> Iterator[None]:
    """A leg begins although its checkpoint's host has lost its files."""
    with patch.object(trial_ends, "leg_lost", lambda state, trial: None):
        yield


@planted
def abandoned_results_taken_over() -> Iterator[None]:
    """Readers find results of an earlier attempt, which has not led to the origin, in an attempt's curve."""
    newest = (
        "attempt = (SELECT max(attempt) FROM metrics AS other WHERE other.trial_id = metrics.trial_id "
        "AND other.attempt <= ?) AND"
    )
    with patch.object(writer, "CONTINUED", writer.CONTINUED.replace("attempt = ? AND", newest)):
        yield


@planted
def best_by_the_opposite_goal() -> Iterator[None]:
    """The checkpoints with the worst results are kept in place of the best ones."""

    def worst(state: ExperimentState, saved: Sequence[CheckpointState]) -> list[f.Origin]:
        opposite = replace(state, traits=f.TunerTraits(minimises=not state.minimises))
        return retention.best_checkpoints(opposite, saved)

    with patch.object(pruning, "best_checkpoints", worst):
        yield


@planted
def limit_deletes_pinned() -> Iterator[None]:
    """A pinned checkpoint of an ended trial is deleted because of the limit."""
    with patch.object(checkpoint_limit, "pinned", lambda state, trial_id: set()):
        yield


@planted
def limit_deletes_the_newest_first() -> Iterator[None]:
    """The checkpoints of the trial that ended last are deleted before all others."""
    keep_to_limit = checkpoint_limit.keep_to_limit

    def newest(state: ExperimentState) -> Iterator[f.CheckpointsPruned]:
        return keep_to_limit(replace(state, left=dict(reversed(state.left.items()))))

    with patch.object(plan, "keep_to_limit", newest):
        yield


@planted
def lost_files_count() -> Iterator[None]:
    """Files that a host has lost still count for the limit."""

    def has_files(state: ExperimentState, keeper_id: str, instance: str) -> bool:
        return True

    with (
        patch.object(retention, "has_files", has_files),
        patch.object(checkpoint_limit, "has_files", has_files),
    ):
        yield


@planted
def origin_left_at_the_end() -> Iterator[None]:
    """The checkpoint that the last attempt of a trial continued from stays when the trial has ended."""
    with patch.object(plan, "prune_last", lambda state, trial: iter(())):
        yield


@planted
def pins_forgotten() -> Iterator[None]:
    """A checkpoint that a user has pinned is deleted like any other."""
    with patch.object(pruning, "pinned", lambda state, trial_id: set()):
        yield


# ---- copies on the server ---------------------------------------------------------------------------------


@planted
def kept_before_flush() -> Iterator[None]:
    """A copy is reported before its files are durable."""
    with patch.object(SimStore, "ORDER", ("name_manifest", "name", "flush_parent")):
        yield


@planted
def half_transfer_taken() -> Iterator[None]:
    """An upload that was cut off counts as complete."""

    def lose(self: ReadStream, sentence: str) -> None:
        self.finish(None)

    with patch.object(ReadStream, "lose", lose), patch.object(Incoming, "check", lambda *_: None):
        yield


@planted
def copies_deleted_before_the_fact() -> Iterator[None]:
    """The copies of an ended trial are deleted before this is recorded."""
    want = Keeping.want

    def eager(self: Keeping, trial_id: str, origin: f.Origin | None) -> None:
        want(self, trial_id, origin)
        if origin is not None:
            for attempt in range(1, origin.attempt + 1):
                self.remove(f"exp-{trial_id}-{attempt}", origin.number, keep=())

    with patch.object(Keeping, "want", eager):
        yield


@planted
def machine_leaves_first() -> Iterator[None]:
    """A machine that is removed does not wait until its checkpoints are copied."""
    with patch.object(Keeping, "awaits", lambda self, keeper_id: False):
        yield


@planted
def pod_leaves_first() -> Iterator[None]:
    """A keeper whose host shuts down does not wait until its checkpoints are copied."""
    with patch.object(CheckpointsOfJobs, "needs_files", lambda self, keeper_id: False):
        yield


@planted
def copy_in_use_deleted() -> Iterator[None]:
    """The newest copy of a trial is deleted when a newer checkpoint was saved, before that one is copied."""

    def retain(state: ExperimentState, trial: TrialState) -> None:
        others = [each.origin for each in trial.checkpoints if each != trial.origin]
        excess = others[: -state.limits.checkpoints_kept]
        trial.pruned += excess
        trial.checkpoints = [each for each in trial.checkpoints if each.origin not in excess]

    with patch.object(checkpoints, "retain", retain):
        yield


@planted
def copies_of_other_hosts_forgotten() -> Iterator[None]:
    """A trial continues only on the host that has the files of its checkpoint."""
    with patch.object(checkpoints, "is_usable", checkpoints._is_on_host):
        yield


@planted
def pinned_copies_deleted_at_the_end() -> Iterator[None]:
    """The copies of an ended trial are deleted, also those of pinned checkpoints."""

    def prune_copies(state: ExperimentState) -> Iterator[f.CheckpointsPruned]:
        return pruning.prune_copies(replace(state, pins={}))

    with patch.object(plan, "prune_copies", prune_copies):
        yield


@planted
def copies_of_abandoned_pins_forgotten() -> Iterator[None]:
    """The opening removes copies of pinned checkpoints to which their trial cannot go back any more."""

    def unpinned(state: ExperimentState) -> frozenset[tuple[str, int]]:
        pinned = {
            (job_id_of(state.id, trial_id, attempt), number)
            for trial_id in state.pins
            for attempt, number in retention.pinned(state, trial_id)
        }
        return checkpoints.known_copies(state) - pinned

    with patch.object(service_session, "known_copies", unpinned):
        yield
