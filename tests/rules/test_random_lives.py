"""Random lives: after any events in any order the state is valid, folds to an equal state, and ends."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from nnimgr.rules.state import JobState, trial_of_job
from tests.rules.driver import PLACE, Life, refold

RULES = (
    f.StopWhen(),
    f.StopWhen(plateau=f.Plateau(trials=2), running_trials=f.RunningTrials.STOP),
    f.StopWhen(total_trial_time=timedelta(seconds=60), failures=2),
    f.StopWhen(metric=0.9, running_trials=f.RunningTrials.STOP),
)


def frame(life: Life, draw: random.Random, job_id: str, position: int) -> f.Fact:
    """Return a frame of a trial's metrics file, whose position may be wrong."""
    trial_id, _ = trial_of_job(job_id)
    value = draw.random()
    kind = draw.choice(["PERIODICAL", "PERIODICAL", "FINAL"])
    parameter_id = "0"
    if life.state.limits.multi_phase and (trial := life.state.trials.get(trial_id)):
        held = draw.choice(trial.sets)
        parameter_id = str(held.parameter_id)
    position += draw.choice([0, 0, 0, -1, 1])
    if draw.random() < 0.2:
        return f.CheckpointReported(
            job_id=job_id,
            position=position,
            number=draw.randint(1, 9),
            step=None,
            size=1,
            files=1,
            asked=draw.random() < 0.3,
            usable=draw.random() < 0.9,
        )
    return f.MetricReported(job_id, position, kind, 0, parameter_id, value, repr(value))


def decision(life: Life, draw: random.Random, trial_id: str) -> tuple[f.Fact, ...]:
    """Return what is recorded of a random decision of the scheduler, which may be late or impossible."""
    if draw.random() < 0.2:
        verdict = f.Verdict(
            trial_id=trial_id, attempt=0, position=0, by=f.Role.SCHEDULER, cause=life.state.number
        )
        return recorded_as(life.state, verdict)
    donor = draw.choice([*life.state.trials.values()] or [None])
    saved = draw.choice([each.origin for each in donor.checkpoints] or [None]) if donor is not None else None
    return recorded_as(
        life.state,
        f.Decided(
            trial_id=trial_id,
            kind=draw.choice([f.DecisionKind(kind) for kind in ("pause", "continue", "exploit", "resize")]),
            cause=life.state.number - draw.choice([0, 0, 5]),
            reason="because",
            donor=None if donor is None else donor.id,
            checkpoint=(1, 1) if saved is None else (saved.attempt, saved.number),
            parameters='{"x": 3}',
            resources={"trialCpuNumber": draw.randint(1, 4)},
        ),
    )


def step(life: Life, draw: random.Random, *, stopping: bool) -> None:
    """Do one random thing that may happen to an experiment, such as a duplicate or late report."""
    jobs = [*life.state.jobs, *(life.job(n, draw.randint(1, 3)) for n in range(3))]
    job_id = draw.choice(jobs)
    trial_id, attempt = trial_of_job(job_id)
    job = life.state.jobs.get(job_id)
    position = job.recorded if job else draw.randint(0, 5)
    choice = draw.random()
    now = life.now
    event: f.Fact
    if choice < 0.3:
        event = f.JobStarted(job_id=job_id, started_at=now)
    elif choice < 0.55:
        event = frame(life, draw, job_id, position)
    elif choice < 0.75:
        event = f.JobEnded(
            job_id=job_id,
            reason=draw.choice(list(f.EndReason)),
            exit_code=draw.choice([0, 0, 1, None]),
            signal=None,
            metrics=position,
            acked_cmd=draw.choice([life.cmd_seq, life.cmd_seq, 0]),
            ended_at=now,
            cause=draw.choice([None, *f.Cause]),
        )
    elif choice < 0.8:
        event = f.JobLost(job_id=job_id, reason="gone", cause=draw.choice(list(f.Cause)))
    elif choice < 0.84:
        life.take(*decision(life, draw, trial_id))
        return
    elif choice < 0.87:
        event = f.StopRequested(
            trial_id=trial_id, kind=draw.choice([f.StopKind.USER, f.StopKind.USER, f.StopKind.PAUSE])
        )
    elif choice < 0.9:
        event = f.Verdict(trial_id=trial_id, attempt=attempt, position=0)
    elif choice < 0.93:
        event = f.KeeperSilent(keeper_id="local", reason="silent")
    elif choice < 0.96:
        event = f.KeeperHeard(keeper_id="local")
    elif choice < 0.97 and life.state.limits.multi_phase:
        event = f.ParametersWanted(job_id=job_id, position=position, index=draw.choice([0, 1, 1, 1, 2, 3]))
    elif choice < 0.972:
        event = f.PreemptionWanted(job_id=job_id, by="other")
    elif choice < 0.98:
        event = f.ResumeRequested(trial_id=trial_id)
    else:
        event = f.KeeperAcknowledged(keeper_id="local", acked_cmd=life.cmd_seq)
    life.wait_reason = draw.choice([None, None, "no GPU is free"])
    later = timedelta(seconds=draw.choice([0, 0, 1, 10]))
    for asked_for, index in life.further[-1:]:
        asking = life.state.trials.get(asked_for)
        if asking is not None and len(asking.sets) == index and draw.random() < 0.5:
            life.answer(asking, index, '{"x": 2}' if draw.random() < 0.9 else None)
    if stopping and draw.random() < 0.02:
        life.take(event, f.ExperimentStopRequested(), after=later)
    else:
        life.take(event, after=later)


@pytest.mark.parametrize("seed", range(120))
def test_a_random_life_stays_valid_and_ends(seed: int) -> None:
    draw = random.Random(seed)
    life = Life(
        trial_concurrency=draw.randint(1, 4),
        max_trial_number=draw.randint(3, 12),
        max_trial_duration=draw.choice([None, timedelta(seconds=30)]),
        multi_phase=seed % 2 == 1,
        stop_when=RULES[seed % 4],
    )
    stopping = draw.random() < 0.5
    for _ in range(150):
        step(life, draw, stopping=stopping)
    if draw.random() < 0.3:
        life.take(f.ExperimentStopRequested())
    life.wait_reason = None
    for _ in range(200):
        life.take(
            *(f.JobPlaced(job_id=j.id, place=PLACE, cmd_seq=_next(life)) for j in _unplaced(life)),
            *(f.ResumeRequested(trial_id=trial_id) for trial_id in life.state.trials),
            after=timedelta(seconds=5),
        )
        for job in [*life.state.jobs.values()]:
            if not job.closed:
                life.take(
                    f.JobEnded(
                        job_id=job.id,
                        reason=f.EndReason.STOPPED if job.stop else f.EndReason.EXITED,
                        exit_code=0,
                        signal=None,
                        metrics=job.recorded,
                        acked_cmd=life.cmd_seq,
                        ended_at=life.now,
                    )
                )
        life.take(f.KeeperAcknowledged(keeper_id="local", acked_cmd=life.cmd_seq))
        if life.state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED):
            break
    assert life.state.status in (f.ExperimentStatus.DONE, f.ExperimentStatus.STOPPED)
    assert not life.state.jobs
    paused = [trial.status is f.TrialStatus.PAUSED for trial in life.state.trials.values()]
    assert all(paused) and (not paused or life.state.status is f.ExperimentStatus.STOPPED)
    assert refold(life.log) == life.state
    told = [(r.fact.trial_id, r.fact.index) for r in life.log if isinstance(r.fact, f.ResultTaken)]
    assert len(told) == len(set(told)), "a result was told twice"
    ends = [r.fact.trial_id for r in life.log if isinstance(r.fact, f.TrialEnded)]
    assert len(ends) == len(set(ends)), "a trial ended twice"


def _next(life: Life) -> int:
    life.cmd_seq += 1
    return life.cmd_seq


def _unplaced(life: Life) -> list[JobState]:
    return [job for job in life.state.jobs.values() if job.placed is None and not job.closed]
