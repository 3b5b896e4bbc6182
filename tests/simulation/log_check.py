"""Checks of the recorded facts against the events on the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job
from tests.simulation.checkpoint_check import CheckedFact, CheckpointCheck
from tests.simulation.confirmation_check import ConfirmationCheck
from tests.simulation.evidence import Attempt, Evidence, Trial
from tests.simulation.gangs import GangCheck
from tests.simulation.kernel import Kernel
from training_services.base import job_of_member, member_id_of
from training_services.frames import read_frame


class LogCheck:
    """Check of each fact that becomes durable."""

    def __init__(
        self, kernel: Kernel, evidence: Evidence, checkpoints: CheckpointCheck, gangs: GangCheck
    ) -> None:
        self._kernel, self._evidence, self._checkpoints = kernel, evidence, checkpoints
        self._gangs = gangs
        self.confirmations = ConfirmationCheck(kernel, evidence)
        self.number = 0
        self._at: datetime | None = None  # time of the last fact

    def committed(self, turn: Sequence[f.Recorded]) -> None:
        """Check a turn that is durable."""
        for number, at, fact in turn:
            if number != self.number + 1 or (self._at is not None and at < self._at):
                self._kernel.fail(f"fact {number} of {at} follows fact {self.number} of {self._at}")
            self.number, self._at = number, at
            if isinstance(
                fact, f.MetricReported | f.FrameSkipped | f.ParametersWanted | f.CheckpointReported
            ):
                self._frame(fact)
            elif isinstance(fact, CheckedFact):
                self._checkpoints.fact(fact)
            else:
                self._fact(fact)
        self._checkpoints.committed()

    def _frame(
        self, fact: f.MetricReported | f.FrameSkipped | f.ParametersWanted | f.CheckpointReported
    ) -> None:
        job, fail = fact.job_id, self._kernel.fail
        attempt = self._evidence.attempts[job]
        if attempt.over is not None:
            fail(f"frame {fact.position} of {job} was recorded after its end: {attempt.over}")
        index, trial_id = fact.position - attempt.base, trial_of_job(job)[0]
        if index != attempt.recorded:
            fail(f"frame {fact.position} of {job} was recorded as number {attempt.recorded}")
        attempt.recorded += 1
        if index >= len(attempt.frames):
            fail(f"frame {fact.position} of {job} was recorded, {len(attempt.frames)} were written")
            return
        written = read_frame(
            job, trial_id, position=fact.position, payload=attempt.frames[index], reports=attempt.reports
        )
        sent = replace(fact, reports=None) if isinstance(fact, f.CheckpointReported) else fact
        if sent != written:
            fail(f"frame {fact.position} of {job} was recorded as {fact}, not {written}")
        self._checkpoints.frame(trial_id, fact, attempt.steps[index])
        if isinstance(fact, f.CheckpointReported):
            self._checkpoints.reported(fact)
            self._gangs.saved(fact.job_id)
            attempt.left = fact.asked
        elif isinstance(fact, f.MetricReported):
            attempt.left = False
        if self._evidence.phased is not None and isinstance(fact, f.MetricReported) and fact.type == "FINAL":
            self._evidence.reported[trial_of_job(job)[0], fact.parameter_id].append(fact.text)

    def _fact(self, fact: f.Fact) -> None:
        fail = self._kernel.fail
        of_gang = self._gangs.fact(fact)
        match fact:
            case f.Suggested():
                self._suggested(fact)
            case f.FurtherSuggested(late=False) | f.ResultTaken():
                self._phase(fact)
            case f.JobPlaced():
                self._placed(fact)
            case f.StopOrdered():
                self._stop_ordered(fact)
            case f.SaveOrdered(cmd_seq=int(seq)):
                self._save_ordered(fact, seq)
            case f.KeeperSilent() | f.KeeperHeard() | f.KeeperBound():
                self._heard(fact)
            case f.JobStarted() | f.JobEnded() | f.JobLost() | f.MemberEnded() | f.MemberLost():
                self._job(fact, of_gang=of_gang)
            case f.LossDeclared() | f.StopRequested() | f.ExperimentStopRequested():
                self._wished(fact)
            case f.AttemptDue():
                self._due(fact)
            case f.PreemptionWanted():
                self._kernel.counts["preempted"] += 1
            case f.TrialEnded() | f.TrialPaused():
                self._decided(fact)
            case f.ExperimentMoved(status=f.ExperimentStatus.ERROR):
                fail(f"the experiment is ERROR: {fact.reason}")

    def _suggested(self, fact: f.Suggested) -> None:
        if fact.trial_id in self._evidence.trials:
            self._kernel.fail(f"trial {fact.trial_id} was suggested twice")
        confirms = fact.source is f.SuggestionSource.CONFIRMATION
        if confirms:
            self.confirmations.suggested(fact)
        trial = Trial(fact.parameters, fact.retry_of if confirms else None, fact.seed)
        self._evidence.trials[fact.trial_id] = trial

    def _save_ordered(self, fact: f.SaveOrdered, seq: int) -> None:
        place = self._evidence.attempts[fact.job_id].place
        assert place is not None
        self._evidence.saves[place.instance, seq] = fact.job_id
        self._kernel.counts["save ordered"] += 1

    def _decided(self, fact: f.TrialEnded | f.TrialPaused) -> None:
        trial = self._evidence.trials[fact.trial_id]
        self._checkpoints.decided(fact, trial)
        trial.paused = isinstance(fact, f.TrialPaused)
        if isinstance(fact, f.TrialPaused):
            self._checkpoints.paused(fact)
            return
        if trial.ended is not None:
            self._kernel.fail(f"trial {fact.trial_id} was {trial.ended} and is {fact.status}")
        trial.ended = fact.status

    def _stop_ordered(self, fact: f.StopOrdered) -> None:
        attempt = self._evidence.attempts[fact.job_id]
        attempt.stop = fact
        if fact.cmd_seq is None:
            attempt.over = "it was never placed"
            for job, other in self._evidence.attempts.items():
                if other.place is not None and job_of_member(job)[0] == fact.job_id:
                    other.over = attempt.over

    def _heard(self, fact: f.KeeperSilent | f.KeeperHeard | f.KeeperBound) -> None:
        if isinstance(fact, f.KeeperBound):
            self._evidence.instances[fact.keeper_id] = fact.instance
        elif isinstance(fact, f.KeeperSilent):
            self._evidence.silent.add(fact.keeper_id)
        else:
            self._evidence.silent.discard(fact.keeper_id)

    def _wished(self, fact: f.LossDeclared | f.StopRequested | f.ExperimentStopRequested) -> None:
        """Record the wish of a user, durably."""
        match fact:
            case f.LossDeclared():
                self._evidence.trials[fact.trial_id].declared = True
            case f.StopRequested(kind=f.StopKind.USER):
                self._evidence.trials[fact.trial_id].stopped = True
            case f.ExperimentStopRequested():
                self._evidence.stopped = True

    def _phase(self, fact: f.FurtherSuggested | f.ResultTaken) -> None:
        trial = self._evidence.trials[fact.trial_id]
        if isinstance(fact, f.ResultTaken):
            if fact.parameter_id in trial.results:
                self._kernel.fail(f"the result of set {fact.parameter_id} was taken twice")
            trial.results[fact.parameter_id] = fact.text
        else:
            if fact.index in trial.sets:
                self._kernel.fail(f"trial {fact.trial_id} was given set {fact.index} twice")
            trial.sets[fact.index] = (fact.parameter_id, fact.parameters)

    def _due(self, fact: f.AttemptDue) -> None:
        trial = self._evidence.trials[fact.trial_id]
        if trial.stopped:
            self._kernel.fail(f"trial {fact.trial_id} was stopped and gets attempt {fact.attempt}")
        follows = fact.attempt > trial.attempt if self._evidence.older else fact.attempt == trial.attempt + 1
        if not follows or trial.ended is not None:
            self._kernel.fail(f"trial {fact.trial_id} ({trial.ended}) gets attempt {fact.attempt}")
        self._checkpoints.decided(fact, trial)
        self._checkpoints.due(fact, trial)
        trial.parameters = fact.parameters or trial.parameters
        if fact.resources is not None:
            trial.resources = dict(fact.resources)
            self._kernel.counts["resized"] += 1
        trial.attempt = fact.attempt
        trial.declared = trial.paused = False

    def _placed(self, fact: f.JobPlaced) -> None:
        attempt = self._evidence.attempts[fact.job_id]
        trial_id, number = trial_of_job(fact.job_id)
        trial = self._evidence.trials[trial_id]
        if attempt.place is not None:
            self._kernel.fail(f"attempt {fact.job_id} was placed twice")
        if trial.ended is not None or trial.paused or trial.attempt != number:
            self._kernel.fail(f"attempt {fact.job_id} was placed, but {trial}")
        attempt.place = fact.place
        attempt.base, attempt.reports = len(trial.curve.frames), trial.curve.reports
        for number, member in enumerate(fact.members, start=1):
            self._evidence.attempts[member_id_of(fact.job_id, number)].place = member.place

    def _ends(self, job: str, how: str) -> Attempt:
        attempt = self._evidence.attempts[job]
        if attempt.over is not None:
            self._kernel.fail(f"attempt {job} ended twice: {attempt.over}; {how}")
        attempt.over = how
        return attempt

    def _job(
        self,
        fact: f.JobStarted | f.JobEnded | f.JobLost | f.MemberEnded | f.MemberLost,
        *,
        of_gang: bool,
    ) -> None:
        """Check what has happened to an attempt. Of a gang, this is checked for each of its members."""
        match fact:
            case f.MemberEnded():
                self._ended(fact)
            case f.MemberLost():
                self._lost(fact)
            case f.JobEnded() if of_gang:
                self._ended_well(fact)
            case f.JobEnded():
                self._ended(fact)
            case f.JobLost() if not of_gang:
                self._lost(fact)
            case f.JobStarted() if not of_gang and self._evidence.attempts[fact.job_id].execs == 0:
                self._kernel.fail(f"attempt {fact.job_id} is recorded as started and was not")

    def _ended_well(self, fact: f.JobEnded) -> None:
        if fact.reason is f.EndReason.EXITED and fact.exit_code == 0:
            self._evidence.trials[trial_of_job(fact.job_id)[0]].exited = fact

    def _ended(self, fact: f.JobEnded | f.MemberEnded) -> None:
        job, fail = _named(fact), self._kernel.fail
        attempt = self._ends(job, f"{fact.reason} {fact.exit_code}")
        if isinstance(fact, f.JobEnded) or fact.member == 0:  # nothing of other members is recorded
            if attempt.recorded < fact.metrics:
                fail(f"attempt {job} ended with {fact.metrics} frames, {attempt.recorded} are recorded")
            if not self._evidence.fenced(attempt) and attempt.recorded != len(attempt.frames):
                fail(f"attempt {job} wrote {len(attempt.frames)} frames, {attempt.recorded} are recorded")
        if isinstance(fact, f.JobEnded):
            self._ended_well(fact)
        match fact.reason:
            case f.EndReason.NEVER_STARTED:
                justified = attempt.execs == 0 and (attempt.exec_failed or attempt.stop is not None)
            case f.EndReason.STOPPED:
                justified = attempt.stop is not None and (attempt.execs == 1 or attempt.shim_killed)
            case f.EndReason.LEASE:
                justified = attempt.lapsed
            case f.EndReason.CHECKPOINT_LOST:
                justified = attempt.execs == 0 and self._evidence.older
            case _:
                # After another boot, or without a claim, nobody knows that the signal went to all processes.
                unknown = self._evidence.fenced(attempt) or attempt.spoiled
                felled = attempt.felled and not unknown
                justified = (attempt.execs == 1 and not felled) or attempt.shim_killed
        if fact.exit_code is None and fact.signal is None:
            unsaid = fact.reason is f.EndReason.NEVER_STARTED or attempt.execs == 0
            justified = justified and (unsaid or attempt.shim_killed or attempt.spoiled)
        elif attempt.exit != (fact.exit_code, fact.signal):
            justified = False
        if not justified and not attempt.unrecorded:  # the reason of its stop may be forgotten
            fail(f"attempt {job} ended without cause: {fact}; {attempt}")

    def _lost(self, fact: f.JobLost | f.MemberLost) -> None:
        job = _named(fact)
        attempt = self._ends(job, f"lost: {fact.reason}")
        trial = self._evidence.trials[trial_of_job(job)[0]]
        unneeded = trial.declared or trial.stopped or self._gangs.has_succeeded(fact.job_id)
        if (attempt.stop is not None and unneeded) or self._evidence.stopped:
            attempt.forsaken = True  # even if its directory is gone: perhaps nobody has ended it there yet
            self._kernel.counts["given up without proof"] += 1
        elif self._evidence.fenced(attempt) or attempt.unrecorded:
            return
        elif self._evidence.older and not attempt.execs:
            # the newer database had used its number before
            self._kernel.counts["given up behind an older database"] += 1
        elif self._evidence.ending(attempt):
            unheard = isinstance(fact, f.MemberLost) and fact.member > 0
            if self._evidence.runs(job) or (attempt.recorded != len(attempt.frames) and not unheard):
                self._kernel.fail(f"attempt {job} was told to end with its host, too early: {attempt}")
            self._kernel.counts["told to end with its host"] += 1
        elif not self._evidence.leased:
            self._kernel.fail(f"attempt {job} was given up without cause: {fact.reason}")
        elif not attempt.shim_killed and self._evidence.runs(job):
            self._kernel.fail(f"attempt {job} was given up and runs: {fact.reason}")
        else:
            self._kernel.counts["given up by its lease"] += 1

    def replay(self, log: Sequence[f.Recorded]) -> None:
        """Check this log from its beginning, as if the database had never contained other facts."""
        self.number, self._at = 0, None
        self._evidence.forget_records()
        self._checkpoints.forget()
        self._gangs.forget()
        self.committed(log)


def _named(fact: f.JobEnded | f.JobLost | f.MemberEnded | f.MemberLost) -> str:
    """Return the id under which a keeper has run what the fact is about."""
    return member_id_of(fact.job_id, fact.member if isinstance(fact, f.MemberEnded | f.MemberLost) else 0)
