"""Converts trials of another program into the facts of a new, stopped experiment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nnimgr.importing.trials import ForeignTrial, expressible, number_of
from nnimgr.objectives import DEFAULT, Objectives, finite, main_value, objectives_of
from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.phrases import trial_count
from nnimgr.rules.state import ExperimentState, job_id_of, trial_id_of
from nnimgr.rules.trial_ends import fault_of_result
from nnimgr.store.writer import ExperimentWriter
from training_services.base import Place
from training_services.keepers.names import IMPORTED

__all__ = ["ImportedHistory"]

_TURN = 20_000  # number of facts that are committed together
_THERE = IMPORTED  # keeper, instance and boot of every attempt


class _Timed(NamedTuple):
    """Fact of a trial with its time. Facts with the same time are sorted by trial, then by ``step``."""

    at: datetime
    sequence: int
    step: int
    fact: f.Fact


@dataclass(slots=True)
class ImportedHistory:
    """Writes the log of one experiment whose trials have run elsewhere, in the order of time.

    The experiment is never RUNNING in this log. So the time that its trials took elsewhere does not count
    towards its limits.
    """

    writer: ExperimentWriter
    state: ExperimentState
    now: datetime  # time of the import, and of all trials without a time
    title: str
    _turn: list[f.Recorded] = field(default_factory=list)

    async def write(
        self,
        created: f.ExperimentCreated,
        trials: Sequence[ForeignTrial],
        planned: Sequence[ForeignTrial] = (),
    ) -> None:
        """Write all facts of the experiment to its database. ``planned``: trials that the resume runs."""
        everything = [*trials, *planned]
        objectives = objectives_of(created.config)
        facts = sorted(self._facts(created.experiment_id, everything, objectives), key=_place)
        began = min((each.at for each in facts), default=self.now)
        self._fold(
            began,
            created,
            f.ExperimentOpened(m_epoch=self.writer.m_epoch),
            f.KeeperEnrolled(keeper_id=_THERE, token_sha256="0" * 64),
            f.KeeperBound(keeper_id=_THERE, instance=_THERE, boot_id=_THERE),
        )
        for each in facts:
            self._fold(each.at, self._explained(each.fact))
            if len(self._turn) >= _TURN:
                await self._commit()
        verb = "was" if len(trials) == 1 else "were"
        self._fold(
            self.now,
            f.KeeperGone(keeper_id=_THERE),
            f.ExperimentStopRequested(detach=False),
            f.ExperimentMoved(
                status=f.ExperimentStatus.STOPPED,
                reason=f"its {trial_count(len(trials))} {verb} imported from {self.title}",
            ),
        )
        await self._commit()

    def _explained(self, fact: f.Fact) -> f.Fact:
        """Return the fact. The end of a trial with a result that is not usable says why."""
        if not isinstance(fact, f.TrialEnded) or fact.status is not f.TrialStatus.SUCCEEDED:
            return fact
        trial = self.state.trials[fact.trial_id]
        fault = None if trial.final_text is None else fault_of_result(self.state, trial)
        return fact if fault is None else replace(fact, reason=fault)

    def _facts(
        self, experiment_id: str, trials: Sequence[ForeignTrial], objectives: Objectives
    ) -> Iterator[_Timed]:
        """Yield the facts of all trials. Trials are created in the order of their numbers."""
        earliest = datetime.fromtimestamp(0, UTC)
        for sequence, trial in enumerate(trials):
            for step, (at, fact) in enumerate(self._facts_of(experiment_id, sequence, trial, objectives)):
                earliest = max(earliest, at) if step == 0 else earliest
                yield _Timed(max(earliest, at), sequence, step, fact)

    def _facts_of(
        self, experiment_id: str, sequence: int, trial: ForeignTrial, objectives: Objectives
    ) -> Iterator[tuple[datetime, f.Fact]]:
        """Yield the facts of one trial. Their times never decrease."""
        trial_id = trial_id_of(experiment_id, sequence)
        job_id = job_id_of(experiment_id, trial_id, 1)
        times = (trial.created, trial.started, *(at for _, at in trial.reports), trial.ended)
        at = min(min((each for each in times if each is not None), default=self.now), self.now)
        place = Place(keeper_id=_THERE, instance=_THERE, boot_id=_THERE)
        yield (
            at,
            f.Suggested(
                trial_id=trial_id,
                sequence=sequence,
                source=f.SuggestionSource.CUSTOMIZED,
                parameter_id=None,
                parameters=json.dumps(expressible(trial.parameters), ensure_ascii=False),
            ),
        )
        yield at, f.TrialNoted(trial_id=trial_id, note=f"imported as {trial.name}")
        yield at, f.JobPlaced(job_id=job_id, place=place, cmd_seq=0)
        if trial.started is not None:
            at = min(max(at, trial.started), self.now)
            yield at, f.JobStarted(job_id=job_id, started_at=at)
        position = 0
        for value, when in trial.reports:
            at = at if when is None else min(max(at, when), self.now)
            kind = f.MetricType.PERIODICAL
            yield at, _metric(job_id, position, kind, position, value, objectives)
            position += 1
        if trial.ended is not None:
            at = min(max(at, trial.ended), self.now)
        if trial.final is not None:
            yield at, _metric(job_id, position, f.MetricType.FINAL, 0, trial.final, objectives)
            position += 1
        if trial.rerun:
            yield at, f.TargetMoved(trial_id=trial_id, kind=f.StopKind.CUT, reason=trial.reason)
        exited = trial.status in (f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED)
        yield (
            at,
            f.JobEnded(
                job_id=job_id,
                reason=f.EndReason.EXITED if exited else f.EndReason.STOPPED,
                exit_code=0 if trial.status is f.TrialStatus.SUCCEEDED else None,
                signal=None,
                metrics=position,
                acked_cmd=0,
                ended_at=at,
            ),
        )
        yield at, f.TrialEnded(trial_id=trial_id, status=trial.status, reason=trial.reason)

    def _fold(self, at: datetime, *facts: f.Fact) -> None:
        for fact in facts:
            recorded = f.Recorded(self.state.number + 1, at, fact)
            apply(self.state, recorded)
            self._turn.append(recorded)

    async def _commit(self) -> None:
        turn, self._turn = self._turn, []
        await self.writer.append(self.state, turn, self.state.take_touched())


def _place(each: _Timed) -> tuple[datetime, int, int]:
    return each.at, each.sequence, each.step


def _metric(
    job_id: str, position: int, kind: f.MetricType, sequence: int, value: Any, objectives: Objectives
) -> f.MetricReported:
    text = json.dumps(value)
    number = number_of(value.get(DEFAULT) if isinstance(value, Mapping) else value)
    found = finite(number)
    if objectives:
        found = main_value(text, found, objectives, final=kind is f.MetricType.FINAL)
    return f.MetricReported(job_id, position, kind, sequence, None, found, text)
