"""Random lives of trials that save checkpoints under a scheduler: no attempt continues from a deleted one."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from nnimgr.core.running import requests
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import recorded_as
from nnimgr.rules.state import JobState, TrialState, job_id_of, trial_of_job
from tests.rules.driver import Life, refold

SECOND = timedelta(seconds=1)


class Population:
    """Trials of an experiment and the checkpoints that exist for them, by job and number."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.life = Life(
            trial_concurrency=self.draw.randint(1, 4),
            max_trial_number=self.draw.randint(2, 6),
            checkpoints_kept=self.draw.randint(1, 2),
        )
        self.saved: dict[str, set[int]] = {}
        self.legs = 0

    def take(self, *facts: f.Fact, after: timedelta = timedelta(0)) -> None:
        for fact in self.life.take(*facts, after=after):
            self._follow(fact)

    def _follow(self, fact: f.Fact) -> None:
        match fact:
            case f.CheckpointReported():
                self.saved.setdefault(fact.job_id, set()).add(fact.number)
            case f.CheckpointsPruned():
                gone = {n for n in self.saved[fact.job_id] if n <= fact.up_to and n not in fact.keep}
                self.saved[fact.job_id] -= gone
                for trial in self.life.state.trials.values():
                    self._check(trial.id, None if trial.origin is None else trial.origin.origin)
            case f.AttemptDue():
                self._check(fact.trial_id, fact.origin)
                self.legs += fact.leg is not None

    def _check(self, trial_id: str, origin: f.Origin | None) -> None:
        if origin is None or (self.life.state.trials[trial_id].checkpoints and origin.trial_id is not None):
            return  # a trial with a checkpoint of its own does not go back to another trial's
        job_id = job_id_of("exp", origin.trial_id or trial_id, origin.attempt)
        assert origin.number in self.saved[job_id], f"{trial_id} continues from a deleted checkpoint"

    def step(self) -> None:
        jobs = [job for job in self.life.state.jobs.values() if not job.closed and job.placed is not None]
        trials = list(self.life.state.trials.values())
        if not trials:
            return
        choice = self.draw.random()
        if jobs and choice < 0.6:
            self._run(self.draw.choice(jobs))
        elif choice < 0.9:
            self._decide(self.draw.choice(trials))
        elif choice < 0.97:
            verb = self.draw.choice([requests.pause_trial, requests.resume_trial, requests.resume_trial])
            try:
                self.take(*verb(self.draw.choice(trials).id)(self.life.state))
            except RequestRefused:
                return
        elif choice < 0.98:
            self.take(f.ExperimentStopRequested())
            self.take(*(self._end(job, f.EndReason.STOPPED) for job in jobs), after=SECOND)
            self.take(f.ExperimentOpened(m_epoch=2, resumed=True))
        else:
            name = f"i{self.draw.randint(2, 1000)}"
            self.take(f.KeeperBound(keeper_id="local", instance=name, boot_id="b1"))
            self.take(*(f.JobLost(job_id=job.id, reason="its folder is gone") for job in jobs))
            # Life places jobs in the first instance of the keeper
            self.take(f.KeeperBound(keeper_id="local", instance="i1", boot_id="b1"), after=10 * SECOND)

    def _run(self, job: JobState) -> None:
        trial_id, _ = trial_of_job(job.id)
        trial = self.life.state.trials[trial_id]
        if job.started_at is None:
            self.take(f.JobStarted(job_id=job.id, started_at=self.life.now))
        elif job.stop is not None and self.draw.random() < 0.7:
            self.take(self._end(job, f.EndReason.STOPPED))
        elif self.draw.random() < 0.1:
            self.take(self._end(job, f.EndReason.EXITED), after=SECOND)
        elif self.draw.random() < 0.5:
            number = 1 + max(self.saved.get(job.id, set()), default=0) + self.draw.choice([0, 1])
            saved = f.CheckpointReported(
                job_id=job.id, position=job.recorded, number=number, step=None, size=1, files=1
            )
            self.take(saved)
        else:
            value = self.draw.random()
            count = trial.intermediates
            report = f.MetricReported(job.id, job.recorded, "PERIODICAL", count, "0", value, repr(value))
            self.take(report)

    def _end(self, job: JobState, reason: f.EndReason) -> f.JobEnded:
        return f.JobEnded(
            job_id=job.id,
            reason=reason,
            exit_code=self.draw.choice([0, 1]),
            signal=None,
            metrics=job.recorded,
            acked_cmd=self.life.cmd_seq,
            ended_at=self.life.now,
        )

    def _decide(self, trial: TrialState) -> None:
        donor = self.draw.choice([*self.life.state.trials.values()])
        saved = self.draw.choice([each.origin for each in donor.checkpoints] or [None])
        kinds = [
            f.DecisionKind.PAUSE,
            f.DecisionKind.CONTINUE,
            f.DecisionKind.EXPLOIT,
            f.DecisionKind.EXPLOIT,
            f.DecisionKind.RESIZE,
        ]
        decision = f.Decided(
            trial_id=trial.id,
            kind=self.draw.choice(kinds),
            cause=self.life.state.number,
            reason="because",
            donor=donor.id,
            checkpoint=None if saved is None else (saved.attempt, saved.number),
            parameters=f'{{"x": {self.draw.randint(2, 99)}}}',
            resources={"trialCpuNumber": self.draw.randint(1, 4)},
        )
        self.take(*recorded_as(self.life.state, decision))


@pytest.mark.parametrize("seed", range(100))
def test_what_legs_continue_from_is_never_deleted(seed: int) -> None:
    population = Population(seed)
    for _ in range(120):
        population.step()
    assert refold(population.life.log) == population.life.state


def test_random_populations_have_legs() -> None:
    found = 0
    for seed in range(20):
        population = Population(seed)
        for _ in range(120):
            population.step()
        found += population.legs
    assert found > 20
