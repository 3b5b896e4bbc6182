"""Sink that logs each trial as a run of MLflow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nnimgr.sink import (
    Event,
    Experiment,
    ExperimentMoved,
    Reported,
    Sink,
    SinkError,
    TrialCreated,
    TrialEnded,
    TrialRestarted,
    TrialStarted,
    as_json,
)
from nnimgr.sinks.numbers import numbers_of

__all__ = ["MlflowSink"]

_TRIAL = "nnimgr.trial"  # tag of a run: the trial's name
_NUMBER = "nnimgr.number"  # tag of the experiment: number of the last event that is logged
_ODD = re.compile(r"[^\w.\- /]")
_MOST_NAME = 250  # MLflow's limit for a name
_MOST_TEXT = 6000  # MLflow's limit for the text of a parameter
_STATUSES = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED"}


class MlflowSink(Sink):
    """Sink that logs to MLflow. ``trackingUri``: of the server or folder; default: MLflow's own default.

    ``experimentName``: of the experiment there; default: the experiment's name and id. Points are identified
    by step and time, which are those of the event, so MLflow ignores a point that it has already. After a
    rollback, the trial gets another run with the points that still count, and its earlier run is deleted.
    """

    def __init__(self, trackingUri: str | None = None, experimentName: str | None = None) -> None:
        self._uri, self._name = trackingUri, experimentName
        self._client: Any = None
        self._experiment: Experiment
        self._there = ""  # id of the experiment in MLflow
        self._runs: dict[str, str] = {}  # trial's name -> id of its run

    def open(self, experiment: Experiment) -> int:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise SinkError(f"mlflow is needed and cannot be imported: {error}") from error
        self._client, self._experiment = MlflowClient(tracking_uri=self._uri), experiment
        name = self._name or " ".join(filter(None, (experiment.name, experiment.id)))
        found = self._client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            raise SinkError(
                f"the experiment {name!r} was deleted in MLflow: restore it there, or name another one "
                "(classArgs.experimentName)"
            )
        self._there = self._client.create_experiment(name) if found is None else found.experiment_id
        tags = {} if found is None else found.tags
        return int(tags.get(self._cursor, 0))

    @property
    def _cursor(self) -> str:
        """Tag of the experiment in MLflow, which may have the trials of several experiments."""
        return f"{_NUMBER}.{self._experiment.key}"

    def write(self, events: Sequence[Event]) -> None:
        from mlflow.entities import Metric

        points: dict[str, list[Any]] = {}
        for event in events:
            match event:
                case TrialCreated():
                    self._create(event, event.parameters)
                case TrialStarted() | ExperimentMoved():
                    pass
                case Reported():
                    for name, value in _numbers("value", event.value, event.result).items():
                        point = Metric(name, value, _milliseconds(event.at), event.step)
                        points.setdefault(event.name, []).append(point)
                case TrialRestarted():
                    points.pop(event.name, None)
                    self._renew(event, event.parameters, before_step=event.step)
                case TrialEnded():
                    if event.parameters is None:
                        self._log(event.name, points.pop(event.name, []))
                    else:  # the run has those of the trial's first set
                        points.pop(event.name, None)
                        self._renew(event, event.parameters)
                    self._end(event)
        for name, found in points.items():
            self._log(name, found)
        self._client.set_experiment_tag(self._there, self._cursor, str(events[-1].number))

    def _create(self, event: TrialCreated | TrialRestarted | TrialEnded, parameters: Any) -> None:
        from mlflow.entities import Param

        run = self._run(event.name)
        if run is None:
            created = self._client.create_run(
                self._there,
                start_time=_milliseconds(event.at),
                run_name=event.name,
                tags={_TRIAL: self._tag(event.name)},
            )
            run = self._runs[event.name] = created.info.run_id
        cells = parameters if isinstance(parameters, dict) else {"parameters": parameters}
        texts = {_valid(str(name)): v if isinstance(v, str) else as_json(v) for name, v in cells.items()}
        self._client.log_batch(run, params=[Param(name, text[:_MOST_TEXT]) for name, text in texts.items()])

    def _renew(
        self, event: TrialRestarted | TrialEnded, parameters: Any, *, before_step: int | None = None
    ) -> None:
        """Replace the trial's run by one with these parameters and the points that count.

        ``parameters``: None: those of the run. ``before_step``: only points with lower steps count.
        """
        from mlflow.entities import Metric

        before = self._run(event.name)
        if before is not None:
            if parameters is None:
                parameters = self._client.get_run(before).data.params
            self._client.delete_run(before)
            self._runs.pop(event.name, None)
        self._create(event, parameters or {})
        points = [
            Metric(name, number, _milliseconds(at), step)
            for step, at, value, result in self._experiment.curve(event.trial_id)
            if before_step is None or step < before_step
            for name, number in _numbers("value", value, result).items()
        ]
        self._log(event.name, points)

    def _end(self, event: TrialEnded) -> None:
        run = self._run(event.name)
        if run is None:
            return
        for name, value in _numbers("result", event.value, event.result).items():
            self._client.log_metric(run, name, value, timestamp=_milliseconds(event.at), step=0)
        self._client.set_tag(run, "nnimgr.reason", event.reason)
        status = _STATUSES.get(event.status, "KILLED")
        self._client.set_terminated(run, status=status, end_time=_milliseconds(event.at))

    def _log(self, name: str, points: Sequence[Any]) -> None:
        run = self._run(name)
        for first in range(0, len(points) if run else 0, 1000):  # MLflow's limit for a batch
            self._client.log_batch(run, metrics=points[first : first + 1000])

    def _run(self, name: str) -> str | None:
        """Return the id of a trial's run; None if there is none yet."""
        if name not in self._runs:
            query = f"tags.`{_TRIAL}` = '{self._tag(name)}'"
            found = self._client.search_runs([self._there], query, max_results=1)
            if not found:
                return None
            self._runs[name] = found[0].info.run_id
        return self._runs[name]

    def _tag(self, name: str) -> str:
        return f"{self._experiment.key}/{name}"


def _numbers(tag: str, value: float | None, result: Any) -> dict[str, float]:
    """Return the numbers of a result by the names of metrics. The number that counts has the name ``tag``."""
    prefix = "" if tag == "value" else f"{tag}/"
    more = {_valid(prefix + name): number for name, number in numbers_of(result).items()}
    return more if value is None else {**more, tag: value}


def _valid(name: str) -> str:
    """Return a name that MLflow accepts: it has other characters and parts replaced by "_"."""
    parts = _ODD.sub("_", name).split("/")
    return "/".join("_" if part in ("", ".", "..") else part for part in parts)[:_MOST_NAME]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
