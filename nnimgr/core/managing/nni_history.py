"""Converts the history of an experiment that NNI has run into facts with their times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.config import ConfigError, read_canonical
from nnimgr.config.model import platform_of
from nnimgr.config.secrets import hide_secrets
from nnimgr.core.managing.folder import Surroundings
from nnimgr.objectives import finite
from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.state import FIVE_CHARACTERS, ExperimentState, job_id_of
from nnimgr.store.nni_database import NniDatabase, NniEvent, NniMetric, NniProfile
from nnimgr.store.writer import ExperimentWriter
from nnimgr.traits import traits_of
from training_services.base import Place
from training_services.keepers.names import LOCAL, NNI

__all__ = ["NniHistory"]

_TURN = 20_000  # number of facts that are committed together
_START = datetime.fromtimestamp(0, UTC)
_NNI = NNI  # instance and boot of every job, and keeper of jobs on other machines
_ENDS = {
    status.value: status
    for status in (
        *(f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED, f.TrialStatus.USER_CANCELED),
        *(f.TrialStatus.SYS_CANCELED, f.TrialStatus.EARLY_STOPPED),
    )
}


@dataclass(slots=True)
class _Trial:
    """Trial whose rows in NNI's database are being read. ``left``: number of its metrics that were not
    read yet.
    """

    id: str
    job_id: str
    sequence: int
    began: int  # milliseconds since 1970
    started: int | None  # milliseconds since 1970
    record: str | None  # JSON text with the parameters
    left: int
    position: int = 0
    end: NniEvent | None = None


@dataclass(slots=True)
class NniHistory:
    """Converts one experiment that NNI has run into facts, and writes them in the order of time.

    NNI's rows are not always in order: a trial's end may be older than its last metric. In the written facts,
    a trial begins before its first metric, trials begin in the order of their numbers, and a trial ends after
    its last metric.
    """

    writer: ExperimentWriter
    state: ExperimentState
    profile: NniProfile
    now: datetime = _START
    _at: int = 0  # ``now`` in milliseconds since 1970
    keeper_id: str = LOCAL
    trial_ids: list[str] = field(default_factory=list)
    _turn: list[f.Recorded] = field(default_factory=list)
    _waiting: dict[str, _Trial] = field(default_factory=dict)  # trials that have not begun, in order
    _running: dict[str, _Trial] = field(default_factory=dict)

    async def write(self, directory: Path, database: NniDatabase) -> None:
        """Read NNI's database, and write all facts of the experiment to nnimgr's database."""
        events = database.events()
        trials = _trials(directory.name, events, database.metric_counts())
        self.trial_ids = [trial.id for trial in trials]
        self._waiting = {trial.id: trial for trial in trials}
        self._open(directory)
        at = 0
        for metric in database.metrics():
            while at < len(events) and events[at].at <= metric.at:
                self._event(events[at])
                at += 1
            self._metric(metric)
            if len(self._turn) >= _TURN:
                await self._commit()
        for number, event in enumerate(events[at:]):
            self._event(event)
            if number % _TURN == 0:
                await self._commit()
        self._close(len(trials))
        await self._commit()

    # ---- the experiment -----------------------------------------------------------------------------------

    def _open(self, directory: Path) -> None:
        params = {**self.profile.params, "experimentWorkingDirectory": str(directory.parent)}
        canonical, limits, surroundings = _config(params)
        space = canonical.pop("searchSpace", None) or {}
        if not (directory / "environ.json").exists():
            surroundings.write(directory)
        self._to(self.profile.started)
        self._fold(
            f.ExperimentCreated(
                experiment_id=directory.name,
                config=canonical,
                search_space=space,
                limits=limits,
                traits=traits_of(canonical),
                ids_from=FIVE_CHARACTERS,  # ids of NNI have five characters, ids of new trials get six
            ),
            f.ExperimentOpened(m_epoch=self.writer.m_epoch),
            f.ExperimentMoved(status=f.ExperimentStatus.RUNNING, reason="NNI runs it"),
        )
        self.keeper_id = LOCAL if platform_of(canonical) == LOCAL else _NNI
        self._fold(
            f.KeeperEnrolled(keeper_id=self.keeper_id, token_sha256="0" * 64),
            f.KeeperBound(keeper_id=self.keeper_id, instance=_NNI, boot_id=_NNI),
        )

    def _close(self, trials: int) -> None:
        """End the trials that NNI recorded as still running, and then the experiment."""
        for trial in list(self._waiting.values()):
            self._begin(trial)
        for trial in list(self._running.values()):
            self._end(trial, f.TrialStatus.SYS_CANCELED, "NNI ended before this trial")
        self._to(self.profile.ended or 0)
        self._fold(f.KeeperGone(keeper_id=self.keeper_id))
        most = self.state.limits.max_trial_number
        if most is not None and trials >= most:
            self._fold(
                f.ExperimentMoved(status=f.ExperimentStatus.DONE, reason=f"NNI ran all {trials} trials")
            )
            return
        self._fold(
            f.ExperimentStopRequested(detach=False),
            f.ExperimentMoved(status=f.ExperimentStatus.STOPPED, reason="it was stopped in NNI"),
        )

    # ---- trials -------------------------------------------------------------------------------------------

    def _event(self, event: NniEvent) -> None:
        if event.event == "IMPORT_DATA" and event.data:
            self._to(event.at)
            self._fold(f.DataImported(records=event.data))
        elif event.trial_id:
            self._to(event.at)
            trial = self._begun(event.trial_id)
            status = _ENDS.get(event.event)
            if event.event == "USER_TO_CANCEL" or status is not None:
                if trial is not None and (trial.end is None or status is not None):
                    trial.end = event
                    self._end_if_complete(trial)

    def _metric(self, metric: NniMetric) -> None:
        self._to(metric.at)
        trial = self._begun(metric.trial_id)
        if trial is None:
            return
        text, value = _value(metric.data)
        self._fold(
            f.MetricReported(
                trial.job_id,
                trial.position,
                metric.type,
                metric.sequence,
                metric.parameter_id,
                value,
                text,
            )
        )
        trial.position += 1
        trial.left -= 1
        if trial.end is not None:
            self._end_if_complete(trial)

    def _begun(self, trial_id: str) -> _Trial | None:
        """Record the starts of all trials up to this one. Return this trial; None if it has ended."""
        while trial_id in self._waiting:
            self._begin(next(iter(self._waiting.values())))
        return self._running.get(trial_id)

    def _begin(self, trial: _Trial) -> None:
        self._to(trial.began)
        record = json.loads(trial.record) if trial.record else {}
        parameter_id = record.get("parameter_id")
        known = isinstance(parameter_id, int)
        source = f.SuggestionSource.ALGORITHM if known else f.SuggestionSource.CUSTOMIZED
        if record.get("parameter_source") != "algorithm":
            source = f.SuggestionSource.CUSTOMIZED
        job_id = trial.job_id
        place = Place(keeper_id=self.keeper_id, instance=_NNI, boot_id=_NNI)
        self._fold(
            f.Suggested(
                trial_id=trial.id,
                sequence=trial.sequence,
                source=source,
                parameter_id=parameter_id if known else None,
                parameters=json.dumps(record.get("parameters"), ensure_ascii=False),
            ),
            f.JobPlaced(job_id=job_id, place=place, cmd_seq=0),
        )
        if trial.started is not None:
            self._fold(f.JobStarted(job_id=job_id, started_at=_time(max(trial.started, trial.began))))
        self._running[trial.id] = trial
        del self._waiting[trial.id]

    def _end_if_complete(self, trial: _Trial) -> None:
        if trial.end is not None and trial.left <= 0:
            status = _ENDS.get(trial.end.event, f.TrialStatus.USER_CANCELED)
            self._end(trial, status, trial.end.message or "NNI recorded this end")

    def _end(self, trial: _Trial, status: f.TrialStatus, reason: str) -> None:
        ended = status in (f.TrialStatus.SUCCEEDED, f.TrialStatus.FAILED)
        self._fold(
            f.JobEnded(
                job_id=trial.job_id,
                reason=f.EndReason.EXITED if ended else f.EndReason.STOPPED,
                exit_code=0 if status is f.TrialStatus.SUCCEEDED else None,
                signal=None,
                metrics=trial.position,
                acked_cmd=0,
                ended_at=self.now if trial.end is None else _time(trial.end.at),
            ),
            f.TrialEnded(trial_id=trial.id, status=status, reason=reason),
        )
        del self._running[trial.id]

    # ---- facts --------------------------------------------------------------------------------------------

    def _to(self, at: int) -> None:
        """Set the time of the next facts to ``at`` (milliseconds since 1970). Ignore a time before the
        present one.
        """
        if at > self._at:
            self._at, self.now = at, _time(at)

    def _fold(self, *facts: f.Fact) -> None:
        state, turn = self.state, self._turn
        for fact in facts:
            recorded = f.Recorded(state.number + 1, self.now, fact)
            apply(state, recorded)
            turn.append(recorded)

    async def _commit(self) -> None:
        turn, self._turn = self._turn, []
        if turn:
            await self.writer.append(self.state, turn, self.state.take_touched())


def _trials(experiment_id: str, events: Sequence[NniEvent], counts: dict[str, int]) -> list[_Trial]:
    """Return the trials in NNI's events, sorted by number. A trial whose number is used already gets the next
    free number.
    """
    found: dict[str, _Trial] = {}
    for event in events:
        if not event.trial_id:
            continue
        trial = found.get(event.trial_id)
        if trial is None:
            trial = found[event.trial_id] = _Trial(
                id=event.trial_id,
                job_id=job_id_of(experiment_id, event.trial_id, 1),
                sequence=len(found) if event.sequence is None else event.sequence,
                began=event.at,
                started=None,
                record=event.data,
                left=counts.get(event.trial_id, 0),
            )
        trial.record = trial.record or event.data
        if event.event == "RUNNING" and trial.started is None:
            trial.started = event.at
    trials = sorted(found.values(), key=lambda trial: trial.sequence)
    lowest = 0
    for trial in trials:
        trial.sequence = lowest = max(lowest, trial.sequence)
        lowest += 1
    return trials


def _config(params: dict[str, Any]) -> tuple[dict[str, Any], f.Limits, Surroundings]:
    """Return the canonical configuration, its limits, and the environment with the secrets.

    If nnimgr cannot run the configuration, for example because it lacks the platform, keep only the
    training service's platform name. Such an experiment can be viewed and exported, but not resumed.
    """
    cwd = params.get("trialCodeDirectory")
    around = Surroundings.of_creator(environ=None, cwd=cwd if isinstance(cwd, str) else None, python=None)
    try:
        config, secrets = hide_secrets(read_canonical(params))
    except ConfigError:
        service = params.get("trainingService")
        platform = service.get("platform") if isinstance(service, dict) else None
        kept = {key: value for key, value in params.items() if value is not None}
        kept["trainingService"] = {"platform": platform if isinstance(platform, str) else LOCAL}
        kept.pop("sharedStorage", None)  # may hold a key
        trials = params.get("maxTrialNumber")
        most = trials if isinstance(trials, int) else None
        return kept, f.Limits(trial_concurrency=1, max_trial_number=most), around
    return config.canonical(), config.limits(), replace(around, secrets=secrets)


def _value(data: str) -> tuple[str, float | None]:
    """Return the JSON text of a metric in NNI's database, and the metric's number (None if it has no
    number).
    """
    plain = data[:1] == '"' and "\\" not in data
    text = data[1:-1] if plain else json.loads(data)
    if not isinstance(text, str):
        text = data
    try:
        value = json.loads(text)
    except ValueError:
        return json.dumps(text), None
    if isinstance(value, dict):
        value = value.get("default")
    return text, finite(value)


def _time(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
