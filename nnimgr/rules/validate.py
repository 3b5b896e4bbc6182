"""``validate``: every counter and index of the state derived again from its trials and jobs. On in tests."""

from __future__ import annotations

from nnimgr.rules.facts import TrialStatus
from nnimgr.rules.state import ExperimentState, is_condemned, is_queued, is_unsettled


def validate(state: ExperimentState) -> None:
    """Raise AssertionError naming the first thing that does not agree."""
    live: dict[str, int] = {}
    for trial in state.trials.values():
        live[trial.status] = live.get(trial.status, 0) + 1
        assert not trial.status.terminal, f"ended trial {trial.id} is held"
        assert trial.job_id is None or trial.closed_job is None, f"trial {trial.id} has two jobs"
        if trial.job_id is not None:
            job = state.jobs[trial.job_id]
            assert not job.closed, f"trial {trial.id} holds the closed job {job.id}"
            assert (job.trial_id, job.attempt) == (trial.id, trial.attempt), f"job {job.id} is another's"
        assert trial.job_id is not None or not trial.wants, (
            f"trial {trial.id} wants parameters and has no job"
        )
    for status, number in live.items():
        assert state.counts.get(status) == number, f"{number} trials are {status}, counts say otherwise"
    for status, number in state.counts.items():
        assert number > 0 and (status in live or TrialStatus(status).terminal), (
            f"counts[{status}] is {number}"
        )
    expected = {
        "queued": {t.id for t in state.trials.values() if is_queued(t)},
        "retrying": {t.id for t in state.trials.values() if is_queued(t) and t.due_at},
        "unsettled": {t.id for t in state.trials.values() if is_unsettled(t)},
        "condemned": {t.id for t in state.trials.values() if is_condemned(state, t)},
        "running": {t.id for t in state.trials.values() if t.running_since is not None},
        "unknown": {t.id for t in state.trials.values() if t.status is TrialStatus.UNKNOWN},
        "lent": {t.id for t in state.trials.values() if t.slot_lent and t.job_id is not None},
        "wanting": {t.id for t in state.trials.values() if t.wants},
        "reported": {t.id for t in state.trials.values() if t.untold},
    }
    for name, ids in expected.items():
        assert set(getattr(state, name)) == ids, f"{name}: {set(getattr(state, name)) ^ ids}"
    open_jobs = {job.id for job in state.jobs.values() if not job.closed}
    assert state.open_jobs == len(open_jobs), f"{len(open_jobs)} open jobs, counted {state.open_jobs}"
    assert set(state.closing_jobs) == set(state.jobs) - open_jobs, "closing_jobs"
    for job_id in open_jobs:
        assert state.trials[state.jobs[job_id].trial_id].job_id == job_id, f"job {job_id} has no trial"
    # A keeper's directory that is made anew counts from 1; its first job may be committed before its binding.
    placed = [job.placed for job in state.jobs.values() if job.placed is not None]
    commands = [(each.place.keeper_id, each.place.instance, each.cmd_seq) for each in placed]
    assert len(commands) == len(set(commands)), "a command number was given twice"
    created = sum(state.counts.values())
    # An older database knows nothing of the numbers that were given after it was copied.
    agrees = created <= state.next_sequence if state.missing else created == state.next_sequence
    assert state.number >= 0 and agrees, "sequence numbers"
