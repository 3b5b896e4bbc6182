"""Search of an experiment (its tuner, assessor and scheduler): sends committed facts to them, and requests
parameter sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from nnimgr.core.running.algorithm_process import AlgorithmProcess, Spawn
from nnimgr.core.running.assessor_process import AssessorProcess
from nnimgr.core.running.mailbox import Post
from nnimgr.core.running.notices import Notice
from nnimgr.core.running.scheduler_process import SchedulerProcess
from nnimgr.core.running.tuner_process import TunerProcess
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.history import constraints_of
from nnimgr.rules import facts as f
from nnimgr.rules.confirmations import about_confirmation
from nnimgr.rules.state import ExperimentState, Touched

__all__ = ["Search"]


class Search:
    """Tuner, assessor and scheduler of one experiment.

    ``post`` puts facts or builders of facts into the runner's mailbox. ``new_tuner`` returns the start
    message of a tuner that a user has chosen. ``pending_metrics`` returns the metrics that are not committed
    yet.
    """

    def __init__(
        self,
        *,
        tuner: m.Start,
        new_tuner: Callable[[ExperimentState], m.Start],
        assessor: m.Start | None,
        scheduler: m.Start | None = None,
        spawn: Spawn,
        post: Post,
        pending_metrics: Callable[[], Iterable[f.MetricReported]],
    ) -> None:
        self._notices: dict[str, Notice] = {}
        self._tuner = TunerProcess(tuner, spawn=spawn, post=post, notices=self._notices, new_tuner=new_tuner)
        self._processes: dict[f.Role, AlgorithmProcess] = {f.Role.TUNER: self._tuner}
        self._assessor: AssessorProcess | None = None
        if assessor is not None:
            self._processes[f.Role.ASSESSOR] = self._assessor = AssessorProcess(
                assessor, spawn=spawn, post=post, notices=self._notices, pending_metrics=pending_metrics
            )

        self._scheduler: SchedulerProcess | None = None
        if scheduler is not None:
            self._processes[f.Role.SCHEDULER] = self._scheduler = SchedulerProcess(
                scheduler, spawn=spawn, post=post, notices=self._notices
            )

    @property
    def outstanding(self) -> int:
        """Return the number of suggestions that were requested and have not arrived."""
        return self._tuner.outstanding

    @property
    def all_notices(self) -> dict[str, Notice]:
        """Return the notices about the algorithms by subject, including a notice about a tuner that
        hangs.
        """
        silence = None if "tuner" in self._notices else self._tuner.silence
        return self._notices if silence is None else self._notices | {"tuner": silence}

    @property
    def restarts(self) -> list[str]:
        """Return a sentence about each algorithm that is being restarted after an error."""
        return [restart for process in self._processes.values() if (restart := process.restart) is not None]

    async def open(self, state: ExperimentState) -> None:
        """Start the child processes of the algorithms, which rebuild their state from all committed facts."""
        for process in self._processes.values():
            process.fed_to = state.number
        await asyncio.gather(*(process.begin() for process in self._processes.values()))

    async def close(self) -> None:
        """End the child processes of the algorithms."""
        children = [child for process in self._processes.values() for child in process.halt()]
        await asyncio.gather(*(child.close() for child in children))

    # ---- asking -------------------------------------------------------------------------------------------

    def ahead(self, state: ExperimentState) -> int:
        """Return the number of suggestions to request from the tuner in advance, beyond the free slots.

        If programs ask for the trials, there are none by default: nobody knows how many more will be wanted.
        """
        return (state.limits.suggestions_ahead or 0) if state.asked else self._tuner.ahead(state.limits)

    def ask(self, count: int, state: ExperimentState, *, urgent: bool) -> None:
        """Request suggestions from the tuner until ``count`` requests are pending. ``urgent``: a free slot
        waits.
        """
        self._tuner.ask(count, state, urgent=urgent)

    def ask_further(self, trial_id: str, index: int, state: ExperimentState) -> None:
        """Request parameter set number ``index`` of a multi-phase trial from the tuner, unless it is
        requested already.
        """
        self._tuner.ask_further(trial_id, index, state)

    def judge(self, metric: f.MetricReported) -> None:
        """Collect a new metric, which the next ``flush`` sends to the assessor."""
        if self._assessor is not None:
            self._assessor.collect(metric)

    def flush(self) -> None:
        """Send the metrics that ``judge`` has collected to the assessor."""
        if self._assessor is not None:
            self._assessor.flush()

    # ---- telling ------------------------------------------------------------------------------------------

    def committed(self, turn: Sequence[f.Recorded], touched: Touched, state: ExperimentState) -> None:
        """Report the committed facts to the algorithms, which never hear of confirmations.

        If one of the facts is a failure of an algorithm's process, restart this process.
        """
        confirms = state.limits.confirm_best is not None
        for number, _, fact in turn:
            if confirms and about_confirmation(state, fact, touched):
                continue
            if self._scheduler is not None:
                self._scheduler.committed(number, fact)
            self._report(number, fact, touched, state)
        self._tuner.flush()
        if self._scheduler is not None:
            self._scheduler.flush()
        for process in self._processes.values():
            process.fed_to = state.number
            process.catch_up()

    def _report(self, number: int, fact: f.Fact, touched: Touched, state: ExperimentState) -> None:
        """Report one committed fact to all algorithms that have to know of it."""
        match fact:
            case f.MetricReported():
                self._tuner.collect(fact, number=number)
            case f.TrialEnded():
                message = _finished(number, fact, touched)
                for process in self._processes.values():
                    process.tell(message)
            case f.AttemptDue():
                self._roll_back(number, fact)
            case f.ResultTaken():
                self._tuner.tell(_result(number, fact))
            case f.FurtherSuggested(late=True, parameter_id=int(parameter_id), parameters=str(text)):
                gone = m.SetDiscarded(
                    number=number, trial_id=fact.trial_id, parameter_id=parameter_id, parameters=text
                )
                self._tuner.tell(gone)
            case f.DataImported():
                self._tuner.tell(m.Imported(number=number, records=fact.records))
            case f.Suggested(origin=f.Origin() as origin):
                assessor = self._processes.get(f.Role.ASSESSOR)
                if assessor is not None and assessor.wants_metrics:
                    assessor.tell(_continues(number, fact.trial_id, 1, origin))
            case f.Suggested(source=f.SuggestionSource.CUSTOMIZED, parameters=tried):
                if self._tuner.start.duplicates == "skip":
                    self._tuner.tell(m.SetTried(number=number, parameters=tried))
            case f.ConfigChanged():
                self._config_changed(number, fact, state)
            case f.JobEnded() | f.JobLost():
                self._tuner.slot_freed()
            case f.AlgorithmFailed():
                self._processes[fact.role].failed(fact, state)

    def _roll_back(self, number: int, fact: f.AttemptDue) -> None:
        """Report that a trial continues from a checkpoint, or starts again, or gets other resources."""
        origin = fact.origin
        goes_back = origin is not None or fact.rolled_back > 0
        message = _continues(number, fact.trial_id, fact.attempt, origin)
        for process in self._processes.values():
            if goes_back and process.wants_metrics and process is not self._scheduler:
                process.tell(message)
        if self._scheduler is not None and (goes_back or fact.resources is not None):
            own = replace(message, resources=fact.resources)
            self._scheduler.tell(_leg(number, fact, own) if fact.leg is not None else own)

    def _config_changed(self, number: int, fact: f.ConfigChanged, state: ExperimentState) -> None:
        if "tuner" in fact.changes:
            self._tuner.replace(state)
        if (space := fact.search_space) is not None:
            constraints = constraints_of(fact.changes)
            for process in self._processes.values():
                kept = process.start.constraints if constraints is None else constraints
                process.start = replace(process.start, search_space=space, constraints=kept)
            change = m.SpaceChanged(number=number, search_space=space, constraints=constraints)
            self._tuner.tell(change)
            if self._scheduler is not None:
                self._scheduler.tell(change)


def _finished(number: int, fact: f.TrialEnded, touched: Touched) -> m.TrialFinished:
    trial = touched.trials[fact.trial_id]
    customised = trial.source is f.SuggestionSource.CUSTOMIZED
    return m.TrialFinished(
        number=number,
        trial_id=trial.id,
        parameter_id=None if customised else trial.parameter_id,
        parameters=trial.parameters,
        text=trial.final_text,
        success=fact.status is f.TrialStatus.SUCCEEDED,
        value=trial.final_value,
        stand_in=fact.stand_in,
        untried=fact.untried,
        status=fact.status,
        again=m.runs_again(fact.status, untried=fact.untried, customised=customised),
    )


def _continues(number: int, trial_id: str, attempt: int, origin: f.Origin | None) -> m.RolledBack:
    """Return the message that an attempt continues from a checkpoint, or starts from the beginning."""
    return m.RolledBack(
        number=number,
        trial_id=trial_id,
        attempt=attempt,
        position=0 if origin is None else origin.position,
        reports=0 if origin is None else origin.reports,
    )


def _leg(number: int, fact: f.AttemptDue, message: m.RolledBack) -> m.LegBegan:
    assert fact.leg is not None and fact.parameters is not None
    return m.LegBegan(
        number=number,
        trial_id=fact.trial_id,
        attempt=fact.attempt,
        leg=fact.leg,
        parameters=fact.parameters,
        position=message.position,
        reports=message.reports,
        resources=message.resources,
    )


def _result(number: int, fact: f.ResultTaken) -> m.ResultReported:
    return m.ResultReported(
        number=number,
        trial_id=fact.trial_id,
        parameter_id=fact.parameter_id,
        parameters=fact.parameters,
        text=fact.text,
    )
