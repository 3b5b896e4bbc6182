"""Sink that writes event files for TensorBoard: curves as scalars, and parameters with results as HParams."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnimgr.sink import (
    Event,
    Experiment,
    Reported,
    Sink,
    SinkError,
    TrialCreated,
    TrialEnded,
    TrialRestarted,
    as_json,
)
from nnimgr.sinks.appended import AppendedFiles
from nnimgr.sinks.numbers import numbers_of

__all__ = ["TensorBoardSink"]

_FILE = "events.out.tfevents.nnimgr"
_OWN = ("value", "result")  # tags of the number that counts: in intermediate results, and at the end


class TensorBoardSink(Sink):
    """Sink that writes one folder with an event file for each trial. ``directory``: their parent folder.

    After a rollback, a record makes TensorBoard drop the points of the trial that no longer count. HParams
    shows the parameters with which a trial began, because TensorBoard keeps the first ones of a run.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._files: AppendedFiles

    def open(self, experiment: Experiment) -> int:
        try:
            import tensorboard.plugins.hparams.summary_v2  # noqa: F401 (checks that it is installed)
        except ImportError as error:
            raise SinkError(f"tensorboard is needed and cannot be imported: {error}") from error
        folder = Path(self._directory) if self._directory else experiment.directory
        self._files = AppendedFiles(folder, experiment, sink="tensorboard")
        return self._files.open()

    def write(self, events: Sequence[Event]) -> None:
        records: dict[str, list[bytes]] = {}
        for event in events:
            if not isinstance(event, TrialCreated | Reported | TrialRestarted | TrialEnded):
                continue
            name = f"{event.name}/{_FILE}"
            if name not in records:
                new = not self._files.size(name)
                records[name] = [_record(event, file_version="brain.Event:2")] if new else []
            records[name] += _records(event)
        appended = {name: map(_framed, found) for name, found in records.items()}
        self._files.commit(events[-1].number, appended)


def _records(event: TrialCreated | Reported | TrialRestarted | TrialEnded) -> list[bytes]:
    match event:
        case TrialCreated():
            return [_parameters(event, event.parameters)]
        case Reported():
            return _scalars(event, event.step, "value", event.value, event.result)
        case TrialRestarted():
            return [_start(event, event.step)]
        case TrialEnded():
            return [*_scalars(event, 0, "result", event.value, event.result), _end(event)]


def _framed(record: bytes) -> bytes:
    """Return a record as it is written to an event file, with its length and checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    RecordWriter(file).write(record)
    return file.getvalue()


def _record(event: Event, *, step: int = 0, **content: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event as Record

    written: bytes = Record(wall_time=event.at.timestamp(), step=step, **content).SerializeToString()
    return written


def _start(event: Event, step: int) -> bytes:
    """Return the record that makes TensorBoard drop the points from this step on."""
    from tensorboard.compat.proto.event_pb2 import SessionLog

    return _record(event, step=step, session_log=SessionLog(status=SessionLog.START))


def _scalars(event: Event, step: int, tag: str, value: float | None, result: Any) -> list[bytes]:
    """Return a record with the number that counts, and with each other number of the result."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    prefix = "" if tag == "value" else f"{tag}/"
    more = {prefix + name: number for name, number in numbers_of(result).items() if name not in _OWN}
    numbers = more if value is None else {tag: value, **more}
    values = [Summary.Value(tag=name, simple_value=number) for name, number in numbers.items()]
    return [_record(event, step=step, summary=Summary(value=values))] if values else []


def _parameters(event: TrialCreated, parameters: Any) -> bytes:
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    cells = parameters if isinstance(parameters, dict) else {"parameters": parameters}
    plain = {
        str(name): value if isinstance(value, bool | int | float | str) else as_json(value)
        for name, value in cells.items()
    }
    summary = hparams_pb(plain, trial_id=event.name, start_time_secs=event.at.timestamp())
    return _record(event, summary=summary)


def _end(event: TrialEnded) -> bytes:
    """Return the record that tells HParams how the trial has ended."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    status = api_pb2.STATUS_SUCCESS if event.status == "SUCCEEDED" else api_pb2.STATUS_FAILURE
    info = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=event.at.timestamp())
    data = plugin_data_pb2.HParamsPluginData(session_end_info=info)
    value = Summary.Value(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return _record(event, summary=Summary(value=[value]))
