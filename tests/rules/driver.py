"""Scripted life of an experiment without an event loop: takes facts, plans until nothing follows, checks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nnimgr.rules import facts as f
from nnimgr.rules.commands import AskFurther, AskTuner, CancelJob, Command, SaveJob, SubmitJob, UpdateJob
from nnimgr.rules.fold import admits, apply, measured
from nnimgr.rules.plan import plan
from nnimgr.rules.state import ExperimentState, TrialState, trial_id_of
from nnimgr.rules.validate import validate
from training_services.base import Place

T0 = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = Place(keeper_id="local", instance="i1", boot_id="b1")


class Life:
    """An experiment whose tuner and service are played by the test and answer at once.

    ``places``: one for each of its keepers.
    """

    places: tuple[Place, ...] = (PLACE,)

    def __init__(self, *, tuner: bool = True, **limits: Any) -> None:
        self.state = ExperimentState()
        self.now = T0
        self.log: list[f.Recorded] = []
        self.asked = 0
        self.tuner = tuner
        self.cmd_seq = 0
        self.records: list[str] = []  # content of the parameter sets that were handed over
        self.further: list[tuple[str, int]] = []  # further sets requested from the tuner
        self.wake_at: datetime | None = None
        self.wait_reason: str | None = None
        limits.setdefault("trial_concurrency", 2)
        config: dict[str, Any] = {"tuner": {"name": "Random"}, "trialCommand": "true"}
        if (rule := limits.get("confirm_best")) is not None:
            config["confirmBest"] = {"top": rule.top, "runs": rule.runs}
        self.take(
            f.ExperimentCreated(
                experiment_id="exp",
                config=config,
                search_space={},
                limits=f.Limits(**limits),
                traits=f.TunerTraits(),
            ),
            f.ExperimentOpened(m_epoch=1),
            *(f.KeeperEnrolled(keeper_id=each.keeper_id, token_sha256="0" * 64) for each in self.places),
            *(
                f.KeeperBound(keeper_id=each.keeper_id, instance=each.instance, boot_id=each.boot_id)
                for each in self.places
            ),
        )

    def take(self, *facts: f.Fact, after: timedelta = timedelta(0)) -> list[f.Fact]:
        """Run one turn with these facts and return all facts that it recorded."""
        self.now += after
        start = len(self.log)
        for fact in facts:
            if admits(self.state, fact):
                self._fold(measured(self.state, fact))
        for _ in range(1000):
            todo = plan(self.state, self.now)
            fresh = [*todo.facts, *self._grant(todo.commands)]
            if not fresh:
                break
            for fact in fresh:
                self._fold(fact)
        else:
            raise AssertionError("the plan does not come to an end")
        self.wake_at = todo.wake_at
        self.touched = self.state.take_touched()
        validate(self.state)
        return [recorded.fact for recorded in self.log[start:]]

    def _fold(self, fact: f.Fact) -> None:
        recorded = f.Recorded(self.state.number + 1, self.now, fact)
        apply(self.state, recorded)
        self.log.append(recorded)

    def _grant(self, commands: tuple[Command, ...]) -> list[f.Fact]:
        facts: list[f.Fact] = []
        for command in commands:
            match command:
                case SubmitJob():
                    if self.wait_reason is not None:
                        facts.append(f.JobWaiting(job_id=command.job_id, reason=self.wait_reason))
                        continue
                    self.cmd_seq += 1
                    facts.append(f.JobPlaced(job_id=command.job_id, place=PLACE, cmd_seq=self.cmd_seq))
                case CancelJob():
                    job = self.state.jobs[command.job_id]
                    if job.placed is not None:
                        self.cmd_seq += 1
                    seq = self.cmd_seq if job.placed is not None else None
                    facts.append(
                        f.StopOrdered(
                            job_id=command.job_id,
                            cmd_seq=seq,
                            grace=command.grace,
                            save_within=command.save_within,
                        )
                    )
                case SaveJob():
                    self.cmd_seq += 1
                    facts.append(
                        f.SaveOrdered(job_id=command.job_id, cmd_seq=self.cmd_seq, within=command.within)
                    )
                case UpdateJob():
                    self.cmd_seq += 1
                    self.records.append(command.record)
                    facts.append(
                        f.UpdateOrdered(job_id=command.job_id, index=command.index, cmd_seq=self.cmd_seq)
                    )
                case AskFurther():
                    self.further.append((command.trial_id, command.index))
                case AskTuner() if self.tuner:
                    facts += [self.suggestion(offset) for offset in range(command.count)]
                case AskTuner():
                    self.asked = command.count
        return facts

    def suggestion(self, offset: int = 0) -> f.Suggested:
        sequence = self.state.next_sequence + offset
        return f.Suggested(
            trial_id=trial_id_of("exp", sequence),
            sequence=sequence,
            source=f.SuggestionSource.ALGORITHM,
            parameter_id=self.state.next_parameter_id + offset,
            parameters='{"x": 1}',
        )

    def trial(self, sequence: int) -> str:
        return trial_id_of("exp", sequence)

    def job(self, sequence: int, attempt: int = 1) -> str:
        return f"exp-{self.trial(sequence)}-{attempt}"

    def start(self, sequence: int, attempt: int = 1) -> list[f.Fact]:
        return self.take(f.JobStarted(job_id=self.job(sequence, attempt), started_at=self.now, pid=1))

    def metric(self, sequence: int, position: int, value: float, kind: str = "PERIODICAL") -> list[f.Fact]:
        return self.take(
            f.MetricReported(self.job(sequence), position, kind, position, "0", value, repr(value))
        )

    def metric_of(self, sequence: int, attempt: int, value: float) -> list[f.Fact]:
        """Report the final result of a later attempt."""
        job_id = self.job(sequence, attempt)
        return self.take(f.MetricReported(job_id, 0, "FINAL", 0, "0", value, repr(value)))

    def want(self, sequence: int, index: int, attempt: int = 1) -> list[f.Fact]:
        job_id = self.job(sequence, attempt)
        position = self.state.jobs[job_id].recorded
        return self.take(f.ParametersWanted(job_id=job_id, position=position, index=index))

    def further_set(self, sequence: int, index: int, parameters: str | None = '{"x": 2}') -> list[f.Fact]:
        """Answer a request for a further set; ``parameters`` is None if the tuner has no more."""
        return self.answer(self.state.trials[self.trial(sequence)], index, parameters)

    def answer(self, trial: TrialState, index: int, parameters: str | None) -> list[f.Fact]:
        return self.take(
            f.FurtherSuggested(
                trial_id=trial.id,
                index=index,
                parameter_id=None if parameters is None else self.state.next_parameter_id,
                parameters=parameters,
            )
        )

    def final(self, sequence: int, value: float, parameter_id: int, attempt: int = 1) -> list[f.Fact]:
        job_id = self.job(sequence, attempt)
        position = self.state.jobs[job_id].recorded
        text = repr(value)
        return self.take(f.MetricReported(job_id, position, "FINAL", 0, str(parameter_id), value, text))

    def end(
        self,
        sequence: int,
        code: int | None = 0,
        *,
        attempt: int = 1,
        reason: f.EndReason = f.EndReason.EXITED,
        signal: int | None = None,
        acked: int | None = None,
        message: str | None = None,
        cause: f.Cause | None = None,
    ) -> list[f.Fact]:
        return self.take(
            f.JobEnded(
                job_id=self.job(sequence, attempt),
                reason=reason,
                exit_code=code,
                signal=signal,
                metrics=0,
                acked_cmd=self.cmd_seq if acked is None else acked,
                ended_at=self.now,
                message=message,
                cause=cause,
            )
        )

    def ended(self) -> dict[str, tuple[f.TrialStatus, str]]:
        """Return the status and the reason of each ended trial, by id."""
        return {
            r.fact.trial_id: (r.fact.status, r.fact.reason)
            for r in self.log
            if isinstance(r.fact, f.TrialEnded)
        }


def refold(log: list[f.Recorded]) -> ExperimentState:
    state = ExperimentState()
    for recorded in log:
        apply(state, recorded)
        state.take_touched()
    return state
