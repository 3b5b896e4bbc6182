"""Sink that writes each ended trial as an offline run of Weights & Biases, for ``wandb sync``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnimgr.sink import Event, Experiment, Sink, SinkError, TrialCreated, TrialEnded, TrialRestarted, as_json
from nnimgr.sinks.appended import AppendedFiles

__all__ = ["WandbSink"]

_PARAMETERS = "parameters.json"


class WandbSink(Sink):
    """Sink that writes offline runs. ``directory``: the folder in which ``wandb`` is created.

    ``project``, ``entity``: where the runs belong. A run is written when its trial has ended, with the points
    that count then. So a rollback leaves nothing in it. A run that a killed process has begun is written
    again.
    """

    def __init__(
        self, directory: str | None = None, project: str | None = None, entity: str | None = None
    ) -> None:
        self._directory, self._project, self._entity = directory, project, entity
        self._experiment: Experiment
        self._folder = Path()
        self._files: AppendedFiles
        self._parameters: dict[str, Any] = {}  # of the trials that have not ended, by their ids

    def open(self, experiment: Experiment) -> int:
        try:
            import wandb  # noqa: F401 (checks that it is installed)
        except ImportError as error:
            raise SinkError(f"wandb is needed and cannot be imported: {error}") from error
        self._experiment = experiment
        self._folder = Path(self._directory) if self._directory else experiment.directory
        self._files = AppendedFiles(self._folder, experiment, sink="wandb")
        number = self._files.open()
        if self._files.size(_PARAMETERS):
            self._parameters = json.loads((self._folder / _PARAMETERS).read_text(encoding="utf-8"))
        return number

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case TrialCreated():
                    self._parameters[event.trial_id] = [event.at.timestamp(), event.parameters]
                case TrialRestarted() if event.parameters is not None:
                    self._parameters[event.trial_id][1] = event.parameters
                case TrialEnded():
                    self._write_run(event)
        ended = [event.trial_id for event in events if isinstance(event, TrialEnded)]
        left = {trial: given for trial, given in self._parameters.items() if trial not in ended}
        self._files.commit(events[-1].number, {}, {_PARAMETERS: [as_json(left).encode()]})
        self._parameters = left

    def _write_run(self, event: TrialEnded) -> None:
        import wandb

        run_id = f"{self._experiment.id}-{event.name}"
        for unfinished in (self._folder / "wandb").glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(unfinished, ignore_errors=True)
        began, parameters = self._parameters[event.trial_id]
        if event.parameters is not None:
            parameters = event.parameters
        run = wandb.init(
            mode="offline",
            id=run_id,
            name=event.name,
            group=self._experiment.name or self._experiment.id,
            project=self._project,
            entity=self._entity,
            dir=str(self._folder),
            config=parameters if isinstance(parameters, dict) else {"parameters": parameters},
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        for step, at, value, result in self._experiment.curve(event.trial_id):
            numbers = result if isinstance(result, dict) else {}
            more = {} if value is None else {"value": value}
            run.log({**numbers, **more, "_timestamp": at.timestamp()}, step=step)
        more = event.result if isinstance(event.result, dict) else {}
        final = {f"result/{name}": number for name, number in more.items()}
        run.summary.update({**final, "result": event.value, "status": event.status, "reason": event.reason})
        run.summary["seconds"] = event.at.timestamp() - began
        run.finish(exit_code=0 if event.status == "SUCCEEDED" else 1)
