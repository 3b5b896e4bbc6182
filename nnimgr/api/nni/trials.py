"""A trial as NNI shows it, and the status under which it does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from nnimgr.api.nni.javascript import parse, quote, stringify
from nnimgr.api.nni.metrics import metric_text
from nnimgr.api.nni.profile import millis
from nnimgr.core.facts import StopKind, TrialStatus
from nnimgr.core.state import ExperimentState
from nnimgr.store.counted import MetricLine
from nnimgr.store.reader import TrialRow

__all__ = ["ShownTrials", "condemned", "stored_statuses"]

_LOCAL_ENVIRONMENT = "local-env"  # what NNI calls the place of local trials
_SHOWN = frozenset(str(status) for status in TrialStatus if status is not TrialStatus.PAUSED)
_UNDER_WAY = (TrialStatus.WAITING, TrialStatus.RUNNING, TrialStatus.PAUSED, TrialStatus.UNKNOWN)


def condemned(state: ExperimentState) -> dict[str, TrialStatus]:
    """The trials that a user has stopped and that have not ended: NNI shows them as USER_CANCELED at once."""
    return {trial.id: trial.status for trial in state.trials.values() if trial.target is StopKind.USER}


def stored_statuses(status: str, *, condemned: Collection[str]) -> tuple[TrialStatus, ...]:
    """Under which statuses trials are stored that are shown under this one; none if it is no status."""
    if status == TrialStatus.WAITING:
        return (TrialStatus.WAITING, TrialStatus.PAUSED)
    if status == TrialStatus.USER_CANCELED and condemned:
        return (TrialStatus.USER_CANCELED, *_UNDER_WAY)
    return (TrialStatus(status),) if status in _SHOWN else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrials:
    """What the trials of one experiment have in common when they are shown."""

    directory: Path
    platform: str
    condemned: Collection[str]

    def status(self, row: TrialRow) -> TrialStatus:
        """The status that NNI's clients see."""
        if row.trial_id in self.condemned and not row.status.terminal:
            return TrialStatus.USER_CANCELED
        return TrialStatus.WAITING if row.status is TrialStatus.PAUSED else row.status

    def folder(self, trial_id: str, attempt: int) -> tuple[str, ...]:
        """Where an attempt writes, below the experiment's directory."""
        first = ("trials", trial_id)
        return first if attempt <= 1 else (*first, f"attempt-{attempt}")

    def text(self, row: TrialRow, final: MetricLine | None) -> str:
        """The JSON of one trial. ``final``: its first FINAL metric."""
        status = self.status(row)
        log_path = str(self.directory.joinpath(*self.folder(row.trial_id, row.attempt)))
        fields = {
            "trialJobId": quote(row.trial_id),
            "status": quote(status),
            "hyperParameters": f"[{quote(_record(row))}]",
            "startTime": str(millis(row.started_at or row.created_at)),
            "logPath": quote(log_path),
            "sequenceId": str(row.sequence),
        }
        if message := _message(row):
            fields["message"] = quote(message)
        if self.platform == "local":
            fields["envId"] = quote(_LOCAL_ENVIRONMENT)
        if row.ended_at is not None:
            fields["endTime"] = str(millis(row.ended_at))
        if status is TrialStatus.SUCCEEDED and final is not None:
            fields["finalMetricData"] = f"[{metric_text(final)}]"
        if status is TrialStatus.FAILED:
            fields["stderrPath"] = quote(f"{log_path}/stderr")
        return "{" + ",".join(f'"{key}":{text}' for key, text in fields.items()) + "}"


def _record(row: TrialRow) -> str:
    """The parameter record; with parameter_index always, which NNI's Python client needs."""
    parameters = stringify(parse(row.parameters, strict=False))
    parameter_id = "null" if row.parameter_id is None else str(row.parameter_id)
    return (
        f'{{"parameter_id":{parameter_id},"parameter_source":"{row.source}",'
        f'"parameters":{parameters},"parameter_index":0}}'
    )


def _message(row: TrialRow) -> str:
    """What there is to say on it; nothing on a trial that went well."""
    reason = row.reason if row.status is not TrialStatus.SUCCEEDED else None
    return "; ".join(sentence for sentence in (reason, row.note) if sentence)
