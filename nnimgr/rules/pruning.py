"""Which checkpoints and copies nobody needs any more, and the facts that allow to delete them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.retention import best_checkpoints, borrowed, borrows, loans, needed_copies, pinned
from nnimgr.rules.state import ExperimentState, TrialState, job_id_of, trial_of_job

__all__ = ["leave_copies", "prune", "prune_copies", "prune_last", "retain"]


def retain(state: ExperimentState, trial: TrialState) -> None:
    """Mark checkpoints for deletion that nobody needs.

    Needed are the newest ones, those with the best results, those that users have pinned, the one that the
    trial continued from, those from which other trials continue, those whose copies are needed, and the one
    that is being copied.
    """
    origin = None if trial.origin is None else trial.origin.origin
    others = [each.origin for each in trial.checkpoints if each.origin != origin]
    excess = _excess(
        state, trial, others, stay=(trial.keeping, *needed_copies(state, trial)), named=_named(state, trial)
    )
    trial.pruned += excess
    trial.checkpoints = [each for each in trial.checkpoints if each.origin not in excess]


def _excess(
    state: ExperimentState,
    trial: TrialState,
    origins: list[f.Origin],
    *,
    stay: Iterable[f.Origin | None] = (),
    named: Collection[tuple[int, int]],
) -> list[f.Origin]:
    """Return those of the trial's checkpoints that are neither the newest or best ones, nor in ``stay`` or
    ``named``.
    """
    needed = [*stay, *best_checkpoints(state, trial.checkpoints)]
    return [
        each
        for each in origins[: -state.limits.checkpoints_kept]
        if each not in needed and (each.attempt, each.number) not in named
    ]


def prune(state: ExperimentState, trial: TrialState) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete the trial's checkpoints that nobody needs any more."""
    own = [*trial.checkpoints, *([trial.origin] if trial.origin is not None else [])]
    stay = {(each.origin.attempt, each.origin.number) for each in own if not borrows(each)}
    return _pruned(state, trial, trial.pruned, stay | _named(state, trial))


def prune_last(state: ExperimentState, trial: TrialState) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete what the ended trial needed until its end: the checkpoint that its
    last attempt continued from, and those of copies.
    """
    own, named = [each.origin for each in trial.checkpoints], _named(state, trial, ended=True)
    excess = _excess(state, trial, own, named=named)
    stay = {(each.attempt, each.number) for each in own if each not in excess}
    return _pruned(state, trial, excess, stay | named)


def _named(state: ExperimentState, trial: TrialState, *, ended: bool = False) -> set[tuple[int, int]]:
    """Return (attempt, number) of the trial's checkpoints that are pinned, or needed by legs: of this trial,
    too, unless it has ``ended``.
    """
    needed = {
        (point.origin.attempt, point.origin.number)
        for borrower, point in loans(state, trial.id)
        if borrower is not trial or not ended
    }
    return needed | pinned(state, trial.id)


def _pruned(
    state: ExperimentState, trial: TrialState, origins: Iterable[f.Origin], stay: Collection[tuple[int, int]]
) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete these checkpoints of the trial, except those in ``stay``, which
    are named by attempt and number.
    """
    hosts: dict[tuple[int, str], int] = {}
    for origin in origins:
        key = origin.attempt, origin.keeper_id
        hosts[key] = max(hosts.get(key, 0), origin.number)
    for (attempt, keeper_id), up_to in hosts.items():
        yield f.CheckpointsPruned(
            job_id=job_id_of(state.id, trial.id, attempt),
            keeper_id=keeper_id,
            up_to=up_to,
            keep=tuple(
                sorted(number for of_attempt, number in stay if of_attempt == attempt and number <= up_to)
            ),
        )


def prune_copies(state: ExperimentState) -> Iterator[f.CheckpointsPruned]:
    """Yield the facts that allow to delete the server's copies of ended trials' checkpoints.

    Those from which other trials continue, and pinned ones, stay.
    """
    for job_id in state.unneeded_copies:
        numbers = state.copies[job_id]
        trial_id, attempt = trial_of_job(job_id)
        named = borrowed(state, trial_id) | pinned(state, trial_id)
        up_to = max(numbers)
        keep = tuple(sorted(number for of, number in named if of == attempt and number <= up_to))
        if not set(numbers) <= set(keep):
            yield f.CheckpointsPruned(job_id=job_id, keeper_id=None, up_to=up_to, keep=keep)


def leave_copies(state: ExperimentState, trial: TrialState) -> None:
    """Mark the copies of an ended trial's checkpoints for deletion, once no other trial continues from them
    and no user has pinned them.

    The files on hosts stay.
    """
    jobs = (job_id_of(state.id, trial.id, attempt) for attempt in range(1, trial.attempt + 1))
    state.unneeded_copies.update(dict.fromkeys(job_id for job_id in jobs if job_id in state.copies))
