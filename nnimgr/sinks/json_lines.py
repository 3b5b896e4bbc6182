"""Sink that appends each event as one JSON object to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnimgr.sink import Event, Experiment, Sink, as_json
from nnimgr.sinks.appended import AppendedFiles

__all__ = ["JsonLinesSink"]

FILE = "events.jsonl"


class JsonLinesSink(Sink):
    """Sink that writes ``events.jsonl``. ``directory``: its folder.

    A rollback is an event of its own, ``TrialRestarted``: reports of the trial from its step on no longer
    count.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._files: AppendedFiles

    def open(self, experiment: Experiment) -> int:
        folder = Path(self._directory) if self._directory else experiment.directory
        self._files = AppendedFiles(folder, experiment, sink="jsonl")
        return self._files.open()

    def write(self, events: Sequence[Event]) -> None:
        lines = "".join(as_json(_plain(event)) + "\n" for event in events)
        self._files.commit(events[-1].number, {FILE: [lines.encode("utf-8", "backslashreplace")]})


def _plain(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **asdict(event), "at": event.at.isoformat()}
