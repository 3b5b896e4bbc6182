"""Trials in NNI's format, with the status that NNI shows for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from nnimgr.api.nni.javascript import parse, quote, stringify
from nnimgr.api.nni.metrics import main_objective, metric_text
from nnimgr.api.nni.profile import millis
from nnimgr.api.trial_paths import TrialPaths
from nnimgr.rules.facts import StopKind, SuggestionSource, TrialStatus
from nnimgr.rules.state import ExperimentState
from nnimgr.store.reader import ExperimentReader, TrialRow, TrialSet
from training_services.keepers.names import LOCAL

__all__ = ["ShownTrials", "condemned", "stored_statuses"]

_LOCAL_ENVIRONMENT = "local-env"  # NNI's name for the environment of local trials
_SHOWN = frozenset(str(status) for status in TrialStatus if status is not TrialStatus.PAUSED)
_UNDER_WAY = (TrialStatus.WAITING, TrialStatus.RUNNING, TrialStatus.PAUSED, TrialStatus.UNKNOWN)


def condemned(state: ExperimentState) -> dict[str, TrialStatus]:
    """Return the live trials that a user has stopped, with their statuses. NNI shows them as USER_CANCELED at
    once.
    """
    return {trial.id: trial.status for trial in state.trials.values() if trial.target is StopKind.USER}


def stored_statuses(status: str, *, condemned: Collection[str]) -> tuple[TrialStatus, ...]:
    """Return the statuses that trials may have in the database if NNI shows them with ``status``.

    The result is empty if the text is not a status. ``condemned``: trials that a user has stopped.
    """
    if status == TrialStatus.WAITING:
        return (TrialStatus.WAITING, TrialStatus.PAUSED)
    if status == TrialStatus.USER_CANCELED and condemned:
        return (TrialStatus.USER_CANCELED, *_UNDER_WAY)
    return (TrialStatus(status),) if status in _SHOWN else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrials:
    """Data that is needed to show the trials of one experiment in NNI's format.

    ``condemned``: trials that a user has stopped and that have not ended yet.
    """

    trial_paths: TrialPaths
    condemned: Collection[str]

    def status(self, row: TrialRow) -> TrialStatus:
        """Return the status that NNI's clients see for this trial."""
        if row.trial_id in self.condemned and not row.status.terminal:
            return TrialStatus.USER_CANCELED
        return TrialStatus.WAITING if row.status is TrialStatus.PAUSED else row.status

    def texts(self, reader: ExperimentReader, rows: Sequence[TrialRow]) -> list[str]:
        """Return the JSON text of each of these trials, in NNI's format."""
        sets, places = reader.sets(rows), self.trial_paths.places(reader, rows)
        main = main_objective(reader)
        return [self._text(row, sets[row.trial_id], places.get(row.trial_id), main) for row in rows]

    def _text(
        self, row: TrialRow, sets: Sequence[TrialSet], place: tuple[int, str] | None, main: str | None
    ) -> str:
        status = self.status(row)
        log_path = self.trial_paths.log_path_of_trial(row.trial_id, place)
        keeper_id = None if place is None else place[1]
        fields = {
            "trialJobId": quote(row.trial_id),
            "status": quote(status),
            "hyperParameters": f"[{','.join(_records(row, sets))}]",
            "startTime": str(millis(row.started_at or row.created_at)),
            "logPath": quote(log_path),
            "sequenceId": str(row.sequence),
        }
        if message := _message(row):
            fields["message"] = quote(message)
        if self.trial_paths.platform == LOCAL or keeper_id == LOCAL:
            fields["envId"] = quote(_LOCAL_ENVIRONMENT)
        elif keeper_id is not None:
            fields["envId"] = quote(keeper_id)
        if row.ended_at is not None:
            fields["endTime"] = str(millis(row.ended_at))
        # final metrics of the trial's parameter sets, in the order in which they were recorded
        finals = sorted(held.final.line for held in sets if held.final is not None)
        if status is TrialStatus.SUCCEEDED and finals:
            fields["finalMetricData"] = f"[{','.join(metric_text(each, main) for each in finals)}]"
        if status is TrialStatus.FAILED:
            fields["stderrPath"] = quote(f"{log_path}/stderr")
        return "{" + ",".join(f'"{key}":{text}' for key, text in fields.items()) + "}"


def _records(row: TrialRow, sets: Sequence[TrialSet]) -> Iterator[str]:
    """Yield a JSON string for each parameter set of the trial, in NNI's format.

    Each string contains the field parameter_index, because NNI's Python client needs it.
    """
    for index, held in enumerate(sets):
        parameters = stringify(parse(held.parameters, strict=False))
        parameter_id = "null" if held.parameter_id is None else str(held.parameter_id)
        source = SuggestionSource.ALGORITHM if index else row.source
        yield quote(
            f'{{"parameter_id":{parameter_id},"parameter_source":"{source.nni_name}",'
            f'"parameters":{parameters},"parameter_index":{index}}}'
        )


def _message(row: TrialRow) -> str:
    """Return the message about a trial, made from its reason and note; "" for a success without a note."""
    reason = row.reason if row.status is not TrialStatus.SUCCEEDED else None
    return "; ".join(sentence for sentence in (reason, row.note) if sentence)
