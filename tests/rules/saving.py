"""Scripted lives of trials that save checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnimgr.core.running import requests
from nnimgr.rules import facts as f
from nnimgr.rules.state import TrialState
from nnimgr.rules.trial_ends import RETRY_DELAY
from tests.rules.driver import Life


class Saving:
    """Trial of an experiment, whose frames the test writes one after the other.

    Without ``life``, it is the first trial of a new experiment.
    """

    def __init__(
        self, kind: Callable[..., Life] = Life, *, life: Life | None = None, sequence: int = 0, **limits: Any
    ) -> None:
        self.life = life or kind(**{"trial_concurrency": 1, "max_trial_number": 1, **limits})
        self.sequence = sequence
        self.attempt = 1
        self.number = 0
        self.life.start(sequence)

    @property
    def id(self) -> str:
        return self.life.trial(self.sequence)

    @property
    def trial(self) -> TrialState:
        return self.life.state.trials[self.id]

    @property
    def job_id(self) -> str:
        return self.life.job(self.sequence, self.attempt)

    def start(self) -> None:
        """Begin the next attempt."""
        self.attempt, self.number = self.trial.attempt, 0
        self.life.start(self.sequence, self.attempt)

    def report(self, *values: float) -> None:
        for value in values:
            position, count = self.life.state.jobs[self.job_id].recorded, self.trial.intermediates
            self.life.take(
                f.MetricReported(self.job_id, position, "PERIODICAL", count, "0", value, repr(value))
            )

    def save(self, step: int, *, asked: bool = False, usable: bool = True) -> list[f.Fact]:
        self.number += 1
        return self.life.take(
            f.CheckpointReported(
                job_id=self.job_id,
                position=self.life.state.jobs[self.job_id].recorded,
                number=self.number,
                step=step,
                size=10,
                files=1,
                asked=asked,
                usable=usable,
            )
        )

    def keep(self, number: int, attempt: int | None = None) -> list[f.Fact]:
        """Let the server copy a checkpoint of an attempt, by default of the present one."""
        job_id = self.life.job(0, attempt or self.attempt)
        begun = f.CheckpointKeepBegun(job_id=job_id, number=number)
        return self.life.take(begun, f.CheckpointKept(job_id=job_id, number=number, digest="d", size=10))

    def pause(self) -> list[f.Fact]:
        return self.life.take(*requests.pause_trial(self.id)(self.life.state))

    def resume(self) -> list[f.Fact]:
        return self.life.take(*requests.resume_trial(self.id)(self.life.state))

    def end(self, code: int | None = 0, reason: f.EndReason = f.EndReason.EXITED) -> list[f.Fact]:
        return self.life.end(self.sequence, code, attempt=self.attempt, reason=reason)

    def lose(self) -> list[f.Fact]:
        facts = self.life.take(f.JobLost(job_id=self.job_id, reason="the host was restarted"))
        return [*facts, *self.life.take(after=RETRY_DELAY)]
