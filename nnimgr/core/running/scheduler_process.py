"""Reports the experiment's events to the process of its scheduler, and receives its decisions.

A scheduler gets every event after its commit, in the order of the log. So a rebuilt scheduler gets the same
events in the same order, and makes the same decisions.
"""

from __future__ import annotations

from nnimgr.core.running.algorithm_process import AlgorithmProcess
from nnimgr.core.running.mailbox import Builder
from nnimgr.core.running.notices import UNSAVED, unsaved_notice
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import NOTHING_SAVED, recorded_as
from nnimgr.rules.state import ExperimentState, trial_of_job

__all__ = ["SchedulerProcess"]


class SchedulerProcess(AlgorithmProcess):
    """Passes committed facts to the scheduler's child process, and posts its decisions to the runner's
    mailbox.
    """

    def committed(self, number: int, fact: f.Fact) -> None:
        """Report a committed fact, if the scheduler has to know of it.

        Ends of trials and returns to checkpoints go to all algorithms (see Search).
        """
        match fact:
            case f.MetricReported():
                self.collect(fact, number=number)
            case f.Suggested(reuse=None):
                reports = 0 if fact.origin is None else fact.origin.reports
                self.tell(
                    m.TrialCreated(
                        number=number, trial_id=fact.trial_id, parameters=fact.parameters, reports=reports
                    )
                )
            case f.CheckpointReported(usable=True, reports=int(reports)):
                self._notices.pop(UNSAVED, None)
                trial_id, attempt = trial_of_job(fact.job_id)
                self.tell(
                    m.CheckpointSaved(
                        number=number,
                        trial_id=trial_id,
                        attempt=attempt,
                        checkpoint=fact.number,
                        reports=reports,
                        step=fact.step,
                    )
                )
            case f.TrialPaused(parked=False):
                self.tell(m.TrialPaused(number=number, trial_id=fact.trial_id, by=fact.by))
            case f.ResumeRequested() | f.Decided(kind=f.DecisionKind.CONTINUE):
                self.tell(m.TrialContinued(number=number, trial_id=fact.trial_id))
            case f.SlotLent():
                self.tell(m.SlotLent(number=number, trial_id=fact.trial_id))
            case f.ExperimentMoved(status=f.ExperimentStatus.DRAINING):
                self.tell(m.NoMoreTrials(number=number))
            case f.ExperimentMoved(status=f.ExperimentStatus.RUNNING):
                self.tell(m.TrialsAgain(number=number))
            case f.DecisionRefused():
                if fact.reason.startswith(NOTHING_SAVED):
                    title = self.start.name or self.start.class_name or ""
                    self._notices[UNSAVED] = unsaved_notice(title)
                self.tell(
                    m.DecisionRefused(
                        number=number,
                        trial_id=fact.trial_id,
                        cause=fact.cause,
                        kind=fact.kind,
                        reason=fact.reason,
                    )
                )

    def tell(self, message: m.ToChild) -> None:
        """Send a message to the child process, after the metrics that come before it in the log."""
        self.flush()
        super().tell(message)

    def _hear(self, message: m.FromChild) -> None:
        super()._hear(message)
        if isinstance(message, m.Decided):
            self._post(_decision(message))


def _decision(message: m.Decided) -> Builder:
    """Return a function that records a decision, or its refusal, in the runner's next turn."""
    kind = f.DecisionKind(message.kind)

    def build(state: ExperimentState) -> tuple[f.Fact, ...]:
        if kind is f.DecisionKind.STOP:
            return recorded_as(state, _verdict(state, message))
        return recorded_as(
            state,
            f.Decided(
                trial_id=message.trial_id,
                kind=kind,
                cause=message.cause,
                reason=message.reason,
                parameters=message.parameters,
                donor=message.donor,
                checkpoint=message.checkpoint,
                rung=message.rung,
                better=message.better,
                resources=message.resources,
            ),
        )

    return build


def _verdict(state: ExperimentState, message: m.Decided) -> f.Verdict:
    """Return the decision to stop a trial, after its latest result."""
    trial = state.trials.get(message.trial_id)
    return f.Verdict(
        trial_id=message.trial_id,
        attempt=0,
        position=-1 if trial is None else trial.intermediates - 1,
        reason=message.reason,
        rung=message.rung,
        better=message.better,
        by=f.Role.SCHEDULER,
        cause=message.cause,
    )
