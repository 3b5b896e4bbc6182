"""Checkpoints of live trials: which one an attempt continues from, and which are copied to the server.

A trial's list contains, in order, only the checkpoints that led to its present state and belong to its
present leg. When the trial goes back to a checkpoint, the later checkpoints leave the list, because their
results no longer count. A trial may continue from a checkpoint of another trial. That trial then keeps the
checkpoint until the first trial has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.checkpoint_limit import delete_left, recount
from nnimgr.rules.indexes import reindex
from nnimgr.rules.pruning import retain
from nnimgr.rules.retention import borrows, loans
from nnimgr.rules.state import (
    CheckpointState,
    ExperimentState,
    JobState,
    TrialState,
    job_id_of,
    trial_of_job,
)
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import job_touched, trial_touched
from training_services.base import Place

__all__ = [
    "CHECKPOINT_STEPS",
    "begin_leg",
    "checkpoint_of",
    "continue_from",
    "continues_from",
    "drop_origin",
    "give_up_host",
    "has_files",
    "is_usable",
    "known_copies",
    "recovery_point",
    "saves_first",
    "to_keep",
    "where_it_continues",
]

CHECKPOINT_STEPS = Steps()


def recovery_point(state: ExperimentState, trial: TrialState) -> CheckpointState | None:
    """Return the newest checkpoint of the trial that can be used; None if there is none.

    A checkpoint that is only on a silent host counts only if the server has no copy of any other, because it
    is unknown when the host answers again. It does not count if the attempt on that host is given up. Once
    the trial has its own checkpoints, one of another trial counts only while the server has a copy of it.
    """
    if state.limits.multi_phase:
        return None
    lent = [trial.origin] if trial.origin is not None and borrows(trial.origin) else []
    if trial.checkpoints:
        lent = [each for each in lent if _has_copy(state, each.origin)]
    silent = None
    for checkpoint in reversed([*lent, *trial.checkpoints]):
        if not is_usable(state, checkpoint):
            continue
        if checkpoint.kept is not None or state.keepers[checkpoint.origin.keeper_id].silent is None:
            return checkpoint
        silent = silent or checkpoint
    return None if trial.unknown_since is not None else silent


def _has_copy(state: ExperimentState, origin: f.Origin) -> bool:
    """Return whether the server has a copy of another trial's checkpoint."""
    assert origin.trial_id is not None
    job_id = job_id_of(state.id, origin.trial_id, origin.attempt)
    return origin.number in state.copies.get(job_id, ())


def to_keep(state: ExperimentState, trial: TrialState) -> f.Origin | None:
    """Return the checkpoint of the trial that is to be copied to the server; None if there is none."""
    if not state.limits.keeps_copies or state.limits.multi_phase:
        return None
    for checkpoint in reversed(trial.checkpoints):
        if checkpoint.kept is not None:
            return None  # a newer copy is of more use than an older one
        if _is_on_host(state, checkpoint):
            return checkpoint.origin
    return None


def copy_comes(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the checkpoint from which the trial continues is to be copied to the server.

    False for a checkpoint of another trial, whose newer checkpoints may be copied instead.
    """
    point = trial.origin
    if point is None or point.kept is not None or point.origin.trial_id is not None:
        return False
    coming = to_keep(state, trial)
    return coming is not None and _name(coming) == _name(point.origin)


def _name(origin: f.Origin) -> tuple[int, int]:
    return origin.attempt, origin.number


def where_it_continues(trial: TrialState, point: CheckpointState | None) -> str:
    """Return the sentence about where the trial continues, and how much it has to do again."""
    if point is None:
        if not trial.checkpoints and trial.origin is None:
            return "the trial has saved no checkpoint, and will start from the beginning"
        return "no host has a usable checkpoint of the trial any more: it will start from the beginning"
    sentence = continues_from(point)
    again = trial.intermediates - point.origin.reports
    if again > 0:
        sentence += f", and report {again} {'result' if again == 1 else 'results'} again"
    return sentence


def continues_from(point: CheckpointState) -> str:
    """Return the sentence about the checkpoint from which a trial will continue."""
    step, other = point.origin.step, point.origin.trial_id
    where = "its last checkpoint" if step is None else f"step {step}"
    if other is not None:
        where = f"a checkpoint of trial {other}" if step is None else f"step {step} of trial {other}"
    return f"the trial will continue from {where}"


_SAVES_FIRST = (f.StopKind.PAUSE, f.StopKind.RESIZE, f.StopKind.SHRINK, f.StopKind.PREEMPT)


def saves_first(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether the trial is asked to save its state before it is stopped, because it will continue.

    A stop that no user wants does not wait for this if all results are covered by a checkpoint already. A
    stop of the experiment with ``save`` asks all trials, like a pause: also those that have saved nothing
    yet. Multi-phase trials do not continue from checkpoints.
    """
    if trial.target is f.StopKind.CUT and state.stop_requested:
        return state.stop_saves and not state.limits.multi_phase
    if trial.target not in _SAVES_FIRST:
        return False
    last = trial.checkpoints[-1] if trial.checkpoints else trial.origin
    covered = last is not None and last.origin.reports >= trial.intermediates
    by_user = trial.target is f.StopKind.PAUSE and trial.paused_by is f.PausedBy.USER
    return by_user or not covered


def continue_from(trial: TrialState, origin: f.Origin | None) -> None:
    """Set the trial's progress back to a checkpoint, or to its beginning."""
    kept, before = 0, trial.origin
    trial.origin = before if before is not None and borrows(before) and before.origin == origin else None
    for number, checkpoint in enumerate(trial.checkpoints, 1):
        if checkpoint.origin == origin:
            kept, trial.origin = number, checkpoint
    _set_back(trial, before, kept=kept)


def begin_leg(trial: TrialState, checkpoint: CheckpointState) -> None:
    """Let the trial continue from a checkpoint, of itself or of another trial, with its next leg.

    The trial's earlier checkpoints belong to the earlier legs, and it never goes back to them.
    """
    before, trial.origin = trial.origin, checkpoint
    own = [] if borrows(checkpoint) else [checkpoint]
    trial.checkpoints = [*own, *(each for each in trial.checkpoints if each.origin != checkpoint.origin)]
    _set_back(trial, before, kept=len(own))


def _set_back(trial: TrialState, before: CheckpointState | None, *, kept: int) -> None:
    """Keep the first ``kept`` checkpoints, and take the trial's progress from its origin.

    ``before``: the trial's previous origin.
    """
    trial.pruned += [checkpoint.origin for checkpoint in trial.checkpoints[kept:]]
    del trial.checkpoints[kept:]
    point = trial.origin
    if before is not None and not borrows(before):
        held = [each.origin for each in (*trial.checkpoints, *([point] if point is not None else []))]
        if before.origin not in (*held, *trial.pruned):
            trial.pruned.append(before.origin)
    trial.frames = 0 if point is None else point.origin.position
    trial.intermediates = 0 if point is None else point.origin.reports
    trial.latest_value = None if point is None else point.latest_value
    trial.latest_text = None if point is None else point.latest_text
    trial.final_value = None if point is None else point.final_value
    trial.final_text = None if point is None else point.final_text
    trial.stranded = False


def drop_origin(state: ExperimentState, trial: TrialState, keeper_id: str) -> None:
    """Remove the checkpoint from which the attempt on this keeper's host should have continued.

    It was missing there. It stays usable if the attempt has looked only for the server's copy, and another
    host has the files.
    """
    point, trial.origin = trial.origin, None
    missing = point is not None and point.instance and point.origin.keeper_id == keeper_id
    if point is not None and (missing or not is_usable(state, point)):
        trial.checkpoints = [each for each in trial.checkpoints if each.origin != point.origin]


def give_up_host(state: ExperimentState, keeper_id: str) -> None:
    """Let trials that wait to continue on this host continue elsewhere, as it has become unusable."""
    for trial in state.trials.values():
        if trial.origin is not None and trial.origin.origin.keeper_id == keeper_id:
            _give_up_origin(state, trial, trial.origin)
    recount(state, keeper_id)


def _give_up_origin(state: ExperimentState, trial: TrialState, origin: CheckpointState) -> None:
    """Let the trial continue from another checkpoint if it waits to continue from one that is unusable."""
    if trial.closed_job is not None:
        return
    job = state.jobs.get(trial.job_id or "")
    waits = trial.status is f.TrialStatus.WAITING and (job is None or job.placed is None)
    if waits and not is_usable(state, origin):
        trial.stranded = True
        state.touched.trials[trial.id] = trial
        reindex(state, trial)


def known_copies(state: ExperimentState) -> frozenset[tuple[str, int]]:
    """Return the job and the number of each checkpoint of which the server has a copy."""
    return frozenset((job_id, number) for job_id, numbers in state.copies.items() for number in numbers)


def _forget_copies(state: ExperimentState, job_id: str, *, left: Callable[[int], bool]) -> None:
    """Remove copies of the job's checkpoints from the state, except those for which ``left`` returns True."""
    for copies in (state.copies, state.stored):
        numbers = [number for number in copies.pop(job_id, ()) if left(number)]
        if numbers:
            copies[job_id] = numbers
    if job_id not in state.copies:
        state.unneeded_copies.pop(job_id, None)


def is_usable(state: ExperimentState, checkpoint: CheckpointState) -> bool:
    """Return whether an attempt can continue from the checkpoint, now or after a copy or a silence."""
    return checkpoint.kept is not None or _is_on_host(state, checkpoint)


def _is_on_host(state: ExperimentState, checkpoint: CheckpointState) -> bool:
    """Return whether the host has the files, and can be waited for."""
    keeper_id = checkpoint.origin.keeper_id
    known = has_files(state, keeper_id)
    return known and state.keepers[keeper_id].instance == checkpoint.instance


def has_files(state: ExperimentState, keeper_id: str) -> bool:
    """Return whether the host of the keeper is known, and can be waited for.

    On a machine that is drained or removed, checkpoints are copied before the machine leaves (see
    ``TrainingService.keep_checkpoint``), except on a silent one that is removed by force.
    """
    keeper = state.keepers.get(keeper_id)
    if keeper is None or keeper.vanished:
        return False
    machine = state.machines.get(keeper_id)
    return machine is None or not (machine.gone or (machine.forced and keeper.silent is not None))


# ---- steps of the fold ------------------------------------------------------------------------------------


@CHECKPOINT_STEPS.of(f.CheckpointReported)
def _reported(state: ExperimentState, fact: f.CheckpointReported, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    job.left = fact.asked
    if job.growth is not None:
        job.growth.saved = True
    trial = trial_touched(state, job.trial_id, fact)
    trial.lost_attempts = trial.preempted_attempts = 0  # the trial makes progress in spite of its losses
    if fact.usable and job.placed is not None and not state.limits.multi_phase:
        trial.checkpoints.append(_checkpoint(trial, job, job.placed.place, fact))
        retain(state, trial)
    reindex(state, trial)


def _checkpoint(
    trial: TrialState, job: JobState, place: Place, fact: f.CheckpointReported
) -> CheckpointState:
    return CheckpointState(
        origin=f.Origin(
            attempt=job.attempt,
            number=fact.number,
            keeper_id=place.keeper_id,
            step=fact.step,
            position=job.recorded,
            reports=trial.intermediates,
            size=fact.size,
        ),
        instance=place.instance,
        size=fact.size,
        latest_value=trial.latest_value,
        latest_text=trial.latest_text,
        final_value=trial.final_value,
        final_text=trial.final_text,
    )


@CHECKPOINT_STEPS.of(f.SaveRequested)
def _save_requested(state: ExperimentState, fact: f.SaveRequested, r: f.Recorded) -> None:
    trial = trial_touched(state, fact.trial_id, fact)
    trial.save_wanted = True
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.SaveOrdered)
def _save_ordered(state: ExperimentState, fact: f.SaveOrdered, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    trial = trial_touched(state, job.trial_id, fact)
    job.save, trial.save_wanted = fact, False
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.CheckpointsPruned)
def _pruned(state: ExperimentState, fact: f.CheckpointsPruned, r: f.Recorded) -> None:
    _forget_copies(state, fact.job_id, left=lambda number: number > fact.up_to or number in fact.keep)
    if fact.keeper_id is None:
        return
    if (keeper := state.keepers.get(fact.keeper_id)) is not None:
        keeper.prunes += 1
        _, before = keeper.unpruned.get(fact.job_id, (0, None))
        keeper.unpruned[fact.job_id] = keeper.prunes, fact.after(before)
    trial_id, attempt = trial_of_job(fact.job_id)
    trial = state.trials.get(trial_id)
    if trial is None:
        delete_left(state, fact)
        return
    trial.pruned = [
        each
        for each in trial.pruned
        if (each.attempt, each.keeper_id) != (attempt, fact.keeper_id) or each.number > fact.up_to
    ]
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.CheckpointsDeleted)
def _deleted(state: ExperimentState, fact: f.CheckpointsDeleted, r: f.Recorded) -> None:
    keeper = state.keepers[fact.keeper_id]
    keeper.unpruned = {
        job_id: (number, pruned)
        for job_id, (number, pruned) in keeper.unpruned.items()
        if number > fact.prunes
    }


def checkpoint_of(state: ExperimentState, job_id: str, number: int) -> CheckpointState | None:
    """Return a checkpoint of a live trial by the job that has saved it and its number, or None."""
    trial_id, attempt = trial_of_job(job_id)
    trial = state.trials.get(trial_id)
    return None if trial is None else next(_own_records(trial, attempt, number), None)


def _has_name(checkpoint: CheckpointState, attempt: int, number: int) -> bool:
    return (checkpoint.origin.attempt, checkpoint.origin.number) == (attempt, number)


def _own_records(trial: TrialState, attempt: int, number: int) -> Iterator[CheckpointState]:
    """Yield the records of the trial's own checkpoint. The list and ``origin`` may have one each."""
    for checkpoint in (*trial.checkpoints, *(() if trial.origin is None else (trial.origin,))):
        if _has_name(checkpoint, attempt, number) and not borrows(checkpoint):
            yield checkpoint


def _records(
    state: ExperimentState, trial: TrialState, attempt: int, number: int
) -> Iterator[CheckpointState]:
    """Yield all records of a checkpoint, also those of legs that continue or will continue from it, and the
    record of a user's pin.
    """
    yield from _own_records(trial, attempt, number)
    yield from (each for each in state.pins.get(trial.id, ()) if _has_name(each, attempt, number))
    for borrower, point in loans(state, trial.id):
        if _has_name(point, attempt, number) and (borrower is not trial or point is not trial.origin):
            yield point


@CHECKPOINT_STEPS.of(f.CheckpointKeepBegun)
def _keep_begun(state: ExperimentState, fact: f.CheckpointKeepBegun, r: f.Recorded) -> None:
    checkpoint = checkpoint_of(state, fact.job_id, fact.number)
    assert checkpoint is not None
    trial = trial_touched(state, trial_of_job(fact.job_id)[0], fact)
    trial.keeping = checkpoint.origin
    retain(state, trial)
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.CheckpointKept)
def _kept(state: ExperimentState, fact: f.CheckpointKept, r: f.Recorded) -> None:
    trial_id, attempt = trial_of_job(fact.job_id)
    trial = trial_touched(state, trial_id, fact)
    for checkpoint in _records(state, trial, attempt, fact.number):
        checkpoint.kept = f.KeptCopy(digest=fact.digest, size=fact.size)
        trial.keeping = None
    _forget_copies(state, fact.job_id, left=lambda number: number != fact.number)
    state.copies.setdefault(fact.job_id, []).append(fact.number)
    retain(state, trial)
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.CheckpointStored)
def _stored(state: ExperimentState, fact: f.CheckpointStored, r: f.Recorded) -> None:
    state.stored.setdefault(fact.job_id, []).append(fact.number)
    trial_id, _ = trial_of_job(fact.job_id)
    if trial_id in state.trials:  # the checkpoint of an ended trial is pinned
        trial = trial_touched(state, trial_id, fact)
        retain(state, trial)
        reindex(state, trial)


@CHECKPOINT_STEPS.of(f.CheckpointLost)
def _lost(state: ExperimentState, fact: f.CheckpointLost, r: f.Recorded) -> None:
    trial_id, attempt = trial_of_job(fact.job_id)
    trial = trial_touched(state, trial_id, fact)
    if fact.keeper_id is None:
        _forget_copies(state, fact.job_id, left=lambda number: number != fact.number)
    for checkpoint in _records(state, trial, attempt, fact.number):
        if fact.keeper_id is None:
            checkpoint.kept = None
            trial.keeping = None
        elif checkpoint.origin.keeper_id == fact.keeper_id:
            checkpoint.instance = ""
    trial.checkpoints = [
        each
        for each in trial.checkpoints
        if not _has_name(each, attempt, fact.number) or is_usable(state, each)
    ]
    trial.note = f"checkpoint {fact.number} of attempt {attempt} is lost: {fact.reason}"
    if trial.origin is not None and trial.origin in _own_records(trial, attempt, fact.number):
        _give_up_origin(state, trial, trial.origin)
    for borrower, point in list(loans(state, trial.id)):
        if point is borrower.origin:
            _give_up_origin(state, borrower, point)
    reindex(state, trial)


@CHECKPOINT_STEPS.of(f.HostVanished)
def _vanished(state: ExperimentState, fact: f.HostVanished, r: f.Recorded) -> None:
    state.keepers[fact.keeper_id].vanished = True
    give_up_host(state, fact.keeper_id)
