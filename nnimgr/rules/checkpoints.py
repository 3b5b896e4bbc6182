"""Checkpoints of live trials: which one an attempt continues from, and which are deleted.

A trial's list contains, in order, only the checkpoints that led to its present state and belong to its
present leg. When the trial goes back to a checkpoint, the later checkpoints leave the list, because their
results no longer count. A trial may continue from a checkpoint of another trial. That trial then keeps the
checkpoint until the first trial has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.indexes import reindex
from nnimgr.rules.state import CheckpointState, ExperimentState, JobState, TrialState, job_id_of
from nnimgr.rules.steps import Steps
from nnimgr.rules.transitions import job_touched, trial_touched
from training_services.base import Place

__all__ = [
    "CHECKPOINT_STEPS",
    "begin_leg",
    "borrows",
    "continue_from",
    "continues_from",
    "drop_origin",
    "give_up_host",
    "is_usable",
    "prune",
    "recovery_point",
    "saves_first",
    "where_it_continues",
]

CHECKPOINT_STEPS = Steps()


def recovery_point(state: ExperimentState, trial: TrialState) -> CheckpointState | None:
    """Return the newest checkpoint of the trial whose host is usable; None if there is none."""
    if state.limits.multi_phase:
        return None
    lost = trial.unknown_since is not None  # the attempt is given up while its host is silent
    first = [trial.origin] if trial.origin is not None and borrows(trial.origin) else []
    for checkpoint in reversed([*first, *trial.checkpoints]):
        if is_usable(state, checkpoint) and not (
            lost and state.keepers[checkpoint.origin.keeper_id].silent is not None
        ):
            return checkpoint
    return None


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


def saves_first(trial: TrialState) -> bool:
    """Return whether the trial is asked to save its state before it is stopped, because it will continue.

    A pause by the scheduler does not wait for this if all results are covered by a checkpoint already.
    """
    if trial.target is not f.StopKind.PAUSE:
        return False
    last = trial.checkpoints[-1] if trial.checkpoints else trial.origin
    covered = last is not None and last.origin.reports >= trial.intermediates
    return not (covered and trial.paused_by is f.PausedBy.SCHEDULER)


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
    trial.checkpoints = [*own, *(each for each in trial.checkpoints if each != checkpoint)]
    _set_back(trial, before, kept=len(own))


def _set_back(trial: TrialState, before: CheckpointState | None, *, kept: int) -> None:
    """Keep the first ``kept`` checkpoints, and take the trial's progress from its origin.

    ``before``: the trial's previous origin.
    """
    trial.pruned += [checkpoint.origin for checkpoint in trial.checkpoints[kept:]]
    del trial.checkpoints[kept:]
    point = trial.origin
    if before is not None and not borrows(before) and before not in (*trial.checkpoints, point):
        if before.origin not in trial.pruned:
            trial.pruned.append(before.origin)
    trial.frames = 0 if point is None else point.origin.position
    trial.intermediates = 0 if point is None else point.origin.reports
    trial.latest_value = None if point is None else point.latest_value
    trial.latest_text = None if point is None else point.latest_text
    trial.final_value = None if point is None else point.final_value
    trial.final_text = None if point is None else point.final_text
    trial.stranded = False


def drop_origin(trial: TrialState) -> None:
    """Remove the checkpoint that the attempt should have continued from, because its files are missing."""
    if trial.origin in trial.checkpoints:
        trial.checkpoints.remove(trial.origin)
    trial.origin = None


def give_up_host(state: ExperimentState, keeper_id: str) -> None:
    """Let trials that wait to continue on this host continue elsewhere, as it has become unusable."""
    for trial in state.trials.values():
        if trial.origin is None or trial.origin.origin.keeper_id != keeper_id or trial.closed_job is not None:
            continue
        job = state.jobs.get(trial.job_id or "")
        waits = trial.status is f.TrialStatus.WAITING and (job is None or job.placed is None)
        if waits and not is_usable(state, trial.origin):
            trial.stranded = True
            state.touched.trials[trial.id] = trial
            reindex(state, trial)


def prune(state: ExperimentState, trial: TrialState) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete the trial's checkpoints that nobody needs any more."""
    hosts: dict[tuple[int, str], int] = {}
    needed = _needed(state, trial)
    for origin in trial.pruned:
        key = origin.attempt, origin.keeper_id
        hosts[key] = max(hosts.get(key, 0), origin.number)
    for (attempt, keeper_id), up_to in hosts.items():
        yield f.CheckpointsPruned(
            job_id=job_id_of(state.id, trial.id, attempt),
            keeper_id=keeper_id,
            up_to=up_to,
            keep=tuple(
                sorted(number for of_attempt, number in needed if of_attempt == attempt and number <= up_to)
            ),
        )


def borrows(checkpoint: CheckpointState) -> bool:
    """Return whether a trial that continues from the checkpoint borrows it from another trial."""
    return checkpoint.origin.trial_id is not None


def _needed(state: ExperimentState, trial: TrialState) -> set[tuple[int, int]]:
    """Return (attempt, number) of the trial's checkpoints that an attempt may still continue from."""
    own = [*trial.checkpoints, *([trial.origin] if trial.origin is not None else [])]
    needed = {(each.origin.attempt, each.origin.number) for each in own if not borrows(each)}
    return needed | _borrowed(state, trial)


def _borrowed(state: ExperimentState, trial: TrialState) -> set[tuple[int, int]]:
    """Return (attempt, number) of the trial's checkpoints from which legs continue or will continue."""
    found = set()
    for name in state.borrowing:
        borrower = state.trials[name]
        coming = borrower.next_leg.checkpoint if borrower.next_leg is not None else None
        for point in (borrower.origin, coming):
            if point is not None and (point.origin.trial_id or name) == trial.id:
                found.add((point.origin.attempt, point.origin.number))
    return found


def is_usable(state: ExperimentState, checkpoint: CheckpointState) -> bool:
    """Return whether an attempt can continue from the checkpoint on its host, now or after a silence."""
    keeper = state.keepers.get(checkpoint.origin.keeper_id)
    machine = state.machines.get(checkpoint.origin.keeper_id)
    leaves = machine is not None and (machine.draining or machine.removing or machine.gone)
    return keeper is not None and keeper.instance == checkpoint.instance and not leaves


# ---- steps of the fold ------------------------------------------------------------------------------------


@CHECKPOINT_STEPS.of(f.CheckpointReported)
def _reported(state: ExperimentState, fact: f.CheckpointReported, r: f.Recorded) -> None:
    job = job_touched(state, fact.job_id)
    job.recorded += 1
    job.left = fact.asked
    trial = trial_touched(state, job.trial_id, fact)
    trial.lost_attempts = trial.preempted_attempts = 0  # the trial makes progress in spite of its losses
    if fact.usable and job.placed is not None and not state.limits.multi_phase:
        trial.checkpoints.append(_checkpoint(trial, job, job.placed.place, fact))
        _retain(state, trial)
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
        ),
        instance=place.instance,
        size=fact.size,
        latest_value=trial.latest_value,
        latest_text=trial.latest_text,
        final_value=trial.final_value,
        final_text=trial.final_text,
    )


def _retain(state: ExperimentState, trial: TrialState) -> None:
    """Keep the newest checkpoints, the one that the trial continued from, and those from which other trials
    continue. Mark all others for deletion.
    """
    borrowed = _borrowed(state, trial)
    others = [each.origin for each in trial.checkpoints if each != trial.origin]
    excess = [
        each
        for each in others[: -state.limits.checkpoints_kept]
        if (each.attempt, each.number) not in borrowed
    ]
    trial.pruned += excess
    trial.checkpoints = [each for each in trial.checkpoints if each.origin not in excess]


@CHECKPOINT_STEPS.of(f.CheckpointsPruned)
def _pruned(state: ExperimentState, fact: f.CheckpointsPruned, r: f.Recorded) -> None:
    trial_id, attempt = fact.job_id.rsplit("-", 2)[1:]
    trial = state.trials.get(trial_id)
    if trial is not None:
        trial.pruned = [
            each
            for each in trial.pruned
            if (each.attempt, each.keeper_id) != (int(attempt), fact.keeper_id) or each.number > fact.up_to
        ]
        reindex(state, trial)
